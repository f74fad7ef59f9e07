package filestore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/session"
)

// DirVar is the environment variable that names the sessions directory, in
// place of the platform's.
const DirVar = "SESSION_DIR"

// Manager owns a directory of sessions, each with a name. It is a view of a
// Store: the session that a Manager calls demo has the ID demo in the Store, and
// both may be used at once. A Manager keeps some files open until it is closed.
//
// A name is 1 to 200 bytes of UTF-8, without slashes, backslashes and control
// characters; it doesn't begin with a dot, end with a dot or a space, or belong
// to a device of Windows such as CON. Any other is session.ErrInvalidID. (A
// Store has wider IDs.) Errors are *session.Error. Any method may be called from
// any goroutine.
type Manager struct {
	store *Store
	base  string
}

// NewManager returns a manager of the usual sessions directory, which it creates
// if need be: what DirVar says, or session/sessions in the directory where the
// platform keeps state, which is $XDG_STATE_HOME or ~/.local/state,
// ~/Library/Application Support, or %LocalAppData%.
func NewManager() (*Manager, error) {
	dir, err := defaultDir()
	if err != nil {
		return nil, sessionError("open", "", err)
	}
	return NewManagerIn(dir)
}

// NewManagerIn returns a manager of a sessions directory, which it creates, with
// mode 0700, if it is not there. For other options, see Store.Manager.
func NewManagerIn(baseDir string) (*Manager, error) {
	store, err := New(baseDir, nil)
	if err != nil {
		return nil, err
	}
	m, err := store.Manager()
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return m, nil
}

// Manager returns a manager of the store's directory, with the store's options.
// It ends with the store.
func (s *Store) Manager() (*Manager, error) {
	base, err := filepath.Abs(s.dir)
	if err != nil {
		return nil, sessionError("open", "", err)
	}
	return &Manager{store: s, base: base}, nil
}

// Close closes the manager's store. Sessions opened by the manager end with it.
func (m *Manager) Close() error { return m.store.Close() }

// BaseDir is the directory that sessions live in, as an absolute path.
func (m *Manager) BaseDir() string { return m.base }

// Store returns the backend over the same directories.
func (m *Manager) Store() *Store { return m.store }

func defaultDir() (string, error) {
	if dir := os.Getenv(DirVar); dir != "" {
		return dir, nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	var err error
	switch {
	case runtime.GOOS == "darwin":
		state, err = os.UserConfigDir() // ~/Library/Application Support
	case runtime.GOOS == "windows":
		state, err = os.UserCacheDir() // %LocalAppData%
	case !filepath.IsAbs(state): // the XDG specification: a relative path is to be ignored
		if state, err = os.UserHomeDir(); err == nil {
			state = filepath.Join(state, ".local", "state")
		}
	}
	return filepath.Join(state, "session", "sessions"), err
}

// checkName returns ErrInvalidID if no session can have the name.
func checkName(name string) error {
	why := ""
	switch {
	case name == "":
		why = "empty"
	case len(name) > maxNameBytes:
		why = fmt.Sprintf("%d bytes, at most %d", len(name), maxNameBytes)
	case !utf8.ValidString(name):
		why = "not valid UTF-8"
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == '\\' || r < ' ' || r == 0x7f }):
		why = "a separator or a control character"
	case name[0] == '.':
		why = "a dot in front"
	case strings.HasSuffix(name, "."), strings.HasSuffix(name, " "):
		why = "a dot or a space at the end"
	case reservedName(strings.ToLower(name)):
		why = "reserved by Windows"
	default:
		return nil
	}
	return fmt.Errorf("%w: the name of a session: %s", session.ErrInvalidID, why)
}

// mustDir returns the directory of a session whose name has been checked.
func mustDir(name string) string {
	dir, err := dirOf(name)
	if err != nil {
		panic(err) // checkName is stricter
	}
	return dir
}

// pathOf returns the path of a session's directory for the operating system.
func (m *Manager) pathOf(name string) string {
	return filepath.Join(m.base, filepath.FromSlash(mustDir(name)))
}

// sessionError makes err the error of an operation.
func sessionError(op, name string, err error) error {
	var e *session.Error
	if err == nil || errors.As(err, &e) && e.SessionID == name {
		return err
	}
	if errors.Is(err, os.ErrClosed) {
		err = fmt.Errorf("%w: %w", session.ErrClosed, err)
	}
	return &session.Error{Op: op, SessionID: name, Err: err}
}

// GenerateSessionName returns a name that no session has: the date, in local
// time, and six random letters and digits, as in 2026-12-01-k3x7qz.
func (m *Manager) GenerateSessionName() string {
	for {
		name := m.store.opts.Clock().Format(time.DateOnly) + "-" + strings.ToLower(rand.Text()[:6])
		if _, err := m.store.root.Lstat(mustDir(name)); err != nil {
			return name // if it can't be looked at, creating it says why
		}
	}
}

