package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// OnConflict says what a Conversation does when it finds that another writer
// has written to its session.
type OnConflict int

const (
	// ConflictFail returns ErrConflict; what was to be written is not.
	ConflictFail OnConflict = iota
	// ConflictReload takes up what the other wrote and writes behind it. If
	// the other has removed or replaced what this conversation knew:
	// ErrConflict.
	ConflictReload
	// ConflictAppend writes behind whatever the session holds by then.
	// Where that splits a tool call from its result, Repair regroups the two
	// in the view.
	ConflictAppend
)

// ConversationOptions are the options of Begin. nil and zero values are
// defaults for production.
type ConversationOptions struct {
	// Policy makes the view. nil: the whole history, repaired.
	Policy HistoryPolicy
	// Lease takes the session's lease from Begin to End, without waiting: if
	// another has it, Begin returns ErrLocked. It needs a Locker.
	Lease bool
	// OnConflict is for a Log. Zero: ConflictFail.
	OnConflict OnConflict
	// Retries is how often a failed write is tried again. 0: 3. Negative:
	// never. Retries are safe on a Log: they carry a key.
	Retries int
	// WriteTimeout bounds a write with its retries. Writes outlive the
	// caller's context, so that what was produced is not lost with it. 0: 10
	// seconds.
	WriteTimeout time.Duration
	// OnError is told of a write that has failed for good. What it returns is
	// what Append returns; nil goes on without what was not stored, which then
	// is in Messages but not in the store. nil: Append returns the error.
	OnError func(ctx context.Context, err error) error
}

// Conversation is one session at work: its history in memory, written through
// to a store. SessionPlugin is made of it; use it directly in a loop of your
// own. Its methods may be called from any goroutine, but it is one writer:
// what two goroutines append comes in either order.
type Conversation struct {
	store Store
	log   Log // nil over a plain Store
	id    string
	opts  ConversationOptions
	lease Lease

	mu       sync.Mutex
	messages []Message // those up to len never change
	recent   []Message // those appended since; apart, so that the first does not cost a copy of all before it
	version  Version
	keys     keyMaker
	ended    bool
}

// Begin loads a session's history and, if the options say so, takes its lease.
// The session need not exist.
func Begin(ctx context.Context, store Store, sessionID string, opts *ConversationOptions) (*Conversation, error) {
	c := &Conversation{store: store, id: sessionID}
	if opts != nil {
		c.opts = *opts
	}
	if err := c.begin(ctx); err != nil {
		return nil, wrapError("begin", sessionID, err)
	}
	return c, nil
}

func (c *Conversation) begin(ctx context.Context) (err error) {
	if c.store == nil {
		return fmt.Errorf("%w: no store", ErrInvalidOption)
	}
	if c.opts.Retries == 0 {
		c.opts.Retries = 3
	}
	if c.opts.WriteTimeout <= 0 {
		c.opts.WriteTimeout = 10 * time.Second
	}
	c.log, _ = c.store.(Log)
	if c.opts.Lease {
		locker, ok := c.store.(Locker)
		if !ok {
			return fmt.Errorf("%w: a lease needs a session.Locker", errors.ErrUnsupported)
		}
		if c.lease, err = locker.Lock(ctx, c.id, &LockOptions{NoWait: true}); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, c.release(ctx))
			}
		}()
	}
	c.messages, c.version, err = c.load(ctx)
	return err
}

func (c *Conversation) load(ctx context.Context) ([]Message, Version, error) {
	if c.log == nil {
		m, err := c.store.Load(ctx, c.id)
		return m, "", err
	}
	s, err := c.log.Read(ctx, c.id, nil)
	return s.Messages, s.Version, err
}

// ID returns the session's ID.
func (c *Conversation) ID() string { return c.id }

// Version returns the version that the session is at, as far as the
// conversation knows. It is empty over a plain Store.
func (c *Conversation) Version() Version {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// Messages returns a copy of the history.
func (c *Conversation) Messages() []Message { return CloneMessages(c.history()) }

// history returns the history itself, which nobody may change.
func (c *Conversation) history() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.known())
}

// known returns the history. The caller holds mu.
func (c *Conversation) known() []Message {
	if len(c.recent) > 0 {
		c.messages, c.recent = append(c.messages, c.recent...), nil
	}
	return c.messages
}

