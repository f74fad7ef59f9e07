package redisstore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/redistest"
	"github.com/holdfast-go/session/redisstore"
	"github.com/holdfast-go/session/storetest"
)

// onEach runs a test on miniredis, on a real server and on a real cluster.
func onEach(t *testing.T, run func(t *testing.T, s *redistest.Server)) {
	t.Helper()
	redistest.Each(t, run)
	t.Run("Cluster", func(t *testing.T) { run(t, redistest.StartCluster(t, nil).Server) })
}

// stores opens stores on a server, each on keys of its own, and their peers,
// each with a client of its own.
type stores struct {
	server *redistest.Server
	opts   redisstore.Options
	m      sync.Map // of their options
}

func (s *stores) open(tb testing.TB) session.Store {
	tb.Helper()
	opts := s.opts
	opts.Prefix = s.server.Prefix(tb)
	return s.openAt(tb, opts)
}

func (s *stores) peer(tb testing.TB, of session.Store) session.Store {
	tb.Helper()
	opts, _ := s.m.Load(of)
	return s.openAt(tb, opts.(redisstore.Options))
}

func (s *stores) openAt(tb testing.TB, opts redisstore.Options) session.Store {
	tb.Helper()
	store, err := redisstore.New(s.server.Client(tb), &opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	s.m.Store(session.Store(store), opts)
	return store
}

// Every write moves the session in the index of lists, and sessions expire.
// TestDriver has the suite on all servers, with the default index.
func TestStore(t *testing.T) {
	clock := storetest.NewClock()
	s := &stores{server: redistest.Start(t), opts: redisstore.Options{TTL: time.Hour, Clock: clock.Now, IndexEvery: -1}}
	storetest.Run(t, s.open, &storetest.Options{Peer: s.peer, TTL: time.Hour, Advance: clock.Advance})
}

func TestDriver(t *testing.T) {
	onEach(t, func(t *testing.T, server *redistest.Server) {
		var prefix string // of the last driver: one is tested after the other
		open := func(tb testing.TB) session.Driver {
			d, err := redisstore.OpenDriver(server.Client(tb), &redisstore.Options{Prefix: prefix})
			if err != nil {
				tb.Fatal(err)
			}
			return d
		}
		storetest.RunDriver(t, func(tb testing.TB) session.Driver {
			prefix = server.Prefix(tb)
			return open(tb)
		}, &storetest.DriverOptions{Peer: func(tb testing.TB, _ session.Driver) session.Driver { return open(tb) }})
	})
}

func TestCloseLeavesTheClientOpen(t *testing.T) {
	client := redistest.Miniredis(t).Client(t)
	s, err := redisstore.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the caller's client after Close: %v", err)
	}
}
