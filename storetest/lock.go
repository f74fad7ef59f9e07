package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var lockRules = []rule{{
	"Lock/KeepsOthersOut",
	"While a lease is held, Lock with NoWait is ErrLocked, through any handle, also for the holder.",
	[]Feature{Locker}, lockKeepsOthersOut,
}, {
	"Lock/WaitsForRelease",
	"Lock waits while another holds the lease, and has it when that one released it.",
	[]Feature{Locker}, lockWaitsForRelease,
}, {
	"Lock/WaitsForTheContext",
	"When the context ends the wait, the error is ErrLocked and the context's.",
	[]Feature{Locker}, lockWaitsForTheContext,
}, {
	"Lock/LeavesNoTraceOfAWaiter",
	"A Lock that gave up waiting doesn't get the lease later.",
	[]Feature{Locker}, lockLeavesNoTraceOfAWaiter,
}, {
	"Lock/ExcludesEachOther",
	"Of many that want a lease, one has it at a time, and all get it.",
	[]Feature{Locker}, lockExcludesEachOther,
}, {
	"Lock/NeedsNoSession",
	"The session need not exist; Lock creates none.",
	[]Feature{Log, Catalog, Locker}, lockNeedsNoSession,
}, {
	"Lock/SurvivesDelete",
	"A lease survives Delete and re-creation of its session.",
	[]Feature{Log, Catalog, Locker}, lockSurvivesDelete,
}, {
	"Lock/DoesNotHinderWrites",
	"Writes and reads ignore leases.",
	[]Feature{Log, Catalog, Locker}, lockDoesNotHinderWrites,
}, {
	"Lock/RefusesBadTerms",
	"A Term that is negative or shorter than 50 ms is ErrInvalidOption.",
	[]Feature{Locker}, lockRefusesBadTerms,
}}

var noWait = &session.LockOptions{NoWait: true}

// wantLocked reports that the lease of session id is not held by another.
func (s *subject) wantLocked(tb testing.TB, when string, args ...any) {
	tb.Helper()
	lease, err := s.locker.Lock(s.ctx, id, noWait)
	wantErr(tb, err, is(session.ErrLocked), "Lock(NoWait) "+when, args...)
	if err == nil {
		lease.Release(s.ctx)
	}
}

// ended reports whether a lease has ended.
func ended(lease session.Lease) bool {
	select {
	case <-lease.Done():
		return true
	default:
		return false
	}
}

func lockKeepsOthersOut(tb testing.TB, s *subject) {
	for _, opts := range []*session.LockOptions{nil, {}, {Term: time.Hour, NoWait: true}} {
		lease := s.lock(tb, id, opts)
		for _, p := range s.peers(tb, 3) {
			p.wantLocked(tb, "while a lease is held")
		}
		want(tb, ended(lease), false, "Done of a lease that is held")
		must(tb, lease.Release(s.ctx), "Release")
		again := s.peer(tb).lock(tb, id, noWait)
		must(tb, again.Release(s.ctx), "Release")
	}
}

func lockWaitsForRelease(tb testing.TB, s *subject) {
	peers := s.peers(tb, 2)
	for round := range 4 {
		waiter := peers[round%2]
		lease := s.lock(tb, id, nil)
		var released atomic.Bool
		started := make(chan struct{})
		got := make(chan error, 1)
		go func() {
			close(started)
			lease, err := waiter.locker.Lock(s.ctx, id, nil)
			if err == nil && !released.Load() {
				err = errors.New("Lock returned a lease that another held")
			}
			if lease != nil {
				err = errors.Join(err, lease.Release(s.ctx))
			}
			got <- err
		}()
		s.awaitDone(tb, started, "start of a goroutine")
		for range 20 {
			s.wantLocked(tb, "while a lease is held and another waits")
		}
		released.Store(true)
		must(tb, lease.Release(s.ctx), "Release")
		if err, ok := s.receive(tb, got, "a waiting Lock, after Release"); ok && err != nil {
			tb.Errorf("a waiting Lock, round %d: %v", round, err)
		}
	}
}

// waitInVain waits for a lease that is held until stop ends the context.
func (s *subject) waitInVain(ctx context.Context) error {
	lease, err := s.locker.Lock(ctx, id, nil)
	if err == nil {
		lease.Release(s.ctx)
		return errors.New("Lock of a lease that another holds returned no error")
	}
	return err
}

