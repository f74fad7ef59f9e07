package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// A lease is a session of its own, hidden and without messages, whose ID is
// NUL and the session's ID. Whoever creates its head, or replaces an expired
// one, holds it; the head's expiry is the end of the term.
func leaseID(sessionID string) string { return "\x00" + sessionID }

// leasePoll is how long a waiting Lock looks away: releases in this process
// wake it at once, those elsewhere it has to find.
const (
	minLeasePoll = 2 * time.Millisecond
	maxLeasePoll = 250 * time.Millisecond
)

// Lock implements Locker.
func (b *DriverBackend) Lock(ctx context.Context, sessionID string, opts *LockOptions) (Lease, error) {
	var o LockOptions
	if opts != nil {
		o = *opts
	}
	l, err := b.lock(ctx, sessionID, o)
	if err != nil {
		return nil, wrapError("lock", sessionID, err)
	}
	return l, nil
}

func (b *DriverBackend) lock(ctx context.Context, id string, o LockOptions) (*lease, error) {
	if err := b.begin(ctx, id); err != nil {
		return nil, err
	}
	defer b.gate.Leave()
	if err := o.Check(); err != nil {
		return nil, err
	}
	if o.Term == 0 {
		o.Term = DefaultLockTerm
	}
	l := &lease{b: b, id: id, slot: b.slots.enter(id), term: o.Term, done: make(chan struct{}), stop: make(chan struct{})}
	if err := l.acquire(ctx, o.NoWait); err != nil {
		b.slots.leave(l.slot)
		return nil, err
	}
	b.leases.Go(l.keep)
	return l, nil
}

// lease is a Lease. Its goroutine, keep, owns rev and expires once it is held.
type lease struct {
	b       *DriverBackend
	id      string
	slot    *slot
	term    time.Duration
	rev     string    // of the lease's head, as this holder last wrote it
	expires time.Time // by the store's clock

	done    chan struct{} // closed when the lease has ended
	stop    chan struct{} // closed by Release
	stopped sync.Once
	ended   error // of giving it up; read after done
}

func (l *lease) acquire(ctx context.Context, noWait bool) error {
	for wait := minLeasePoll; ; wait = min(2*wait, maxLeasePoll) {
		wake := l.slot.waker()
		if l.closing() {
			return ErrClosed
		}
		h, err := l.b.driver.Head(ctx, leaseID(l.id))
		if err != nil {
			return contextError(ctx, err)
		}
		if h.Rev == "" || expired(h.Expires, l.b.now()) {
			held, err := l.write(ctx, h.Rev)
			if held && l.closing() { // it may have been free for that reason
				l.giveUp()
				return ErrClosed
			}
			if held || err != nil {
				return err
			}
			if !noWait {
				continue // another came first: see who
			}
		}
		if noWait {
			return ErrLocked
		}
		t := time.NewTimer(wait)
		select {
		case <-wake:
			wait = minLeasePoll / 2
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%w: %w", ErrLocked, ctx.Err())
		case <-l.b.gate.Closing():
			t.Stop()
			return ErrClosed
		}
		t.Stop()
	}
}

// closing reports whether Close has begun.
func (l *lease) closing() bool {
	select {
	case <-l.b.gate.Closing():
		return true
	default:
		return false
	}
}

// write makes the lease this holder's for another term, if its head is still
// at revision ifRev. If the reply is lost it looks what became of it.
func (l *lease) write(ctx context.Context, ifRev string) (held bool, err error) {
	now := l.b.now()
	rev := stamp{1, newToken()}.String()
	head := Head{ID: leaseID(l.id), Rev: rev, Base: rev, Updated: now, Expires: now.Add(l.term), Record: []byte{recordFormat}}
	err = l.b.driver.Commit(ctx, head.ID, Commit{IfRev: ifRev, Head: &head, SetMeta: true})
	if err != nil {
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
		defer cancel()
		h, lookErr := l.b.driver.Head(look, head.ID)
		if lookErr != nil || h.Rev != rev {
			if errors.Is(err, ErrConflict) {
				err = lookErr
			}
			return false, contextError(ctx, err)
		}
	}
	l.rev, l.expires = rev, head.Expires
	return true, nil
}

// keep renews the lease until it is released, lost, or the store closes.
func (l *lease) keep() {
	defer l.b.slots.leave(l.slot)
	defer l.slot.wakeAll()
	defer close(l.done)
	every := l.term / 3
	lost := time.NewTimer(l.term) // whatever the store's clock says
	defer lost.Stop()
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			l.ended = l.giveUp()
			return
		case <-l.b.gate.Closing():
			l.giveUp()
			return
		case <-lost.C:
			return
		case <-t.C:
			if expired(l.expires, l.b.now()) {
				l.giveUp()
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), every)
			held, err := l.write(ctx, l.rev)
			cancel()
			if held {
				lost.Reset(l.term)
			} else if err == nil {
				return
			}
		}
	}
}

// giveUp removes the lease's head if it is still this holder's.
func (l *lease) giveUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	err := l.b.driver.Commit(ctx, leaseID(l.id), Commit{IfRev: l.rev})
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

// Done implements Lease.
func (l *lease) Done() <-chan struct{} { return l.done }

// Release implements Lease.
func (l *lease) Release(ctx context.Context) error {
	l.stopped.Do(func() { close(l.stop) })
	select {
	case <-l.done:
		return wrapError("release", l.id, l.ended)
	case <-ctx.Done():
		return wrapError("release", l.id, ctx.Err())
	}
}
