package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	l := &lease{b: b, id: id, slot: b.slots.enter(id), term: o.Term, token: newToken(), done: make(chan struct{}), stop: make(chan struct{})}
	l.end = sync.OnceFunc(func() { close(l.done) })
	if err := l.acquire(ctx, o.NoWait); err != nil {
		b.slots.leave(l.slot)
		return nil, err
	}
	b.leases.Go(l.keep)
	return l, nil
}

// lease is a Lease. Its goroutine, keep, owns rev, expires and until once it is
// held.
type lease struct {
	b       *DriverBackend
	id      string
	slot    *slot
	term    time.Duration
	token   uint64    // in all revisions that this holder writes
	writes  uint64    // how many
	rev     string    // of the lease's head, as this holder last saw it
	expires time.Time // by the store's clock
	until   time.Time // the same, by this process's own

	done    chan struct{}
	end     func()        // closes done, once
	stop    chan struct{} // closed by Release
	stopped sync.Once
	ended   error // of giving it up; read after done
}

func (l *lease) acquire(ctx context.Context, noWait bool) error {
	waited := false
	for wait := minLeasePoll; ; wait = min(2*wait, maxLeasePoll) {
		wake := l.slot.waker()
		h, err := l.b.driver.Head(ctx, leaseID(l.id))
		if err == nil && (h.Rev == "" || expired(h.Expires, l.b.now())) {
			var held bool
			if held, err = l.write(ctx, h.Rev); held {
				if time.Now().Before(l.until) && !expired(l.expires, l.b.now()) {
					return nil
				}
				err = l.giveUp() // it took longer than the term
			} else if err == nil && !noWait {
				continue // another came first: see who
			}
		}
		if err != nil {
			if waited && ctx.Err() != nil {
				err = fmt.Errorf("%w: %w", ErrLocked, err)
			}
			return contextError(ctx, err)
		}
		if noWait {
			return ErrLocked
		}
		waited = true
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

// write makes the lease this holder's for another term, if its head is still
// at revision ifRev. If the reply is lost it looks what became of it.
func (l *lease) write(ctx context.Context, ifRev string) (held bool, err error) {
	now, until := l.b.now(), time.Now().Add(l.term)
	l.writes++
	rev := stamp{l.writes, l.token}.String()
	head := Head{ID: leaseID(l.id), Rev: rev, Base: rev, Updated: now, Expires: now.Add(l.term), Record: []byte{recordFormat}}
	err = l.b.driver.Commit(ctx, head.ID, Commit{IfRev: ifRev, Head: &head, SetMeta: true})
	if err != nil {
		h, mine, lookErr := l.look(ctx)
		switch {
		case mine && h.Rev != rev && h.Rev != ifRev: // an earlier write, which came late
			return l.write(ctx, h.Rev)
		case !mine && errors.Is(err, ErrConflict):
			return false, contextError(ctx, lookErr)
		case h.Rev != rev:
			return false, contextError(ctx, err)
		}
	}
	l.rev, l.expires, l.until = rev, head.Expires, until
	return true, nil
}

// look reads the lease's head and reports whether it is this holder's.
func (l *lease) look(ctx context.Context) (h Head, mine bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(resolveTimeout, l.term))
	defer cancel()
	h, err = l.b.driver.Head(ctx, leaseID(l.id))
	return h, err == nil && strings.HasSuffix(h.Rev, stamp{0, l.token}.String()[1:]), err
}

// keep renews the lease until it is released, lost, or the store closes.
func (l *lease) keep() {
	defer l.b.slots.leave(l.slot)
	defer l.slot.wakeAll()
	defer l.end()
	lost := time.AfterFunc(time.Until(l.until), l.end) // whatever driver and clock do
	defer lost.Stop()
	every := l.term / 3
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			if err := l.giveUp(); lost.Stop() {
				l.ended = err
			}
			return
		case <-l.b.ending:
			l.giveUp()
			return
		case <-l.done:
			return
		case <-t.C:
			if expired(l.expires, l.b.now()) {
				l.end()
				l.giveUp()
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), every)
			held, err := l.write(ctx, l.rev)
			cancel()
			if !held && err == nil {
				return
			}
			if !lost.Reset(time.Until(l.until)) { // too late
				l.giveUp()
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
	if err == nil {
		return nil
	}
	h, mine, lookErr := l.look(ctx)
	switch {
	case mine && h.Rev != l.rev: // a renewal that came late
		return l.b.driver.Commit(ctx, leaseID(l.id), Commit{IfRev: h.Rev})
	case mine || lookErr != nil:
		return err
	}
	return nil
}

// Done implements Lease.
func (l *lease) Done() <-chan struct{} { return l.done }

// Release implements Lease.
func (l *lease) Release(ctx context.Context) error {
	l.stopped.Do(func() { close(l.stop) })
	select {
	case <-l.done:
		return wrapError("release", l.id, l.ended)
	default:
	}
	select {
	case <-l.done:
		return wrapError("release", l.id, l.ended)
	case <-ctx.Done():
		return wrapError("release", l.id, ctx.Err())
	}
}
