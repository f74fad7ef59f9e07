// Package memstore keeps sessions in the memory of one process. It is the
// contract of session.Backend in its plainest form: for tests and development,
// for agents that need not outlive their process, and as the model that the
// conformance suite holds other stores against.
//
// Stored messages are immutable and in canonical form: a write copies them in
// outside any lock, a read takes a slice of them under a lock and copies it
// outside. Sessions are spread over shards by a hash of their ID, each with a
// lock of its own. List never lags behind.
package memstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/gate"
)

// Options are the options of New. nil and zero values are the defaults.
type Options struct {
	// TTL is how long after its last write a session expires. 0: never. The
	// memory of an expired session is freed by later writes.
	TTL time.Duration
	// Clock tells the time. nil: time.Now.
	Clock func() time.Time
	// MaxBatchBytes is how much the messages of one write may take in their
	// JSON form; more is session.ErrTooLarge. 0: no limit.
	MaxBatchBytes int
}

// Store is a session.Backend in memory.
type Store struct {
	opts   Options
	seed   maphash.Seed
	shards [64]shard
	gate   *gate.Gate
	leases leases
}

var _ session.Backend = (*Store)(nil)

// shard is a part of the sessions. Sessions in folders are indexed by each of
// them, so that listing a folder does not look at what is not in it.
type shard struct {
	mu       sync.RWMutex
	sessions map[string]*entry
	folders  map[string]map[string]*entry
	sweepAt  time.Time // when to look for expired sessions again
}

// entry is one session, guarded by its shard's lock.
type entry struct {
	life     uint64 // random, another after each re-creation
	writes   uint64 // of messages, in this life
	version  session.Version
	base     session.Version
	messages []session.Message // those up to len never change
	keys     []keyedWrite      // the last keptKeys, oldest first
	created  time.Time
	updated  time.Time
	expires  time.Time
	meta     session.Meta
	edits    uint64 // of meta
}

type keyedWrite struct {
	hash    uint64 // of key, which is compared only if it is the same
	key     string
	version session.Version
}

// version returns the version that the how-manyth write of messages in a life
// leads to.
func version(life, writes uint64) session.Version {
	b := strconv.AppendUint(make([]byte, 0, 40), writes, 10)
	b = append(b, '-')
	return session.Version(strconv.AppendUint(b, life, 16))
}

// keptKeys is how many keyed writes a session remembers.
const keptKeys = 32

// New returns an empty store.
func New(opts *Options) *Store {
	s := &Store{seed: maphash.MakeSeed(), gate: gate.New()}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Clock == nil {
		s.opts.Clock = time.Now
	}
	s.leases.init(s.now, s.gate.Closing())
	for i := range s.shards {
		s.shards[i].sessions = make(map[string]*entry)
		s.shards[i].folders = make(map[string]map[string]*entry)
	}
	return s
}

// OpenURL returns an empty store, for session.Openers. The URL is "memory:",
// with "?ttl=24h" if sessions are to expire.
func OpenURL(ctx context.Context, rawURL string) (session.Backend, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	u, err := session.ParseStoreURL(rawURL)
	if err != nil {
		return nil, err
	}
	if u.Name != "" {
		return nil, fmt.Errorf("%w: a memory store has no name", session.ErrInvalidOption)
	}
	var o Options
	if o.TTL, err = u.Duration("ttl"); err != nil {
		return nil, err
	}
	if err := u.Unused(); err != nil {
		return nil, err
	}
	return New(&o), nil
}

func (s *Store) now() time.Time { return s.opts.Clock().Round(0).UTC() }

func (s *Store) hash(text string) uint64 { return maphash.String(s.seed, text) }

func (s *Store) shard(id string) *shard { return &s.shards[s.hash(id)%uint64(len(s.shards))] }

// begin admits a call. If it returns no error, the caller calls s.gate.Leave.
func (s *Store) begin(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := session.CheckID(id); err != nil {
		return err
	}
	return s.enter()
}

func (s *Store) enter() error {
	if !s.gate.Enter() {
		return session.ErrClosed
	}
	return nil
}

