package storetest

import (
	"sync"
	"time"
)

// Clock is a clock that moves only when it is told to. It starts at the time
// of NewClock. Its methods may be called from any goroutine.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows the present time, without a monotonic
// reading, until it is moved.
func NewClock() *Clock { return &Clock{now: time.Now().UTC().Round(0)} }

// Now returns the time that c shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves c by d; back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
