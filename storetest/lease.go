package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var leaseRules = []rule{{
	"Lease/EndsWithRelease",
	"Release gives the lease up and closes Done; of a lease that has ended it does nothing.",
	[]Feature{Locker}, leaseEndsWithRelease,
}, {
	"Lease/ReleaseLeavesTheNextAlone",
	"Release of a lease that has ended does not end the one that another has since.",
	[]Feature{Locker}, leaseReleaseLeavesTheNextAlone,
}, {
	"Lease/EndsWithClose",
	"Close ends the leases that were taken through the store, and others can have them.",
	[]Feature{Locker, Closer}, leaseEndsWithClose,
}, {
	"Lease/IsRenewed",
	"A lease is renewed while it is held: it outlasts its term.",
	[]Feature{Locker}, leaseIsRenewed,
}, {
	"Lease/IsLostLoudly",
	"A lease whose term ran out before it was renewed can be taken by another, and Done of the first is closed.",
	[]Feature{Locker, clock}, leaseIsLostLoudly,
}, {
	"Lease/EndsWaitsWhenItRunsOut",
	"A Lock that waits gets a lease whose term ran out.",
	[]Feature{Locker, clock}, leaseEndsWaitsWhenItRunsOut,
}, {
	"Lease/LossShowsInIfVersion",
	"After a loss the first to write wins, and the other gets ErrConflict if it writes with IfVersion.",
	[]Feature{Log, Locker, clock}, leaseLossShowsInIfVersion,
}}

func leaseEndsWithRelease(tb testing.TB, s *subject) {
	lease := s.lock(tb, id, nil)
	want(tb, ended(lease), false, "Done before Release")
	for range 3 {
		must(tb, lease.Release(s.ctx), "Release")
		s.awaitDone(tb, lease.Done(), "Done of a lease that was released")
	}
	s.together(tb, 4, func(int) error { return lease.Release(s.ctx) })
	s.peer(tb).lock(tb, id, noWait)
}

func leaseReleaseLeavesTheNextAlone(tb testing.TB, s *subject) {
	p := s.peer(tb)
	first := s.lock(tb, id, nil)
	must(tb, first.Release(s.ctx), "Release")
	second := p.lock(tb, id, noWait)
	for range 3 {
		must(tb, first.Release(s.ctx), "Release again")
		s.wantLocked(tb, "after the holder before released its lease again")
	}
	want(tb, ended(second), false, "Done of the second lease")
}

func leaseEndsWithClose(tb testing.TB, s *subject) {
	p := s.peer(tb)
	leases := []session.Lease{s.lock(tb, id, nil), s.lock(tb, "other", &session.LockOptions{Term: time.Hour})}
	s.await(tb, "Close", s.closer.Close)
	for _, lease := range leases {
		s.awaitDone(tb, lease.Done(), "Done of a lease of a store that was closed")
		must(tb, lease.Release(context.Background()), "Release after Close")
	}
	if p != s {
		p.lock(tb, id, noWait)
		p.lock(tb, "other", noWait)
	}
}

// shortTerm is a term that can be waited for, and whose third a busy machine
// does not oversleep.
const shortTerm = 500 * time.Millisecond

// leaseIsRenewed gives a machine that is too busy to renew a lease in time a
// longer term: the holder must not lose the longest.
func leaseIsRenewed(tb testing.TB, s *subject) {
	p := s.peer(tb)
	for term := shortTerm; ; term *= 2 {
		lease := s.lock(tb, id, &session.LockOptions{Term: term})
		if p.lockedFor(tb, 2*term, lease) {
			return
		}
		if term >= 4*shortTerm {
			tb.Errorf("another got the lease within two terms of %v, while it was held", term)
			return
		}
		must(tb, lease.Release(s.ctx), "Release")
	}
}