// View returns what to send to a model: the history through the policy, and
// repaired, so that every provider accepts it. The store is left as it is. The
// view shares blocks with other views and is not to be changed.
func (c *Conversation) View(ctx context.Context) ([]Message, error) {
	view := c.history()
	if c.opts.Policy != nil {
		var err error
		if view, err = c.opts.Policy.Select(WithSummaryKeeper(ctx, c), view); err != nil {
			return nil, wrapError("view", c.id, err)
		}
	}
	return Repair(view), nil
}

// Append adds messages to the history and stores them, as one batch. It copies
// them. The write outlives ctx, up to WriteTimeout; if ctx is done before the
// call, that changes nothing.
func (c *Conversation) Append(ctx context.Context, messages ...Message) error {
	return c.appendOwned(ctx, CloneMessages(messages))
}

// appendOwned is Append of messages that nobody will change.
func (c *Conversation) appendOwned(ctx context.Context, added []Message) (err error) {
	if len(added) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return wrapError("append", c.id, ErrClosed)
	}
	patient := outlive(ctx, c.opts.WriteTimeout)
	defer patient.end()
	if c.log != nil {
		err = c.appendToLog(patient, added)
	} else {
		err = c.retry(patient, func() error { return c.appendToStore(patient, added) })
	}
	if err != nil {
		if c.opts.OnError != nil {
			err = c.opts.OnError(context.WithoutCancel(ctx), err)
		}
		if err != nil {
			return err
		}
		c.recent = append(c.recent, added...)
	}
	return nil
}

// Rewind removes the last turns from the history and the store, and returns the
// messages removed; see the function Rewind. It needs a Log.
func (c *Conversation) Rewind(ctx context.Context, turns int) ([]Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log == nil {
		return nil, wrapError("rewind", c.id, fmt.Errorf("%w: it needs a session.Log", errors.ErrUnsupported))
	}
	if turns <= 0 {
		return nil, wrapError("rewind", c.id, fmt.Errorf("%w: %d turns", ErrInvalidOption, turns))
	}
	known := c.known()
	keep := withoutTurns(known, turns)
	v, err := c.log.Truncate(ctx, c.id, keep, &WriteOptions{IfVersion: c.version})
	if err != nil {
		return nil, err
	}
	removed := CloneMessages(known[keep:])
	c.become(slices.Clone(known[:keep]))
	c.version = v
	return removed, nil
}

// Fork begins another session with the history as it is; see the function
// Fork. It needs a Backend.
func (c *Conversation) Fork(ctx context.Context, to string) (Info, error) {
	b, ok := c.store.(Backend)
	if !ok {
		return Info{}, wrapError("fork", c.id, fmt.Errorf("%w: it needs a session.Backend", errors.ErrUnsupported))
	}
	return Fork(ctx, b, c.id, to, &ForkOptions{IfVersion: c.Version()})
}

// End gives up the lease, if there is one. A conversation that has ended takes
// no more messages. End may be repeated.
func (c *Conversation) End(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	return c.release(ctx)
}

func (c *Conversation) release(ctx context.Context) error {
	if c.lease == nil {
		return nil
	}
	patient := outlive(ctx, c.opts.WriteTimeout)
	defer patient.end()
	return c.lease.Release(patient)
}

// Lost returns a channel that is closed when the conversation's lease has
// ended, by End or because it was lost. Without a lease it is nil.
func (c *Conversation) Lost() <-chan struct{} {
	if c.lease == nil {
		return nil
	}
	return c.lease.Done()
}

// KeptSummary implements SummaryKeeper from the session's Meta.
func (c *Conversation) KeptSummary(ctx context.Context) (Summary, error) {
	b, ok := c.store.(Catalog)
	if !ok {
		return Summary{}, nil
	}
	info, err := b.Info(ctx, c.id)
	if errors.Is(err, ErrNotFound) {
		return Summary{}, nil
	}
	return Summary{info.Summary, info.SummaryThrough, info.SummaryHash}, err
}

// KeepSummary implements SummaryKeeper in the session's Meta.
func (c *Conversation) KeepSummary(ctx context.Context, s Summary) error {
	b, ok := c.store.(Catalog)
	if !ok {
		return nil
	}
	_, err := b.Update(ctx, c.id, func(m *Meta) error {
		m.Summary, m.SummaryThrough, m.SummaryHash = s.Text, s.Through, s.Hash
		return nil
	})
	return err
}
