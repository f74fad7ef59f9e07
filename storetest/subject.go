package storetest

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// id is the session that most rules write to.
const id = "user-1/session"

// subject is a store under test. Interfaces that it does not offer are nil.
type subject struct {
	ctx      context.Context // ends when the rule's patience does
	opts     Options
	store    session.Store
	log      session.Log
	catalog  session.Catalog
	locker   session.Locker
	closer   io.Closer
	salvager session.Salvager
}

// newSubject wraps store, which it closes when tb ends.
func newSubject(tb testing.TB, store session.Store, opts Options) *subject {
	tb.Helper()
	if store == nil {
		tb.Fatal("open returned no store")
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 4*opts.patience)
	tb.Cleanup(cancel)
	s := &subject{ctx: ctx, opts: opts, store: store}
	s.log, _ = store.(session.Log)
	s.catalog, _ = store.(session.Catalog)
	s.locker, _ = store.(session.Locker)
	s.closer, _ = store.(io.Closer)
	s.salvager, _ = store.(session.Salvager)
	if s.closer != nil {
		tb.Cleanup(func() { s.closer.Close() })
	}
	return s
}

// offers reports whether the store implements f, if f is an interface.
func (s *subject) offers(f Feature) bool {
	switch f {
	case Log:
		return s.log != nil
	case Catalog:
		return s.catalog != nil
	case Locker:
		return s.locker != nil
	case Closer:
		return s.closer != nil
	case optional:
		return s.salvager != nil
	}
	return true
}

// peer returns another handle on the same data, or s itself if there is no way
// to open one.
func (s *subject) peer(tb testing.TB) *subject {
	tb.Helper()
	if s.opts.Peer == nil {
		return s
	}
	return newSubject(tb, s.opts.Peer(tb, s.store), s.opts)
}

// peers returns n subjects on the same data: s and its peers.
func (s *subject) peers(tb testing.TB, n int) []*subject {
	tb.Helper()
	all := []*subject{s}
	p := s.peer(tb)
	for len(all) < n {
		all = append(all, p)
		p, s = s, p
	}
	return all
}

// append appends texts as one batch and returns the new version.
func (s *subject) append(tb testing.TB, id string, texts ...string) session.Version {
	tb.Helper()
	v, err := s.log.Append(s.ctx, id, userTexts(texts...), nil)
	must(tb, err, "Append(%q, %q)", id, texts)
	return v
}

// replace makes texts the history and returns the new version.
func (s *subject) replace(tb testing.TB, id string, texts ...string) session.Version {
	tb.Helper()
	v, err := s.log.Replace(s.ctx, id, userTexts(texts...), nil)
	must(tb, err, "Replace(%q, %q)", id, texts)
	return v
}

// save makes texts the history.
func (s *subject) save(tb testing.TB, id string, texts ...string) {
	tb.Helper()
	must(tb, s.store.Save(s.ctx, id, userTexts(texts...)), "Save(%q, %q)", id, texts)
}

// load returns the history.
func (s *subject) load(tb testing.TB, id string) []session.Message {
	tb.Helper()
	history, err := s.store.Load(s.ctx, id)
	must(tb, err, "Load(%q)", id)
	return history
}

// read returns a part of the history; nil opts: all of it.
func (s *subject) read(tb testing.TB, id string, opts *session.ReadOptions) session.Snapshot {
	tb.Helper()
	snap, err := s.log.Read(s.ctx, id, opts)
	must(tb, err, "Read(%q, %+v)", id, opts)
	return snap
}

// version returns the current version.
func (s *subject) version(tb testing.TB, id string) session.Version {
	tb.Helper()
	return s.read(tb, id, &session.ReadOptions{Last: 1}).Version
}

// info describes a session.
func (s *subject) info(tb testing.TB, id string) session.Info {
	tb.Helper()
	info, err := s.catalog.Info(s.ctx, id)
	must(tb, err, "Info(%q)", id)
	return info
}

// setMeta makes meta the Meta of a session.
func (s *subject) setMeta(tb testing.TB, id string, meta session.Meta) session.Info {
	tb.Helper()
	info, err := s.catalog.Update(s.ctx, id, func(m *session.Meta) error { *m = meta; return nil })
	must(tb, err, "Update(%q)", id)
	return info
}

// delete removes a session.
func (s *subject) delete(tb testing.TB, id string) {
	tb.Helper()
	must(tb, s.catalog.Delete(s.ctx, id, nil), "Delete(%q)", id)
}

// list returns what List yields.
func (s *subject) list(tb testing.TB, opts *session.ListOptions) []session.Info {
	tb.Helper()
	var infos []session.Info
	for info, err := range s.catalog.List(s.ctx, opts) {
		must(tb, err, "List(%+v)", opts)
		infos = append(infos, info)
	}
	return infos
}

// lock takes a lease and gives it up when tb ends.
func (s *subject) lock(tb testing.TB, id string, opts *session.LockOptions) session.Lease {
	tb.Helper()
	lease, err := s.locker.Lock(s.ctx, id, opts)
	must(tb, err, "Lock(%q, %+v)", id, opts)
	tb.Cleanup(func() { lease.Release(context.Background()) })
	return lease
}

// tick moves the clock by a second, if the clock can be moved.
func (s *subject) tick() { s.advance(time.Second) }

// advance moves the clock, if it can be moved.
func (s *subject) advance(d time.Duration) {
	if s.opts.Advance != nil {
		s.opts.Advance(d)
	}
}