func lockWaitsForTheContext(tb testing.TB, s *subject) {
	lease := s.lock(tb, id, nil)
	for _, p := range s.peers(tb, 2) {
		for what, cause := range map[string]error{"deadline": context.DeadlineExceeded, "cancellation": context.Canceled} {
			var err error
			// On a slow machine a short wait may be over before Lock has
			// found the lease held.
			for wait := 50 * time.Millisecond; wait < s.opts.patience; wait *= 4 {
				ctx, cancel := context.WithCancel(s.ctx)
				if cause == context.DeadlineExceeded {
					ctx, cancel = context.WithTimeout(s.ctx, wait)
				} else {
					time.AfterFunc(wait, cancel)
				}
				err = p.waitInVain(ctx)
				cancel()
				if errors.Is(err, session.ErrLocked) {
					break
				}
			}
			wantErr(tb, err, is(session.ErrLocked, cause), "Lock whose wait ends by %s", what)
		}
	}
	want(tb, ended(lease), false, "Done of the lease that others waited for")
}

func lockLeavesNoTraceOfAWaiter(tb testing.TB, s *subject) {
	p := s.peer(tb)
	lease := s.lock(tb, id, nil)
	ctx, cancel := context.WithTimeout(s.ctx, 50*time.Millisecond)
	defer cancel()
	if err := p.waitInVain(ctx); !errors.Is(err, context.DeadlineExceeded) {
		tb.Errorf("Lock until a deadline: error = %v, want %v", err, context.DeadlineExceeded)
	}
	must(tb, lease.Release(s.ctx), "Release")
	for range 3 {
		again := p.lock(tb, id, noWait)
		must(tb, again.Release(s.ctx), "Release")
	}
}

func lockExcludesEachOther(tb testing.TB, s *subject) {
	peers := s.peers(tb, 8)
	var holders atomic.Int32
	turns := 0 // guarded by the lease alone
	s.together(tb, len(peers), func(i int) error {
		for range 5 {
			lease, err := peers[i].locker.Lock(s.ctx, id, nil)
			if err != nil {
				return fmt.Errorf("Lock: %w", err)
			}
			n := holders.Add(1)
			turns++
			_, err = peers[i].store.Load(s.ctx, id)
			holders.Add(-1)
			if n != 1 {
				err = fmt.Errorf("%d hold the lease at once", n)
			}
			if err := errors.Join(err, lease.Release(s.ctx)); err != nil {
				return err
			}
		}
		return nil
	})
	want(tb, turns, 5*len(peers), "turns taken one at a time")
}

func lockNeedsNoSession(tb testing.TB, s *subject) {
	lease := s.lock(tb, id, nil)
	want(tb, s.state(tb, id), state{Texts: []string{}, Version: session.Absent}, "the session that was locked")
	s.awaitList(tb, nil)
	must(tb, lease.Release(s.ctx), "Release")
	want(tb, s.state(tb, id), state{Texts: []string{}, Version: session.Absent}, "the session that was locked and released")
	v, err := s.log.Append(s.ctx, id, userTexts("a"), &session.WriteOptions{IfVersion: session.Absent})
	must(tb, err, "Append with IfVersion Absent of a session that was locked")
	want(tb, s.version(tb, id), v, "version")
}

func lockSurvivesDelete(tb testing.TB, s *subject) {
	p := s.peer(tb)
	s.append(tb, id, "a")
	lease := s.lock(tb, id, nil)
	p.delete(tb, id)
	p.wantLocked(tb, "after Delete")
	p.append(tb, id, "b")
	p.wantLocked(tb, "after the session was made again")
	p.delete(tb, id)
	want(tb, ended(lease), false, "Done after Delete")
	must(tb, lease.Release(s.ctx), "Release")
	p.lock(tb, id, noWait)
}

func lockDoesNotHinderWrites(tb testing.TB, s *subject) {
	s.append(tb, id, "a", "b")
	s.lock(tb, id, nil)
	p := s.peer(tb)
	for _, m := range p.methods() {
		if m.of == Locker {
			continue
		}
		s.await(tb, m.op+" beside a lease", func() error { return m.call(s.ctx, p, id) })
	}
	p.wantLocked(tb, "after writes of others")
}

func lockRefusesBadTerms(tb testing.TB, s *subject) {
	for _, term := range []time.Duration{-1, -time.Hour, 1, time.Millisecond, 50*time.Millisecond - 1} {
		for _, noWait := range []bool{false, true} {
			lease, err := s.locker.Lock(s.ctx, id, &session.LockOptions{Term: term, NoWait: noWait})
			wantErr(tb, err, is(session.ErrInvalidOption), "Lock(Term: %v)", term)
			if err == nil {
				lease.Release(s.ctx)
			}
		}
	}
	s.lock(tb, id, noWait)
	lease := s.lock(tb, "other", &session.LockOptions{Term: 50 * time.Millisecond})
	must(tb, lease.Release(s.ctx), "Release of a lease of 50 ms")
}
