package session

import (
	"context"
	"sync"
	"time"
)

// patientContext outlives its parent's cancellation, but not for longer than
// limit. The time begins when somebody first waits on it: a store in memory,
// which never does, is spared the timer, which would cost as much as its write.
type patientContext struct {
	context.Context // the parent, for its values
	limit           time.Duration

	mu    sync.Mutex
	timed context.Context // nil: nobody has waited yet
	stop  context.CancelFunc
}

func outlive(parent context.Context, limit time.Duration) *patientContext {
	return &patientContext{Context: parent, limit: limit}
}

func (c *patientContext) arm() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.stop = context.WithTimeout(context.WithoutCancel(c.Context), c.limit)
	}
	return c.timed
}

// Deadline implements context.Context.
func (c *patientContext) Deadline() (time.Time, bool) { return c.arm().Deadline() }

// Done implements context.Context.
func (c *patientContext) Done() <-chan struct{} { return c.arm().Done() }

// Err implements context.Context.
func (c *patientContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		return nil
	}
	return c.timed.Err()
}

// end releases the timer, if there is one.
func (c *patientContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
	}
}
