package filestore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// Hidden IDs are leases, which are rewritten every few seconds and removed when
// they end, so each is not a directory but one small file:
//
//	BASE/.leases/3f/9a01….json  its name is the SHA-256 of the ID
//	BASE/.leases/3f/lock        locked while a file beside it is changed, and never removed
//
// It is replaced by rename. It need not survive power loss, which no holder of
// a lease does.
const leasesDir = ".leases"

// hiddenFile is the content of such a file.
type hiddenFile struct {
	ID       string    `json:"id"`
	Rev      string    `json:"rev"`
	Base     string    `json:"base"`
	Updated  time.Time `json:"updated"`
	Expires  time.Time `json:"expires"`
	Record   []byte    `json:"record"`
	Meta     []byte    `json:"meta,omitempty"`
	Messages [][]byte  `json:"messages,omitempty"`
}

func hiddenName(id string) string {
	sum := sha256.Sum256([]byte(id))
	name := hex.EncodeToString(sum[:])
	return path.Join(leasesDir, name[:2], name[2:]+".json")
}

// readHidden returns the file of a hidden ID, an empty one if there is none.
func (d *files) readHidden(ctx context.Context, id string) (hiddenFile, error) {
	var f hiddenFile
	if err := ctx.Err(); err != nil {
		return f, err
	}
	name := hiddenName(id)
	b, err := d.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, wrapError(err)
	}
	if err := json.Unmarshal(b, &f); err != nil || f.ID != id || f.Rev == "" {
		return hiddenFile{}, &Damage{File: name, Err: fmt.Errorf("%w: not a lease", session.ErrCorrupt)}
	}
	return f, nil
}

func (d *files) hiddenHead(ctx context.Context, id string) (session.Head, error) {
	f, err := d.readHidden(ctx, id)
	if err != nil || f.Rev == "" {
		return session.Head{}, err
	}
	return session.Head{
		ID: id, Rev: f.Rev, Base: f.Base, Count: len(f.Messages), Updated: f.Updated, Expires: f.Expires, Record: f.Record, Meta: f.Meta,
	}, nil
}

func (d *files) hiddenRange(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	f, err := d.readHidden(ctx, id)
	if err != nil {
		return nil, err
	}
	if f.Base != h.Base || to > len(f.Messages) {
		return nil, session.ErrConflict
	}
	return f.Messages[from:to], nil
}

func (d *files) hiddenCommit(ctx context.Context, id string, c *session.Commit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	name := hiddenName(id)
	unlock, err := d.lockHidden(ctx, path.Dir(name))
	if err != nil {
		return wrapError(err)
	}
	defer unlock()
	f, err := d.readHidden(ctx, id)
	if errors.Is(err, session.ErrCorrupt) && c.IfRev == "" && c.Head != nil {
		f, err = hiddenFile{}, nil // nobody can hold it
	}
	switch {
	case err != nil:
		return err
	case f.Rev != c.IfRev:
		return session.ErrConflict
	case c.Head == nil && c.IfRev == "":
		return nil
	case c.Head == nil:
		return wrapError(d.root.Remove(name))
	case c.Keep > len(f.Messages):
		return fmt.Errorf("%w: keep %d of %d", session.ErrInvalidOption, c.Keep, len(f.Messages))
	}
	next := hiddenFile{
		ID: id, Rev: c.Head.Rev, Base: c.Head.Base, Updated: c.Head.Updated, Expires: c.Head.Expires, Record: c.Head.Record,
		Meta: f.Meta, Messages: slices.Concat(f.Messages[:c.Keep], c.Add),
	}
	if c.SetMeta {
		next.Meta = c.Head.Meta
	}
	b, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return wrapError(writeFileAtomic(d.root, name, b, false))
}

// lockHidden locks a directory of leases.
func (d *files) lockHidden(ctx context.Context, dir string) (unlock func(), err error) {
	name := path.Join(dir, "lock")
	f, err := d.root.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := d.root.MkdirAll(dir, dirMode); err != nil {
			return nil, err
		}
		f, err = d.root.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	}
	if err != nil {
		return nil, err
	}
	if err := lockContext(ctx, f, true); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// sweepHidden removes the leases that ended before now because their holders
// died.
func (d *files) sweepHidden(ctx context.Context, now time.Time) error {
	dirs, err := readDir(d.root, leasesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range dirs {
		if err == nil {
			err = d.sweepHiddenDir(ctx, path.Join(leasesDir, e.Name()), now)
		}
	}
	return err
}

func (d *files) sweepHiddenDir(ctx context.Context, dir string, now time.Time) error {
	unlock, err := d.lockHidden(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	entries, err := readDir(d.root, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		b, err := d.root.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		var f hiddenFile
		if json.Unmarshal(b, &f) == nil && !f.Expires.IsZero() && f.Expires.Before(now) {
			if err := d.root.Remove(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