// SessionExists reports whether the named session has any history that has not
// expired, as a directory or as a flat file from before sessions were
// directories.
func (m *Manager) SessionExists(name string) bool {
	if checkName(name) != nil {
		return false
	}
	return m.store.hasHistory(mustDir(name)) && !m.expired(name) || m.store.hasFlat(name)
}

// expired reports whether a session has a history that has expired.
func (m *Manager) expired(name string) bool {
	_, err := m.store.Info(context.Background(), name)
	return errors.Is(err, session.ErrNotFound) && m.store.driverHas(name)
}

// hasHistory reports whether a session's directory has a history that is not an
// empty file.
func (s *Store) hasHistory(dir string) bool {
	info, err := s.root.Stat(path.Join(dir, historyName))
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

// LoadSession returns a session's conversation without opening or migrating it.
// ErrNotFound if there is no such session, ErrCorrupt if its history is lost. It
// reads past other damage as Session.Load does.
func (m *Manager) LoadSession(name string) ([]session.Message, error) {
	messages, err := m.loadSession(name)
	return messages, sessionError("load", name, err)
}

func (m *Manager) loadSession(name string) ([]session.Message, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if m.store.flatOnly(name) {
		return m.store.flatMessages(name)
	}
	messages, _, err := m.store.liveMessages(context.Background(), name)
	if err == nil && len(messages) == 0 && !m.SessionExists(name) {
		err = session.ErrNotFound
	}
	return messages, err
}

// ReadMeta returns what is known of the named session, nil if there is none or
// it can't be read. Of a session whose history is lost it is what meta.json says.
// It creates and migrates nothing.
func (m *Manager) ReadMeta(name string) *Meta {
	if checkName(name) != nil {
		return nil
	}
	meta, _, err := m.store.meta(context.Background(), name, name)
	if err != nil {
		return nil
	}
	return meta
}

// SessionTitle returns the named session's title, "" if it has none yet.
func (m *Manager) SessionTitle(name string) string {
	if meta := m.ReadMeta(name); meta != nil {
		return meta.Title
	}
	return ""
}

// meta returns the Meta of a session: ErrNotFound if it has none. stored says
// that there is a history that it belongs to: without one, or if that is lost, it
// is what meta.json alone says.
func (s *Store) meta(ctx context.Context, id, name string) (m *Meta, stored bool, err error) {
	info, err := s.Info(ctx, id)
	if err == nil {
		m = &Meta{Name: name, Created: info.Created, Updated: info.Updated}
		m.setSessionMeta(info.Meta)
		return m, true, nil
	}
	dir, dirErr := s.driver.dirOf(id)
	if dirErr == nil && (errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNotFound) && !s.driverHas(id)) {
		if file, fileErr := readMeta(s.root, dir); fileErr == nil {
			file.Meta.Name = name
			return &file.Meta, false, nil
		}
	}
	return nil, false, err
}

// DeleteSession removes a session and everything it holds: history, metadata,
// checkpoints, spilled output, the inbox, and the flat file that it was migrated
// from. ErrNotFound if there is none of that.
func (m *Manager) DeleteSession(name string) error {
	return sessionError("delete", name, m.deleteSession(name))
}

func (m *Manager) deleteSession(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	found, err := m.store.removeFlat(name)
	if err != nil {
		return err
	}
	migrated, err := m.store.driver.removeMigrated(name)
	if err != nil {
		return err
	}
	found = found || migrated
	ctx, dir := context.Background(), mustDir(name)
	there, err := m.store.exists(dir)
	if err != nil {
		return err
	}
	if there {
		err = m.store.Delete(ctx, name, nil)
		if err == nil {
			err = m.store.call("delete", name, func() error { return m.store.driver.removeUnbegun(ctx, name) })
		}
		if errors.Is(err, session.ErrCorrupt) {
			err = m.store.call("delete", name, func() error { return m.store.driver.removeDir(dir) })
		}
		if err != nil {
			return err
		}
		found = true
	}
	if !found {
		return session.ErrNotFound
	}
	return nil
}

// AcquireLock is Session.AcquireLock without opening the session, which need not
// exist. It creates the session's directory.
func (m *Manager) AcquireLock(name string) (func(), error) {
	if err := checkName(name); err != nil {
		return nil, sessionError("lock", name, err)
	}
	dir := mustDir(name)
	if err := m.store.root.MkdirAll(dir, dirMode); err != nil {
		return nil, sessionError("lock", name, err)
	}
	release, err := m.store.acquireLock(dir)
	return release, sessionError("lock", name, err)
}

// ActiveTurns returns the names of the sessions that have a turn running, sorted.
func (m *Manager) ActiveTurns() ([]string, error) {
	names, err := m.directories()
	if err != nil {
		return nil, sessionError("active turns", "", err)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, live, err := m.store.turnPID(mustDir(name))
		return err != nil || !live
	}), nil
}

// directories returns the names of all sessions that have a directory, sorted
// by it.
func (m *Manager) directories() ([]string, error) {
	entries, err := readDir(m.store.root, ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if name, ok := m.store.driver.idIn(e.Name()); ok && checkName(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
