// Package sqlitestore keeps sessions in a SQLite database, through the driver
// modernc.org/sqlite, which needs no C compiler.
//
//	store, err := sqlitestore.Open(ctx, "sessions.db", nil)
//
// Any number of goroutines and of processes on one machine may use one file.
// Don't put it on a network file system: WAL mode needs shared memory.
//
// A message is a row of JSON text, so that
//
//	sqlite3 sessions.db "SELECT position, role, text FROM history WHERE session = 'user-1/s1'"
//
// shows a conversation.
package sqlitestore

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/gate"
)

// Options are the options of Open. nil and zero values are defaults for
// production.
type Options struct {
	// TTL is how long after its last write a session expires. 0: never.
	TTL time.Duration
	// Clock tells the time. nil: time.Now.
	Clock func() time.Time
	// MaxBatchBytes is how much the messages of one write may take, encoded;
	// more is ErrTooLarge. 0: what SQLite holds, about 1 GB a message.
	MaxBatchBytes int
	// Durability says what a returned write survives.
	Durability Durability
	// Readers is how many reads run at once. 0: the number of CPUs, at least 4.
	Readers int
	// BusyTimeout is how long a write waits for other processes' writes, if
	// its context lets it. 0: 10 seconds.
	BusyTimeout time.Duration
}

// Durability says what a returned write survives. No choice can damage the
// file or tear a write.
type Durability int

const (
	// DurabilityFull: a returned write survives power loss. Every commit is
	// synced to the disk; concurrent writers share one.
	DurabilityFull Durability = iota
	// DurabilityNormal: a returned write survives the end of the process,
	// killed or not. The last ones may be lost when the machine goes down.
	DurabilityNormal
)

// Store is a session.Backend in a SQLite database.
type Store struct {
	*session.DriverBackend
	driver *database
	gate   *gate.Gate // of the methods that DriverBackend does not have
}

var _ session.Backend = (*Store)(nil)

// Open opens the database in a file and creates it if need be. file is a path,
// a "file:" URI that may have a query (of SQLite's parameters, or of the
// driver's, such as _pragma), or ":memory:", a database that ends with the
// Store. A database that is damaged, belongs to another application, or was
// written by a newer version keeps its contents: ErrCorrupt, another error, and
// ErrNewerFormat.
func Open(ctx context.Context, file string, opts *Options) (*Store, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, &session.Error{Op: "open", Err: err}
	}
	d, err := openDatabase(ctx, file, o)
	if err != nil {
		return nil, &session.Error{Op: "open", Err: err}
	}
	b := session.NewBackend(d, &session.BackendOptions{TTL: o.TTL, Clock: o.Clock, MaxBatchBytes: o.MaxBatchBytes})
	return &Store{DriverBackend: b, driver: d, gate: gate.New()}, nil
}

// Close implements io.Closer.
func (s *Store) Close() error {
	s.gate.Close()
	return s.DriverBackend.Close()
}

// call makes a call that Close waits for.
func (s *Store) call(op string, f func() error) error {
	err := session.ErrClosed
	if s.gate.Enter() {
		defer s.gate.Leave()
		err = f()
	}
	if err != nil {
		return &session.Error{Op: op, Err: err}
	}
	return nil
}

// OpenURL opens "sqlite:FILE", where FILE is a path with the URL's escapes, or
// ":memory:". Parameters are ttl and busy_timeout (durations, "24h"),
// durability (full or normal), readers and max_batch_bytes; others are
// ErrInvalidOption.
func OpenURL(ctx context.Context, rawURL string) (session.Backend, error) {
	file, opts, err := parseURL(rawURL)
	if err != nil {
		return nil, &session.Error{Op: "open", Err: err}
	}
	s, err := Open(ctx, file, opts)
	if err != nil {
		return nil, err // not a nil *Store in an interface
	}
	return s, nil
}

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.TTL < 0 || d.MaxBatchBytes < 0 || d.Readers < 0 || d.BusyTimeout < 0 {
		return d, fmt.Errorf("%w: a negative option", session.ErrInvalidOption)
	}
	if d.Durability != DurabilityFull && d.Durability != DurabilityNormal {
		return d, fmt.Errorf("%w: Durability %d", session.ErrInvalidOption, d.Durability)
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.Readers == 0 {
		d.Readers = max(4, runtime.GOMAXPROCS(0))
	}
	if d.BusyTimeout == 0 {
		d.BusyTimeout = 10 * time.Second
	}
	return d, nil
}

func (d Durability) pragmas() []string {
	if d == DurabilityNormal {
		return []string{"synchronous = NORMAL"}
	}
	return []string{"synchronous = FULL", "fullfsync = 1"} // the latter for macOS, whose fsync does not reach the disk
}
