package sqlitestore_test

import (
	"errors"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/sqlitestore"
	"github.com/holdfast-go/session/storetest"
)

// files remembers which file a store is on, for its peers.
type files struct {
	opts sqlitestore.Options
	m    sync.Map
}

func (f *files) open(tb testing.TB) session.Store {
	return f.openFile(tb, filepath.Join(tb.TempDir(), "sessions.db"))
}

func (f *files) peer(tb testing.TB, s session.Store) session.Store {
	file, _ := f.m.Load(s)
	return f.openFile(tb, file.(string))
}

func (f *files) openFile(tb testing.TB, file string) session.Store {
	tb.Helper()
	s, err := sqlitestore.Open(tb.Context(), file, &f.opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	f.m.Store(session.Store(s), file)
	return s
}

func TestStore(t *testing.T) {
	f := &files{}
	storetest.Run(t, f.open, &storetest.Options{Peer: f.peer})
}

func TestStoreWithTTL(t *testing.T) {
	clock := storetest.NewClock()
	f := &files{opts: sqlitestore.Options{TTL: time.Hour, Clock: clock.Now, Durability: sqlitestore.DurabilityNormal}}
	storetest.Run(t, f.open, &storetest.Options{Peer: f.peer, TTL: time.Hour, Advance: clock.Advance})
}

func TestStoreInMemory(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) session.Store {
		s, err := sqlitestore.Open(tb.Context(), ":memory:", nil)
		if err != nil {
			tb.Fatal(err)
		}
		return s
	}, nil)
}

func TestDriver(t *testing.T) {
	var file string // of the last driver: one is tested after the other
	open := func(tb testing.TB) session.Driver {
		d, err := sqlitestore.OpenDriver(tb.Context(), file, &sqlitestore.Options{Durability: sqlitestore.DurabilityNormal})
		if err != nil {
			tb.Fatal(err)
		}
		return d
	}
	storetest.RunDriver(t, func(tb testing.TB) session.Driver {
		file = filepath.Join(tb.TempDir(), "sessions.db")
		return open(tb)
	}, &storetest.DriverOptions{Peer: func(tb testing.TB, _ session.Driver) session.Driver { return open(tb) }})
}

func TestSweepAndCheckAfterClose(t *testing.T) {
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "x.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("Sweep after Close = %v, want ErrClosed", err)
	}
	if _, err := s.Check(t.Context()); !errors.Is(err, session.ErrClosed) {
		t.Errorf("Check after Close = %v, want ErrClosed", err)
	}
}

func TestTTLForEver(t *testing.T) {
	s, err := sqlitestore.Open(t.Context(), ":memory:", &sqlitestore.Options{TTL: math.MaxInt64})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText("x")}, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Load(t.Context(), "s"); err != nil || len(got) != 1 {
		t.Errorf("Load with the longest TTL = %d messages, %v, want 1", len(got), err)
	}
}
