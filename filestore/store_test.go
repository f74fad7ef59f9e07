package filestore_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/filestore"
	"github.com/holdfast-go/session/storetest"
)

// dirs remembers which directory each store is in, so that peers can open it
// again.
type dirs struct {
	opts filestore.Options
	m    sync.Map
}

func (d *dirs) open(tb testing.TB) session.Store { return d.openAt(tb, tb.TempDir()) }

func (d *dirs) openAt(tb testing.TB, dir string) session.Store {
	tb.Helper()
	s, err := filestore.New(dir, &d.opts)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	d.m.Store(session.Store(s), dir)
	return s
}

func (d *dirs) peer(tb testing.TB, s session.Store) session.Store {
	dir, _ := d.m.Load(s)
	return d.openAt(tb, dir.(string))
}

// TestStore runs the suite with a second handle as the peer; TestDriver has it
// with another process.
func TestStore(t *testing.T) {
	const ttl = time.Hour
	clock := storetest.NewClock()
	d := &dirs{opts: filestore.Options{Durability: filestore.DurabilityNormal, TTL: ttl, Clock: clock.Now}}
	storetest.Run(t, d.open, &storetest.Options{Peer: d.peer, TTL: ttl, Advance: clock.Advance})
}
