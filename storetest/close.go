package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/session"
)

var closeRules = []rule{{
	"Close/MayBeRepeated",
	"Close may be called again, also at the same time, and returns no error then.",
	[]Feature{Closer}, closeMayBeRepeated,
}, {
	"Close/EndsAllMethods",
	"After Close every method returns ErrClosed.",
	[]Feature{Closer}, closeEndsAllMethods,
}, {
	"Close/WaitsForRunningCalls",
	"A call that runs beside Close is made as a whole or is ErrClosed; what it wrote is stored when Close has returned.",
	[]Feature{Log, Closer}, closeWaitsForRunningCalls,
}, {
	"Close/EndsWaitingLocks",
	"Close does not wait for a lease: a Lock that waits for one returns ErrClosed.",
	[]Feature{Locker, Closer}, closeEndsWaitingLocks,
}, {
	"Close/WithinAList",
	"Close in the body of a loop over List does not hang; the list ends, by ErrClosed if there was more.",
	[]Feature{Catalog, Closer}, closeWithinAList,
}, {
	"Close/LeavesPeersOpen",
	"Close of one handle leaves the others open.",
	[]Feature{Log, Closer, peer}, closeLeavesPeersOpen,
}}

func closeMayBeRepeated(tb testing.TB, s *subject) {
	s.save(tb, id, "a")
	s.together(tb, 4, func(int) error { return s.closer.Close() })
	must(tb, s.closer.Close(), "Close again")
}

func closeEndsAllMethods(tb testing.TB, s *subject) {
	s.save(tb, id, "a")
	s.await(tb, "Close", s.closer.Close)
	for _, m := range s.methods() {
		for _, to := range []string{id, "absent"} {
			wantErr(tb, m.call(s.ctx, s, to), is(session.ErrClosed), "%s after Close", m.op)
		}
	}
}

func closeWaitsForRunningCalls(tb testing.TB, s *subject) {
	var p *subject
	if s.opts.Peer != nil {
		p = s.peer(tb)
	}
	var stored atomic.Int32 // batches that were acknowledged
	running := make(chan struct{}, 4)
	s.together(tb, 5, func(i int) error {
		if i == 4 {
			for range 4 {
				<-running
			}
			return s.closer.Close()
		}
		for n := 0; ; n++ {
			_, err := s.log.Append(s.ctx, fmt.Sprint("s", i), userTexts(batch(i, n)...), nil)
			if n == 0 {
				running <- struct{}{}
			}
			if err == nil {
				stored.Add(1)
				continue
			}
			return checkErr(err, is(session.ErrClosed), "Append beside Close")
		}
	})
	if p == nil {
		return
	}
	total := 0
	for i := range 4 {
		found, err := checkBatches(textsOf(p.load(tb, fmt.Sprint("s", i))))
		if err != nil {
			tb.Error(err)
		}
		total += found[i]
	}
	want(tb, total, int(stored.Load()), "batches that are stored, and that Append had acknowledged")
}

func closeEndsWaitingLocks(tb testing.TB, s *subject) {
	s.lock(tb, id, nil)
	started := make(chan struct{})
	got := make(chan error, 1)
	go func() {
		close(started)
		_, err := s.locker.Lock(s.ctx, id, nil)
		got <- err
	}()
	s.awaitDone(tb, started, "start of a goroutine")
	for range 20 {
		s.wantLocked(tb, "while another waits")
	}
	s.await(tb, "Close while a Lock waits", s.closer.Close)
	err, _ := s.receive(tb, got, "a waiting Lock, after Close")
	wantErr(tb, err, is(session.ErrClosed), "a Lock that waited when the store was closed")
}

func closeWithinAList(tb testing.TB, s *subject) {
	for n := range 30 {
		s.save(tb, fmt.Sprint("s", n), "a")
	}
	s.await(tb, "Close within a List", func() error {
		n := 0
		for _, err := range s.catalog.List(s.ctx, nil) {
			if err != nil {
				return checkErr(err, is(session.ErrClosed), "List after Close in its body")
			}
			if n++; n == 2 {
				if err := s.closer.Close(); err != nil {
					return fmt.Errorf("Close: %w", err)
				}
			}
		}
		if n < 30 {
			return fmt.Errorf("List ended after %d sessions of 30, without an error", n)
		}
		return nil
	})
	err := s.store.Save(context.WithoutCancel(s.ctx), id, nil)
	if !errors.Is(err, session.ErrClosed) {
		tb.Errorf("Save after Close within a List: error = %v, want %v", err, session.ErrClosed)
	}
}

func closeLeavesPeersOpen(tb testing.TB, s *subject) {
	p := s.peer(tb)
	s.append(tb, id, "a")
	p.append(tb, id, "b")
	s.await(tb, "Close", s.closer.Close)
	p.append(tb, id, "c")
	wantTexts(tb, p.load(tb, id), []string{"a", "b", "c"}, "Load through the handle that is open")
}