// lockedFor reports whether nobody can take a lease that another holds for that
// long: the length of time is what is tested.
func (s *subject) lockedFor(tb testing.TB, d time.Duration, lease session.Lease) bool {
	tb.Helper()
	over := time.After(d)
	again := time.NewTicker(d / 100)
	defer again.Stop()
	for {
		got, err := s.locker.Lock(s.ctx, id, noWait)
		if err == nil {
			must(tb, got.Release(s.ctx), "Release of a lease that was free too early")
			return false
		}
		wantErr(tb, err, is(session.ErrLocked), "Lock(NoWait) of a lease that is held")
		select {
		case <-over:
			return true
		case <-lease.Done():
			return false
		case <-again.C:
		}
	}
}

// outrun moves the clock past the term of a lease until another can have it,
// and returns the other's. A holder that renews its lease just then keeps it.
func (s *subject) outrun(tb testing.TB, p *subject, lease session.Lease, term time.Duration) session.Lease {
	tb.Helper()
	for range 50 {
		s.opts.Advance(term + time.Second)
		other, err := p.locker.Lock(s.ctx, id, noWait)
		if err == nil {
			tb.Cleanup(func() { other.Release(context.Background()) })
			return other
		}
		if !errors.Is(err, session.ErrLocked) {
			tb.Fatalf("Lock after the term of the lease: error = %v, want none or ErrLocked", err)
		}
		if ended(lease) {
			return p.lock(tb, id, nil)
		}
	}
	tb.Fatalf("Lock(NoWait) = ErrLocked, time after time when the term of %v was over, want a lease", term)
	return nil
}

// lostTerm is long enough that a lease is not renewed while a rule moves the
// clock, and short enough to wait for its holder's next look at it.
const lostTerm = 600 * time.Millisecond

func leaseIsLostLoudly(tb testing.TB, s *subject) {
	p := s.peer(tb)
	lease := s.lock(tb, id, &session.LockOptions{Term: lostTerm})
	other := s.outrun(tb, p, lease, lostTerm)
	s.awaitDone(tb, lease.Done(), "Done of a lease that another has taken")
	s.wantLocked(tb, "while the other holds the lease")
	must(tb, lease.Release(s.ctx), "Release of a lease that was lost")
	s.wantLocked(tb, "after the lease that was lost has been released")
	want(tb, ended(other), false, "Done of the other's lease")
}

func leaseEndsWaitsWhenItRunsOut(tb testing.TB, s *subject) {
	p := s.peer(tb)
	lease := s.lock(tb, id, &session.LockOptions{Term: lostTerm})
	got := make(chan error, 1)
	go func() {
		lease, err := p.locker.Lock(s.ctx, id, nil)
		if err == nil {
			err = lease.Release(s.ctx)
		}
		got <- err
	}()
	for range 50 {
		s.opts.Advance(time.Hour)
		select {
		case err := <-got:
			must(tb, err, "a Lock that waited for a lease to run out")
			s.awaitDone(tb, lease.Done(), "Done of a lease that another has had")
			return
		case <-lease.Done():
			err, _ := s.receive(tb, got, "a Lock that waits for a lease that has ended")
			must(tb, err, "a Lock that waited for a lease to run out")
			return
		case <-time.After(lostTerm):
		}
	}
	tb.Fatal("a waiting Lock did not get a lease whose term was over time after time")
}

func leaseLossShowsInIfVersion(tb testing.TB, s *subject) {
	p := s.peer(tb)
	lease := s.lock(tb, id, &session.LockOptions{Term: lostTerm})
	v := s.append(tb, id, "by the first")
	s.outrun(tb, p, lease, lostTerm)
	second, err := p.log.Append(s.ctx, id, userTexts("by the second"), &session.WriteOptions{IfVersion: v})
	must(tb, err, "Append by the second holder")
	_, err = s.log.Append(s.ctx, id, userTexts("too late"), &session.WriteOptions{IfVersion: v})
	wantConflict(tb, err, second, "Append by the holder that lost the lease")
	wantTexts(tb, s.load(tb, id), []string{"by the first", "by the second"}, "Load")
}
