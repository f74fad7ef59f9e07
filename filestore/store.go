// Package filestore keeps each session in a directory of its own, for coding
// agents and as a [session.Backend].
//
//	store, err := filestore.New("sessions", nil)
//
// A session's directory has history.jsonl, which is only ever appended to, one
// JSON object a line, so that
//
//	cat sessions/demo/history.jsonl
//
// shows a conversation, and beside it meta.json and whatever else outlives a
// turn. [Manager] and [Session] are that directory as coding agents use it. The
// layout is described in format.go.
//
// Any number of goroutines and of processes on one machine may use one
// directory; on a network file system only if flock works on it across
// machines. A session's directory that is renamed by hand while it is in use is
// noticed within a second; one that is removed or restored, at once.
package filestore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/gate"
)

// Options are the options of New. nil and zero values are defaults for
// production.
type Options struct {
	// TTL is how long after its last write a session expires. 0: never.
	TTL time.Duration
	// Clock tells the time. nil: time.Now.
	Clock func() time.Time
	// MaxBatchBytes is how much the messages of one write may take, encoded;
	// more is ErrTooLarge. 0: 1 GiB, which is the most in any case.
	MaxBatchBytes int
	// Durability says what a returned write survives.
	Durability Durability
	// OnDamage is told of damage that is found: of what doesn't count, such as
	// the torn tail of a write that failed, of lines that can't be read, of a
	// meta.json that is no more. It may be told more than once, from any
	// goroutine, and must not call the store. nil: nobody is told.
	OnDamage func(Damage)
	// MaxOpenFiles is how many histories are kept open. 0: 1024, but at most
	// half of what the operating system lets the process open.
	MaxOpenFiles int
}

// Durability says what a returned write survives. No choice can damage a
// history or tear a write.
type Durability int

const (
	// DurabilityFull: a returned write survives power loss. Every write is
	// synced to the disk.
	DurabilityFull Durability = iota
	// DurabilityNormal: a returned write survives the end of the process,
	// killed or not. The last ones may be lost when the machine goes down.
	DurabilityNormal
)

// maxBatch is the most that one write may take.
const maxBatch = 1 << 30

const defaultOpenFiles = 1024

// Store is a session.Backend in a directory.
type Store struct {
	*session.DriverBackend
	driver *files
	gate   *gate.Gate // of the methods that DriverBackend does not have
	dir    string     // as New was given it
	root   *os.Root   // of the same
	opts   Options
}

var (
	_ session.Backend  = (*Store)(nil)
	_ session.Salvager = (*Store)(nil)
)

// New returns the store in a directory, which is created, readable for its owner
// alone, if it is not there.
func New(dir string, opts *Options) (*Store, error) {
	s, err := open(dir, opts)
	if err != nil {
		return nil, &session.Error{Op: "open", Err: err}
	}
	return s, nil
}

func open(dir string, opts *Options) (*Store, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, fmt.Errorf("%w: no directory", session.ErrInvalidOption)
	}
	d, err := openFiles(dir, o)
	if err != nil {
		return nil, err
	}
	b := session.NewBackend(d, &session.BackendOptions{TTL: o.TTL, Clock: o.Clock, MaxBatchBytes: o.MaxBatchBytes})
	return &Store{DriverBackend: b, driver: d, gate: gate.New(), dir: dir, root: d.root, opts: o}, nil
}

// Close implements io.Closer.
func (s *Store) Close() error {
	s.gate.Close()
	return s.DriverBackend.Close()
}

// call makes a call that Close waits for.
func (s *Store) call(op, id string, f func() error) error {
	err := session.ErrClosed
	if s.gate.Enter() {
		defer s.gate.Leave()
		err = f()
	}
	var e *session.Error
	if err != nil && !errors.As(err, &e) {
		return &session.Error{Op: op, SessionID: id, Err: err}
	}
	return err
}

// syncs reports whether a returned write survives power loss.
func (s *Store) syncs() bool { return s.opts.Durability == DurabilityFull }

// OpenURL opens "file:DIR", where DIR is a path with the URL's escapes.
// Parameters are ttl (a duration, "24h"), durability (full or normal),
// max_batch_bytes and max_open_files; others are ErrInvalidOption.
func OpenURL(_ context.Context, rawURL string) (session.Backend, error) {
	dir, opts, err := parseURL(rawURL)
	if err != nil {
		return nil, &session.Error{Op: "open", Err: err}
	}
	s, err := New(dir, opts)
	if err != nil {
		return nil, err // not a nil *Store in an interface
	}
	return s, nil
}

func parseURL(rawURL string) (dir string, opts *Options, err error) {
	u, err := session.ParseStoreURL(rawURL)
	if err != nil {
		return "", nil, err
	}
	if !strings.EqualFold(u.Scheme, "file") {
		return "", nil, fmt.Errorf("%w: not a file: URL", session.ErrInvalidOption)
	}
	name := u.Name
	if rest, ok := strings.CutPrefix(name, "//"); ok {
		host, path, _ := strings.Cut(rest, "/")
		if host != "" && host != "localhost" {
			return "", nil, fmt.Errorf("%w: a file: URL with a host", session.ErrInvalidOption)
		}
		name = "/" + path
	}
	if dir, err = url.PathUnescape(name); err != nil || dir == "" {
		return "", nil, fmt.Errorf("%w: the path of a file: URL", session.ErrInvalidOption)
	}
	opts = &Options{}
	if opts.TTL, err = u.Duration("ttl"); err != nil {
		return "", nil, err
	}
	if opts.MaxBatchBytes, err = number(u, "max_batch_bytes"); err != nil {
		return "", nil, err
	}
	if opts.MaxOpenFiles, err = number(u, "max_open_files"); err != nil {
		return "", nil, err
	}
	switch v := u.Take("durability"); v {
	case "", "full":
	case "normal":
		opts.Durability = DurabilityNormal
	default:
		return "", nil, fmt.Errorf("%w: durability is full or normal", session.ErrInvalidOption)
	}
	return dir, opts, u.Unused()
}

func number(u *session.StoreURL, name string) (int, error) {
	v := u.Take(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%w: %s is no number", session.ErrInvalidOption, name)
	}
	return n, nil
}

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.TTL < 0 || d.MaxBatchBytes < 0 || d.MaxOpenFiles < 0 {
		return d, fmt.Errorf("%w: a negative option", session.ErrInvalidOption)
	}
	if d.Durability != DurabilityFull && d.Durability != DurabilityNormal {
		return d, fmt.Errorf("%w: Durability %d", session.ErrInvalidOption, d.Durability)
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.MaxBatchBytes == 0 || d.MaxBatchBytes > maxBatch {
		d.MaxBatchBytes = maxBatch
	}
	if d.MaxOpenFiles == 0 {
		d.MaxOpenFiles = defaultOpenFiles
		if most := openFilesLimit(); most > 0 {
			d.MaxOpenFiles = max(1, min(d.MaxOpenFiles, most/2))
		}
	}
	return d, nil
}
