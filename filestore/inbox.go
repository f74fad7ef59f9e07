package filestore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// The inbox is a directory of files, each a message to the session that is not
// in its history yet. PutInbox names them by time and writes them whole before
// they get that name:
//
//	20261201T032634.123456789Z-mfzwkylb
//
// Any other program may drop files too, under any names; they are delivered in
// the order of their names. Names that begin with a dot are left alone, and so
// are empty files, which somebody may be about to write. A file that is not
// renamed into the inbox can be read half-written.

const (
	inboxLockName    = ".lock"     // of who drains it
	inboxPutLockName = ".put.lock" // of who gives a message its name, or lists them
)

// InboxMessage is a message that waits in a session's inbox.
type InboxMessage struct {
	ID   string    // the same as often as it is delivered, and no other message's
	Text string    // what the file holds; what isn't UTF-8 in it is replaced by U+FFFD
	Time time.Time // when it was put there, in UTC
}

// InboxDirFor is where a message for the named session is dropped, without
// opening the session or creating anything. It is "" for a name that no session
// can have.
func (m *Manager) InboxDirFor(name string) string {
	if checkName(name) != nil {
		return ""
	}
	return filepath.Join(m.pathOf(name), InboxSubdir)
}

// InboxDir is where a message that is dropped as a file is picked up.
func (s *Session) InboxDir() string { return filepath.Join(s.Dir(), InboxSubdir) }

// PutInbox drops a message for the named session, which need not exist, and
// returns the message's ID. When it has returned, the message stays until
// DrainInbox has delivered it.
func (m *Manager) PutInbox(name, text string) (id string, err error) {
	if err := checkName(name); err != nil {
		return "", sessionError("put inbox", name, err)
	}
	id, err = m.store.putInbox(mustDir(name), text)
	return id, sessionError("put inbox", name, err)
}

// PutInbox is Manager.PutInbox for an open session.
func (s *Session) PutInbox(text string) (id string, err error) {
	id, err = s.store.putInbox(s.dir, text)
	return id, sessionError("put inbox", s.name, err)
}

// inboxStamp is the time in the names of inbox files. It sorts as text.
const inboxStamp = "20060102T150405.000000000Z"

func (s *Store) putInbox(dir, text string) (string, error) {
	if text == "" {
		return "", fmt.Errorf("%w: an empty message", session.ErrInvalidMessage)
	}
	inbox := path.Join(dir, InboxSubdir)
	if err := s.root.MkdirAll(inbox, dirMode); err != nil {
		return "", err
	}
	sync := s.syncs()
	temp, err := writeTemp(s.root, inbox, []byte(text), sync)
	if err != nil {
		return "", err
	}
	id, err := s.deliverTemp(inbox, temp)
	if err != nil {
		return "", errors.Join(err, s.root.Remove(temp))
	}
	if sync {
		return id, s.driver.syncDirs(inbox) // some may be new
	}
	return id, nil
}

// deliverTemp gives a file that was written a name behind those of all messages
// that wait, whatever the clock says.
func (s *Store) deliverTemp(inbox, temp string) (string, error) {
	lock, err := s.lockName(inbox, inboxPutLockName, true)
	if err != nil {
		return "", err
	}
	defer releaseName(lock)
	entries, err := readDir(s.root, inbox)
	if err != nil {
		return "", err
	}
	now := s.opts.Clock().UTC()
	for _, e := range entries {
		stamp, _, _ := strings.Cut(e.Name(), "-")
		if t, err := time.Parse(inboxStamp, stamp); err == nil && !now.After(t) {
			now = t.Add(1)
		}
	}
	id := now.Format(inboxStamp) + "-" + strings.ToLower(rand.Text()[:8])
	return id, s.root.Rename(temp, path.Join(inbox, id))
}

// DrainInbox delivers the messages that wait in the inbox, oldest first, and
// returns those that it has delivered. Each is given to store, and leaves the
// inbox only when store has returned nil: one whose delivery was interrupted, by
// an error or the end of the process, is delivered again, with the same ID. A
// nil store appends a user message with that ID to the session's history, once
// even if it is delivered again.
//
// What waits for a session that this one continues, by Compact, is delivered
// too, and before its own.
//
// An error of store ends it and is returned, wrapped. Only one process drains an
// inbox at a time: ErrLocked.
func (s *Session) DrainInbox(ctx context.Context, store func(context.Context, InboxMessage) error) ([]InboxMessage, error) {
	delivered, err := s.drainInbox(ctx, store)
	return delivered, sessionError("drain inbox", s.name, err)
}

