package filestore

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

const trashPrefix = ".deleted-"

// remove removes the session, under the lock of its history.
func (l *log) remove() error {
	if _, err := l.d.removeMigrated(l.id); err != nil {
		return err
	}
	if err := seal(l.file); err != nil {
		return err
	}
	trash, err := l.d.putAside(l.dir)
	if err != nil {
		return errors.Join(err, unseal(l.file))
	}
	err = l.d.root.Remove(path.Join(trash, historyName)) // now the file itself shows that it is gone
	l.forget()
	return errors.Join(err, l.d.discard(trash, l.dir))
}

// putAside renames a session's directory so that it is none any more.
func (d *files) putAside(dir string) (string, error) {
	trash := trashPrefix + strings.ToLower(rand.Text())
	if err := d.root.Rename(dir, trash); err != nil {
		return "", err
	}
	if d.syncs() {
		return trash, errors.Join(syncDir(d.root, path.Dir(dir)), syncDir(d.root, "."))
	}
	return trash, nil
}

// discard removes what was put aside, and the folders that it has left empty.
func (d *files) discard(trash, dir string) error {
	err := d.root.RemoveAll(trash)
	for folder := path.Dir(dir); folder != "."; folder = path.Dir(folder) {
		if d.root.Remove(folder) != nil {
			break // it is not empty
		}
	}
	return err
}

// removeDir removes a directory that is no session, or no longer one, if it is
// there.
func (d *files) removeDir(dir string) error {
	trash, err := d.putAside(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.discard(trash, dir)
}

// trashAge is how old a session that is being removed is when whoever removed
// it must have been killed.
const trashAge = time.Hour

// Sweep removes expired sessions, and what writers that were killed have left
// behind, and returns how many sessions. One whose inbox holds messages stays
// until they are delivered. Nobody needs to call it for
// correctness: expired sessions are absent. It looks at every session of the
// store; once a day is often enough.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	err = s.call("sweep", "", func() (err error) {
		removed, err = s.driver.sweep(ctx)
		return err
	})
	return removed, err
}

func (d *files) sweep(ctx context.Context) (removed int, err error) {
	now := d.opts.Clock()
	err = d.walk(ctx, ".", func(dir string) error {
		if err := sweepTemp(d.root, dir, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		id, ok := d.idIn(dir)
		if !ok {
			return nil
		}
		h, err := d.listed(ctx, id)
		if err != nil || h.Expires.IsZero() || now.Before(h.Expires) {
			return err
		}
		if waiting, err := d.hasMail(dir); waiting || err != nil {
			return err
		}
		err = d.Commit(ctx, id, session.Commit{IfRev: h.Rev})
		if errors.Is(err, session.ErrConflict) {
			return nil // it was begun anew
		}
		if err == nil {
			removed++
		}
		return err
	})
	if err != nil {
		return removed, wrapError(err)
	}
	if err := d.sweepHidden(ctx, now); err != nil {
		return removed, wrapError(err)
	}
	return removed, wrapError(d.sweepTrash(now))
}

// hasMail reports whether messages wait in a session's inbox.
func (d *files) hasMail(dir string) (bool, error) {
	entries, err := readDir(d.root, path.Join(dir, InboxSubdir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return slices.ContainsFunc(entries, isMail), err
}

// sweepTrash removes sessions whose removal was interrupted.
func (d *files) sweepTrash(now time.Time) error {
	entries, err := readDir(d.root, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), trashPrefix) {
			continue
		}
		info, err := d.root.Lstat(e.Name())
		if err != nil || now.Sub(info.ModTime()) < trashAge {
			continue
		}
		if err := d.root.RemoveAll(e.Name()); err != nil {
			return err
		}
	}
	return nil
}
