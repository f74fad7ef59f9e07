package memstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/session"
)

// leases are who holds which session. A holder lives as long as the store, so
// what renews a lease is its holder's goroutine alone.
type leases struct {
	now     func() time.Time
	closing <-chan struct{} // of the store
	mu      sync.Mutex
	held    map[string]*lease
	waiting map[string][]*waiter // first come, first served
}

// waiter is a Lock that waits.
type waiter struct {
	term time.Duration
	got  chan *lease // holds one
}

// lease is a session.Lease. Its fields are guarded by leases.mu.
type lease struct {
	all     *leases
	id      string
	term    time.Duration
	expires time.Time // by the store's clock
	renew   *time.Timer
	done    chan struct{}
}

func (a *leases) init(now func() time.Time, closing <-chan struct{}) {
	a.now, a.closing = now, closing
	a.held, a.waiting = make(map[string]*lease), make(map[string][]*waiter)
}

// Lock implements session.Locker.
func (s *Store) Lock(ctx context.Context, sessionID string, opts *session.LockOptions) (session.Lease, error) {
	var o session.LockOptions
	if opts != nil {
		o = *opts
	}
	if err := s.begin(ctx, sessionID); err != nil {
		return nil, fail("lock", sessionID, err)
	}
	defer s.gate.Leave()
	if err := o.Check(); err != nil {
		return nil, fail("lock", sessionID, err)
	}
	if o.Term == 0 {
		o.Term = session.DefaultLockTerm
	}
	l, err := s.leases.take(ctx, sessionID, o)
	if err != nil {
		return nil, fail("lock", sessionID, err)
	}
	return l, nil
}

func (a *leases) take(ctx context.Context, id string, o session.LockOptions) (*lease, error) {
	a.mu.Lock()
	if holder := a.held[id]; holder != nil && holder.expired() {
		holder.end()
	}
	if a.held[id] == nil {
		defer a.mu.Unlock()
		return a.give(id, o.Term), nil
	}
	if o.NoWait {
		a.mu.Unlock()
		return nil, session.ErrLocked
	}
	w := &waiter{o.Term, make(chan *lease, 1)}
	a.waiting[id] = append(a.waiting[id], w)
	a.mu.Unlock()
	var err error
	select {
	case l := <-w.got:
		return l, nil
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", session.ErrLocked, ctx.Err())
	case <-a.closing:
		err = session.ErrClosed
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case l := <-w.got: // at the last moment: for the next
		l.end()
	default:
		a.waiting[id] = slices.DeleteFunc(a.waiting[id], func(x *waiter) bool { return x == w })
		if len(a.waiting[id]) == 0 {
			delete(a.waiting, id)
		}
	}
	return nil, err
}

// give makes a lease that is free somebody's. The caller holds leases.mu.
func (a *leases) give(id string, term time.Duration) *lease {
	l := &lease{all: a, id: id, term: term, expires: a.now().Add(term), done: make(chan struct{})}
	l.renew = time.AfterFunc(term/3, l.extend)
	a.held[id] = l
	return l
}

func (l *lease) expired() bool { return !l.all.now().Before(l.expires) }

// extend renews a lease whose term has not run out, and ends one whose has.
func (l *lease) extend() {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.all.held[l.id] != l {
		return
	}
	if l.expired() {
		l.end()
		return
	}
	l.expires = l.all.now().Add(l.term)
	l.renew.Reset(l.term / 3)
}

// end ends a lease that is held; who waits longest has it next. The caller holds
// leases.mu.
func (l *lease) end() {
	delete(l.all.held, l.id)
	l.renew.Stop()
	close(l.done)
	if q := l.all.waiting[l.id]; len(q) > 0 {
		if l.all.waiting[l.id] = q[1:]; len(q) == 1 {
			delete(l.all.waiting, l.id)
		}
		q[0].got <- l.all.give(l.id, q[0].term)
	}
}

// close ends all leases. No Lock is running any more.
func (a *leases) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.held {
		l.end()
	}
}

// Done implements session.Lease.
func (l *lease) Done() <-chan struct{} { return l.done }

// Release implements session.Lease.
func (l *lease) Release(context.Context) error {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.all.held[l.id] == l {
		l.end()
	}
	return nil
}
