package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"sync"

	"github.com/holdfast-go/session"
)

// A session's directory, with what in it belongs to which file here:
//
//	history.jsonl   the events, one a line, only ever appended to (format.go)
//	meta.json       what the session is (meta.go)
//	turn.pid        the process that runs the turn (turn.go)
//	.lock           AcquireLock (turn.go)
//	checkpoints/    the shadow repository of checkpoint tools; theirs
//	proc/           pidfiles and logs of background processes; their starters'
//	inbox/          messages that wait to be delivered (inbox.go)
//	tmp/            tool output too large for a message (spill.go)
//
// All that outlives one turn is here, so that each turn can run in a process of
// its own.
const (
	CheckpointsSubdir = "checkpoints"
	ProcSubdir        = "proc"
	InboxSubdir       = "inbox"
	TmpSubdir         = "tmp"
)

// Session is one open session directory. Any number of Sessions, in any number
// of processes, may be open on one directory. Methods may be called from any
// goroutine, except that what Meta returns is one's own to guard.
type Session struct {
	store *Store
	id    string
	name  string
	dir   string // below the store's, with slashes
	path  string // absolute
	owns  bool   // the store, since nobody else has it

	mu     sync.Mutex
	meta   Meta
	loaded session.Meta // what meta was made of; empty: SaveMeta saves all of it
}

// Open opens or creates the named session in the usual sessions directory; see
// NewManager and Manager.Open.
func Open(name string) (*Session, error) {
	m, err := NewManager()
	if err != nil {
		return nil, err
	}
	s, err := m.Open(name)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	s.owns = true
	return s, nil
}

// Close closes the files that a session of Open or OpenDir keeps open. It must
// be the last call, after those to what Compact and Fork have begun. A session
// that a Manager has opened ends with the Manager, and Close does nothing.
func (s *Session) Close() error {
	if !s.owns {
		return nil
	}
	return s.store.Close()
}

// OpenDir opens or creates a session at a directory of any name, which may be
// anywhere, by the same code as a named session. If it is the directory of a
// Manager's session it is that session; any other is called like its directory.
// What Compact and Fork begin stands beside it.
func OpenDir(dir string) (*Session, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, sessionError("open", dir, err)
	}
	dir = filepath.Base(abs)
	store, name, err := newAt(filepath.Dir(abs), dir, nil)
	if err != nil {
		return nil, err
	}
	s, err := openAt(store, name, name, dir, abs)
	if err != nil {
		return nil, sessionError("open", name, errors.Join(err, store.Close()))
	}
	s.owns = true
	return s, nil
}

// Open opens the named session, or creates its directory. A flat file of that
// name, from before sessions were directories, is migrated. If the session has
// been compacted, what is opened is its successor, the last of the chain that
// exists; see Session.Name. A chain that leads back to itself is ErrCorrupt.
//
// A new session has no history yet: until something is written, SessionExists
// reports false.
func (m *Manager) Open(name string) (*Session, error) {
	s, err := m.open(name)
	return s, sessionError("open", name, err)
}

