package filestore

import (
	"context"
	"sync"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/crashtest"
	"github.com/holdfast-go/session/storetest"
)

func openDriver(tb testing.TB, dir string, opts *Options) *files {
	tb.Helper()
	o, err := opts.withDefaults()
	if err != nil {
		tb.Fatal(err)
	}
	d, err := openFiles(dir, o)
	if err != nil {
		tb.Fatalf("openFiles: %v", err)
	}
	return d
}

// TestDriver runs the suite with drivers that keep few files open, and peers in
// another process.
func TestDriver(t *testing.T) {
	other := startServing(t, crashtest.Command(context.Background(), t, "serve"))
	opts := &Options{Durability: DurabilityNormal, MaxOpenFiles: 3}
	var dirs sync.Map
	open := func(tb testing.TB) session.Driver {
		dir := tb.TempDir()
		d := openDriver(tb, dir, opts)
		dirs.Store(session.Driver(d), dir)
		return d
	}
	storetest.RunDriver(t, open, &storetest.DriverOptions{Peer: func(tb testing.TB, d session.Driver) session.Driver {
		dir, _ := dirs.Load(d)
		p := openRemote(tb, other, dir.(string))
		dirs.Store(session.Driver(p), dir)
		return p
	}})
}
