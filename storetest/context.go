package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var contextRules = []rule{{
	"Context/DoneBeforeTheCall",
	"If the context is done before the call, the call returns its error and touches nothing.",
	nil, contextDoneBeforeTheCall,
}, {
	"Context/DoneDuringAWrite",
	"A write whose context ends during it is applied fully or not at all.",
	[]Feature{Log}, contextDoneDuringAWrite,
}, {
	"Context/DoneDuringAList",
	"A list whose context ends goes no further than what it had begun, and yields the context's error.",
	[]Feature{Catalog}, contextDoneDuringAList,
}, {
	"Context/OfACallEndsWithIt",
	"What a call returned stays whole, and a lease held, when the call's context ends later.",
	[]Feature{Locker}, contextOfACallEndsWithIt,
}}

func contextDoneBeforeTheCall(tb testing.TB, s *subject) {
	s.save(tb, id, "a", "b")
	cancelled, cancel := context.WithCancel(s.ctx)
	cancel()
	late, cancel := context.WithDeadline(s.ctx, time.Now().Add(-time.Hour))
	defer cancel()
	reason := errors.New("a reason of the caller's own")
	caused, cancelCause := context.WithCancelCause(s.ctx)
	cancelCause(reason)
	before, absent := s.state(tb, id), s.state(tb, "absent")
	for _, c := range []struct {
		ctx  context.Context
		want error
	}{{cancelled, context.Canceled}, {late, context.DeadlineExceeded}, {caused, context.Canceled}} {
		for _, m := range s.methods() {
			for _, to := range []string{id, "absent"} {
				err := m.call(c.ctx, s, to)
				wantErr(tb, err, is(c.want), "%s of %q with a context that is done", m.op, to)
				if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrConflict) {
					tb.Errorf("%s with a context that is done: error = %v, want nothing but the context's", m.op, err)
				}
			}
		}
		if s.catalog != nil && s.opts.has(Catalog) {
			_, err := s.catalog.Update(c.ctx, id, func(*session.Meta) error {
				tb.Error("Update with a context that is done called change")
				return nil
			})
			wantErr(tb, err, is(c.want), "Update with a context that is done")
		}
	}
	want(tb, s.state(tb, id), before, "the session after calls with a context that is done")
	want(tb, s.state(tb, "absent"), absent, "the absent session after calls with a context that is done")
	if s.locker != nil && s.opts.has(Locker) {
		s.lock(tb, id, noWait)
	}
}

func contextDoneDuringAWrite(tb testing.TB, s *subject) {
	p := s.peer(tb)
	var wants []string
	for n := range 60 {
		// The context ends sooner and later within the call.
		ctx, cancel := context.WithTimeout(s.ctx, time.Duration(n*n)*time.Microsecond)
		texts := batch(1, n)
		v, err := s.log.Append(ctx, id, userTexts(texts...), nil)
		cancel()
		snap := p.read(tb, id, nil)
		got := textsOf(snap.Messages)
		switch {
		case err == nil:
			wants = append(wants, texts...)
			want(tb, snap.Version, v, "version after an Append that was in time")
		case !errors.Is(err, context.DeadlineExceeded):
			tb.Errorf("Append whose context ends: error = %v, want %v", err, context.DeadlineExceeded)
		case len(got) > len(wants):
			wants = append(wants, texts...)
		}
		wantTexts(tb, snap.Messages, wants, "Load after an Append whose context ended (%v): all of it or nothing", err)
	}
}

func contextDoneDuringAList(tb testing.TB, s *subject) {
	for n := range 30 {
		s.save(tb, fmt.Sprint("s", n), "a")
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	n := 0
	var last error
	for _, err := range s.catalog.List(ctx, nil) {
		if last != nil {
			tb.Errorf("List went on after the error %v", last)
		}
		if last = err; err != nil {
			continue
		}
		if n++; n == 3 {
			cancel()
		}
	}
	if n < 30 || last != nil {
		wantErr(tb, last, is(context.Canceled), "List whose context ends after 3 sessions, after %d", n)
	}
}

func contextOfACallEndsWithIt(tb testing.TB, s *subject) {
	ctx, cancel := context.WithCancel(s.ctx)
	lease, err := s.locker.Lock(ctx, id, &session.LockOptions{Term: shortTerm})
	must(tb, err, "Lock")
	must(tb, s.store.Save(ctx, id, userTexts("a")), "Save")
	history, err := s.store.Load(ctx, id)
	must(tb, err, "Load")
	cancel()
	wantTexts(tb, history, []string{"a"}, "what Load returned before its context ended")
	wantTexts(tb, s.load(tb, id), []string{"a"}, "Load after the context of Save ended")
	select {
	case <-lease.Done():
		tb.Error("the lease ended with the context of the Lock call")
	case <-time.After(shortTerm): // renewed at least once meanwhile
	}
	s.peer(tb).wantLocked(tb, "after the context of the Lock call ended")
	must(tb, lease.Release(s.ctx), "Release")
}