func (s *Session) drainInbox(ctx context.Context, store func(context.Context, InboxMessage) error) (delivered []InboxMessage, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if store == nil {
		store = s.storeInbox
	}
	for _, dir := range s.continues(ctx) {
		some, err := s.store.drainDir(ctx, path.Join(dir, InboxSubdir), store)
		if delivered = append(delivered, some...); err != nil {
			return delivered, err
		}
	}
	return delivered, nil
}

// continues returns the directories of the sessions that this one continues, the
// first one first, and its own.
func (s *Session) continues(ctx context.Context) []string {
	dirs, seen := []string{s.dir}, map[string]bool{}
	meta, _, err := s.store.meta(ctx, s.id, s.name)
	for id := s.id; err == nil && meta.Parent != "" && !seen[id]; {
		seen[id] = true
		before := meta.Parent
		if meta, _, err = s.store.meta(ctx, before, before); err != nil || meta.SucceededBy != id {
			break // it is gone, or was but forked
		}
		dir, err := s.store.driver.dirOf(before)
		if err != nil {
			break
		}
		dirs, id = append(dirs, dir), before
	}
	slices.Reverse(dirs)
	return dirs
}

func (s *Store) drainDir(ctx context.Context, inbox string, store func(context.Context, InboxMessage) error) (delivered []InboxMessage, err error) {
	root := s.root
	entries, err := readDir(root, inbox)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	lock, err := s.lockName(inbox, inboxLockName, false)
	if err != nil {
		return nil, err
	}
	defer releaseName(lock)
	if entries, err = s.listInbox(inbox); err != nil { // another may have drained it meanwhile
		return nil, err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return delivered, err
		}
		m, err := readInbox(root, path.Join(inbox, e.Name()))
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && m.Text == "":
			continue
		case err != nil:
			return delivered, err
		}
		if err := store(ctx, m); err != nil {
			return delivered, err
		}
		delivered = append(delivered, m)
		if err := root.Remove(path.Join(inbox, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return delivered, err
		}
	}
	if len(delivered) > 0 && s.syncs() {
		return delivered, syncDir(root, inbox)
	}
	return delivered, nil
}

// listInbox returns the messages that wait in an inbox, in order. None is put
// meanwhile: a directory that changes while it is read may show a new file and
// not one that is older.
func (s *Store) listInbox(inbox string) ([]fs.DirEntry, error) {
	lock, err := s.lockName(inbox, inboxPutLockName, true)
	if err != nil {
		return nil, err
	}
	defer releaseName(lock)
	entries, err := readDir(s.root, inbox)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !isMail(e) }), err
}

// isMail reports whether an entry of an inbox is a message.
func isMail(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), ".") && e.Type().IsRegular() }

func readInbox(root *os.Root, name string) (InboxMessage, error) {
	f, err := root.Open(name)
	if err != nil {
		return InboxMessage{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return InboxMessage{}, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return InboxMessage{}, err
	}
	m := InboxMessage{ID: path.Base(name), Text: strings.ToValidUTF8(string(data), "\uFFFD"), Time: info.ModTime().UTC()}
	stamp, _, _ := strings.Cut(m.ID, "-")
	if t, err := time.Parse(inboxStamp, stamp); err == nil {
		m.Time = t
		return m, nil
	}
	// Others may use a name again.
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", info.ModTime().UnixNano(), data))
	m.ID = fmt.Sprintf("%s-%x", strings.ToValidUTF8(m.ID, "\uFFFD"), sum[:8])
	return m, nil
}

// storeInbox appends a message of the inbox to the history. The key of the
// write is made of its ID, so that it is stored once.
func (s *Session) storeInbox(ctx context.Context, m InboxMessage) error {
	message := session.UserText(m.Text)
	message.ID, message.Time = m.ID, m.Time
	sum := sha256.Sum256([]byte(m.ID))
	key := fmt.Sprintf("inbox-%x", sum[:16])
	_, err := s.store.Append(ctx, s.id, []session.Message{message}, &session.WriteOptions{Key: key})
	return err
}
