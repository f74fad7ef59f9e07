package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/holdfast-go/session"
)

// newAt returns the store for OpenDir, of the directory base, and the ID of the
// session in the directory dir below it: dir itself unless it is that of a name.
func newAt(base, dir string, opts *Options) (s *Store, id string, err error) {
	if !fs.ValidPath(dir) || strings.Contains(dir, "/") || dir == "." { // the root of a file system has no name
		return nil, "", sessionError("open", dir, fmt.Errorf("%w: a directory that can't be a session's", session.ErrInvalidOption))
	}
	if s, err = New(base, opts); err != nil {
		return nil, "", err
	}
	if id, ok := s.driver.idIn(dir); ok && checkName(id) == nil {
		return s, id, nil
	}
	s.driver.only = dir
	return s, dir, nil
}

// dirOf returns the directory of a session below the base directory.
func (d *files) dirOf(id string) (string, error) {
	if d.only != "" && id == d.only {
		return d.only, nil
	}
	return dirOf(id)
}

// driverHas reports whether there is a history, expired or not.
func (s *Store) driverHas(id string) bool {
	h, err := s.driver.Head(context.Background(), id)
	return err == nil && h.Rev != ""
}

// removeUnbegun removes the directory of a session that has no history, though
// perhaps notes in its transcript.
func (d *files) removeUnbegun(ctx context.Context, id string) error {
	dir, err := d.dirOf(id)
	if err != nil {
		return err
	}
	if _, err := d.root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.with(ctx, id, func(l *log) error {
		return l.begin(ctx, func() error {
			if l.history.head.Rev != "" {
				return nil // it was begun meanwhile
			}
			return l.remove()
		})
	})
}

// begin calls do with the history locked and known. If there is none it creates
// an empty file.
func (l *log) begin(ctx context.Context, do func() error) error {
	for {
		if err := l.open(true); err != nil {
			return err
		}
		switch err := l.ready(ctx); {
		case err == errReplaced:
			l.forget()
		case err != nil:
			return err
		default:
			defer l.unlock()
			return do()
		}
	}
}