func (m *Manager) open(name string) (*Session, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	s, err := m.openOne(name)
	if err != nil {
		return nil, err
	}
	for seen := map[string]bool{name: true}; s.meta.SucceededBy != ""; seen[s.name] = true {
		next := s.meta.SucceededBy
		switch {
		case seen[next]:
			return nil, fmt.Errorf("%w: session %q is succeeded by %q, which came before it", session.ErrCorrupt, s.name, next)
		case checkName(next) != nil:
			return nil, fmt.Errorf("%w: session %q is succeeded by %q, which is no name", session.ErrCorrupt, s.name, next)
		case !m.SessionExists(next):
			return s, nil
		}
		if s, err = m.openOne(next); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (m *Manager) openOne(name string) (*Session, error) {
	if err := m.store.migrateFlat(name); err != nil {
		return nil, err
	}
	return openAt(m.store, name, name, mustDir(name), m.pathOf(name))
}

// openAt opens the session that is in a directory below the store's.
func openAt(store *Store, id, name, dir, abs string) (*Session, error) {
	for _, sub := range []string{CheckpointsSubdir, ProcSubdir, InboxSubdir, TmpSubdir} {
		if err := store.root.MkdirAll(path.Join(dir, sub), dirMode); err != nil {
			return nil, err
		}
	}
	if _, told := store.driver.idIn(dir); !told && isDirOf(dir, id) { // the name is a digest
		if err := writeFileAtomic(store.root, path.Join(dir, idName), []byte(id), store.syncs()); err != nil {
			return nil, err
		}
	}
	for _, swept := range []string{dir, path.Join(dir, InboxSubdir)} {
		if err := sweepTemp(store.root, swept, store.opts.Clock()); err != nil {
			return nil, err
		}
	}
	s := &Session{store: store, id: id, name: name, dir: dir, path: abs}
	return s, s.loadMeta()
}

// loadMeta reads the Meta anew.
func (s *Session) loadMeta() error {
	meta, stored, err := s.store.meta(context.Background(), s.id, s.name)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrCorrupt) {
		// A history that is damaged does not keep what is whole of it from
		// being read. Saving the Meta says that it is.
		now := s.store.opts.Clock().UTC()
		meta, err = &Meta{Name: s.name, Created: now, Updated: now}, nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta, s.loaded = *meta, session.Meta{}
	if stored {
		s.loaded = meta.clone().sessionMeta()
	}
	return nil
}

// Name is the session's name. After Manager.Open of a session that was
// compacted it is another than the one asked for.
func (s *Session) Name() string { return s.name }

// Dir is the session's directory, an absolute path. Its name is the session's,
// but for characters that file systems treat in ways of their own.
func (s *Session) Dir() string { return s.path }

// HistoryPath is the transcript, one event a line. It is only ever appended to.
func (s *Session) HistoryPath() string { return filepath.Join(s.path, historyName) }

// CheckpointsDir is the shadow repository that checkpoint tools commit into.
func (s *Session) CheckpointsDir() string { return filepath.Join(s.path, CheckpointsSubdir) }

// ProcDir holds pidfiles and logs of processes that outlive a turn.
func (s *Session) ProcDir() string { return filepath.Join(s.path, ProcSubdir) }

// Meta returns the session's metadata as it was when the session was opened or
// SaveMeta was last called. The pointer is the Session's own: set fields, then
// call SaveMeta. Name and the times are the store's and not saved.
func (s *Session) Meta() *Meta { return &s.meta }

// SaveMeta saves the fields of Meta that have been changed since it was read.
// Those that others have changed meanwhile stay, and are then in Meta.
func (s *Session) SaveMeta() error { return sessionError("save meta", s.name, s.saveMeta()) }

func (s *Session) saveMeta() error {
	s.mu.Lock()
	ours, loaded := s.meta.clone().sessionMeta(), s.loaded
	s.mu.Unlock()
	ctx := context.Background()
	change := func(m *session.Meta) error {
		mergeMeta(m, loaded, ours)
		return nil
	}
	_, err := s.store.Update(ctx, s.id, change)
	if errors.Is(err, session.ErrNotFound) {
		if _, err = s.store.Replace(ctx, s.id, nil, &session.WriteOptions{IfVersion: session.Absent}); err == nil || errors.Is(err, session.ErrConflict) {
			_, err = s.store.Update(ctx, s.id, change)
		}
	}
	if err != nil {
		return err
	}
	return s.loadMeta()
}

// mergeMeta sets in m what ours has changed of loaded.
func mergeMeta(m *session.Meta, loaded, ours session.Meta) {
	merge(&m.Title, loaded.Title, ours.Title)
	merge(&m.FirstPrompt, loaded.FirstPrompt, ours.FirstPrompt)
	merge(&m.Model, loaded.Model, ours.Model)
	merge(&m.Workspace, loaded.Workspace, ours.Workspace)
	merge(&m.Parent, loaded.Parent, ours.Parent)
	merge(&m.SucceededBy, loaded.SucceededBy, ours.SucceededBy)
	merge(&m.Cost, loaded.Cost, ours.Cost)
	if loaded.Summary != ours.Summary || loaded.SummaryThrough != ours.SummaryThrough || loaded.SummaryHash != ours.SummaryHash {
		m.Summary, m.SummaryThrough, m.SummaryHash = ours.Summary, ours.SummaryThrough, ours.SummaryHash
	}
	for k := range loaded.Labels {
		if _, kept := ours.Labels[k]; !kept {
			delete(m.Labels, k)
		}
	}
	for k, v := range ours.Labels {
		if old, was := loaded.Labels[k]; was && old == v {
			continue
		}
		if m.Labels == nil {
			m.Labels = make(map[string]string)
		}
		m.Labels[k] = v
	}
}

func merge[T comparable](to *T, loaded, ours T) {
	if loaded != ours {
		*to = ours
	}
}

// exists reports whether something is at a path.
func (s *Store) exists(name string) (bool, error) {
	_, err := s.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