func fail(op, id string, err error) error {
	if err == nil {
		return nil
	}
	return &session.Error{Op: op, SessionID: id, Err: err}
}

// get returns a session that exists, or nil.
func (sh *shard) get(id string, now time.Time) *entry {
	e := sh.sessions[id]
	if e == nil || e.expired(now) {
		return nil
	}
	return e
}

func (e *entry) expired(now time.Time) bool { return !e.expires.IsZero() && !now.Before(e.expires) }

// current returns the version of a session; nil is one that does not exist.
func (e *entry) current() session.Version {
	if e == nil {
		return session.Absent
	}
	return e.version
}

// folders yields the folders that an ID is in, each with its slash.
func folders(id string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(id) {
			if id[i] == '/' && !yield(id[:i+1]) {
				return
			}
		}
	}
}

// create begins a session anew.
func (sh *shard) create(id string, now time.Time) *entry {
	e := &entry{life: rand.Uint64(), created: now}
	sh.sessions[id] = e
	for f := range folders(id) {
		if sh.folders[f] == nil {
			sh.folders[f] = make(map[string]*entry)
		}
		sh.folders[f][id] = e
	}
	return e
}

func (sh *shard) remove(id string) {
	delete(sh.sessions, id)
	for f := range folders(id) {
		delete(sh.folders[f], id)
		if len(sh.folders[f]) == 0 {
			delete(sh.folders, f)
		}
	}
}

// Load implements session.Store.
func (s *Store) Load(ctx context.Context, sessionID string) ([]session.Message, error) {
	p, err := s.read(ctx, sessionID, session.ReadOptions{})
	return p.Messages, fail("load", sessionID, err)
}

// Read implements session.Log.
func (s *Store) Read(ctx context.Context, sessionID string, opts *session.ReadOptions) (session.Snapshot, error) {
	var o session.ReadOptions
	if opts != nil {
		o = *opts
	}
	p, err := s.read(ctx, sessionID, o)
	return p, fail("read", sessionID, err)
}

func (s *Store) read(ctx context.Context, id string, o session.ReadOptions) (session.Snapshot, error) {
	if err := s.begin(ctx, id); err != nil {
		return session.Snapshot{}, err
	}
	defer s.gate.Leave()
	if err := o.Check(); err != nil {
		return session.Snapshot{}, err
	}
	stored := []session.Message{}
	p := session.Snapshot{Version: session.Absent, Base: session.Absent}
	sh := s.shard(id)
	now := s.now()
	sh.mu.RLock()
	if e := sh.get(id, now); e != nil {
		p.Version, p.Base, p.Total = e.version, e.base, len(e.messages)
		if from, to := o.Span(p.Total); from < to {
			p.First, stored = from+1, e.messages[from:to]
		}
	}
	sh.mu.RUnlock()
	p.Messages = session.CloneMessages(stored)
	return p, nil
}

// touch notes that a session was written.
func (s *Store) touch(sh *shard, e *entry, now time.Time) {
	if e.updated.Before(now) {
		e.updated = now
	}
	if s.opts.TTL > 0 {
		e.expires = now.Add(s.opts.TTL)
		sh.sweep(now, s.opts.TTL)
	}
}

// sweep removes the expired sessions of a shard, once in a TTL, so that each
// write pays for little more than the removal of one.
func (sh *shard) sweep(now time.Time, ttl time.Duration) {
	if now.Before(sh.sweepAt) {
		return
	}
	sh.sweepAt = now.Add(ttl)
	for id, e := range sh.sessions {
		if e.expired(now) {
			sh.remove(id)
		}
	}
}

// Close implements io.Closer. What was stored is gone.
func (s *Store) Close() error {
	if !s.gate.Close() {
		return nil
	}
	s.leases.close()
	for i := range s.shards {
		clear(s.shards[i].sessions)
		clear(s.shards[i].folders)
	}
	return nil
}

func cloneMeta(m session.Meta) session.Meta {
	if m.Labels = maps.Clone(m.Labels); len(m.Labels) == 0 {
		m.Labels = nil
	}
	return m
}
