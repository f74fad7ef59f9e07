package memstore

import (
	"context"
	"fmt"
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
	freed   chan struct{} // closed, and replaced, when any lease ends
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
	a.held, a.freed = make(map[string]*lease), make(chan struct{})
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
	for {
		a.mu.Lock()
		holder := a.held[id]
		if holder != nil && holder.expired() {
			holder.end()
			holder = nil
		}
		if holder == nil {
			l := &lease{all: a, id: id, term: o.Term, expires: a.now().Add(o.Term), done: make(chan struct{})}
			l.renew = time.AfterFunc(o.Term/3, l.extend)
			a.held[id] = l
			a.mu.Unlock()
			return l, nil
		}
		freed := a.freed
		a.mu.Unlock()
		if o.NoWait {
			return nil, session.ErrLocked
		}
		poll := time.NewTimer(o.Term / 3) // the store's clock may end a lease
		select {
		case <-freed:
		case <-poll.C:
		case <-ctx.Done():
			poll.Stop()
			return nil, fmt.Errorf("%w: %w", session.ErrLocked, ctx.Err())
		case <-a.closing:
			poll.Stop()
			return nil, session.ErrClosed
		}
		poll.Stop()
	}
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

// end ends a lease that is held. The caller holds leases.mu.
func (l *lease) end() {
	delete(l.all.held, l.id)
	l.renew.Stop()
	close(l.done)
	close(l.all.freed)
	l.all.freed = make(chan struct{})
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
