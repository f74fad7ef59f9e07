package filestore

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-go/session"
)

// idName is the file with the session's ID in a directory whose name is a
// digest.
const idName = "id"

// maxIDFile bounds what is read of it.
const maxIDFile = 4 << 10

// idIn returns the ID of the session whose directory dir is, if it is one's.
func (d *files) idIn(dir string) (id string, ok bool) {
	if !hasDigest(dir) {
		return idOf(dir)
	}
	b, err := readRegular(d.root, path.Join(dir, idName), maxIDFile)
	id = string(b)
	if err != nil || !isDirOf(dir, id) {
		m, err := readMeta(d.root, dir)
		if err != nil || !isDirOf(dir, m.ID) {
			return "", false
		}
		id = m.ID
	}
	return id, true
}

func isDirOf(dir, id string) bool {
	of, err := dirOf(id)
	return err == nil && of == dir
}

// Heads implements session.Driver. It looks at all sessions of the folder, or
// of the store, before it yields the first; those that it knows and that were
// not changed are not read.
func (d *files) Heads(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		heads, err := d.heads(ctx, q)
		if err != nil {
			yield(session.Head{}, wrapError(err))
			return
		}
		for _, h := range heads {
			if err := ctx.Err(); err != nil {
				yield(session.Head{}, err)
				return
			}
			if !yield(h, nil) {
				return
			}
		}
	}
}

// newer is the order of a list: the newest update first, ties by ID.
func newer(a, b session.Head) int {
	return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(a.ID, b.ID))
}

// wanted reports whether a head is in the part of the list that q asks for.
func wanted(q session.HeadQuery, h session.Head) bool {
	return !h.Updated.Before(q.Since) &&
		(q.AfterUpdated.IsZero() || newer(session.Head{ID: q.AfterID, Updated: q.AfterUpdated}, h) < 0)
}

func (d *files) heads(ctx context.Context, q session.HeadQuery) ([]session.Head, error) {
	folder := "."
	if i := strings.LastIndexByte(q.Prefix, '/'); i >= 0 {
		folder = folderOf(q.Prefix[:i])
	}
	var heads []session.Head
	err := d.walk(ctx, folder, func(dir string) error {
		id, ok := d.idIn(dir)
		if !ok || !strings.HasPrefix(id, q.Prefix) {
			return nil
		}
		h, err := d.listed(ctx, id)
		if err == nil && h.Rev != "" && wanted(q, h) {
			heads = append(heads, h)
		}
		return err
	})
	slices.SortFunc(heads, newer)
	return heads, err
}

// walk calls visit with the sessions' directories in a folder and in those in
// it. It goes down folder by folder: a path of hundreds of them takes as many
// steps each time it is opened from the base.
func (d *files) walk(ctx context.Context, folder string, visit func(dir string) error) error {
	if folder == "." {
		return walkIn(ctx, d.root, folder, visit)
	}
	return walkFolder(ctx, d.root, folder, folder, visit)
}

// walkFolder walks the folder that has a name in parent and a path below the
// base.
func walkFolder(ctx context.Context, parent *os.Root, name, folder string, visit func(dir string) error) error {
	root, err := parent.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // or no longer
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return walkIn(ctx, root, folder, visit)
}

func walkIn(ctx context.Context, root *os.Root, folder string, visit func(dir string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := readDir(root, ".")
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		switch {
		case err != nil:
		case !e.IsDir() || strings.HasPrefix(e.Name(), "."):
		case strings.HasSuffix(e.Name(), folderMark):
			err = walkFolder(ctx, root, e.Name(), name, visit)
		default:
			err = visit(name)
		}
	}
	return err
}

// listed returns the head of a session for a list. One that is damaged gets a
// head that can't be read, so that the list shows that and where to go on.
func (d *files) listed(ctx context.Context, id string) (h session.Head, err error) {
	err = d.with(ctx, id, func(l *log) error {
		wasOpen := l.file != nil
		if err := l.refresh(ctx); err != nil {
			return err
		}
		h, err = l.head(ctx)
		if !wasOpen && d.crowded() {
			l.close() // lists don't take the place of what is in use
		}
		return err
	})
	if !errors.Is(err, session.ErrCorrupt) {
		return h, err
	}
	h = session.Head{ID: id, Rev: madeRev(nil, 0)}
	dir, err := d.dirOf(id)
	if err != nil {
		return h, err
	}
	if info, err := d.root.Stat(dir); err == nil {
		h.Updated = info.ModTime().UTC()
	}
	return h, nil
}
