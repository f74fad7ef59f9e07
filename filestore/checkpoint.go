package filestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// checkpoint is the member head of meta.json: what a history came to up to some
// line, so that opening it reads only what is behind. It is but a cache. One that
// does not fit the history, in which the line must still be, is ignored.
type checkpoint struct {
	Size    int64     `json:"size"`  // of the history up to here
	Lines   int       `json:"lines"` // in it
	Line    int64     `json:"line"`  // where the last line begins
	Begin   []byte    `json:"begin"` // its first bytes
	Rev     string    `json:"rev"`
	Base    string    `json:"base"`
	Count   int       `json:"count"`
	Updated time.Time `json:"updated"`
	Expires time.Time `json:"expires,omitzero"`
	Created time.Time `json:"created,omitzero"` // of the first line
	Record  []byte    `json:"record"`
}

// checkpointEvery is after how many commits, and bytes of history, a writer
// makes a checkpoint, which takes as long as some hundred appends.
const (
	checkpointEvery = 8192
	checkpointBytes = 4 << 20
)

func checkpointOf(m *metaFile) (c checkpoint, ok bool) {
	if len(m.Head) == 0 || json.Unmarshal(m.Head, &c) != nil {
		return c, false
	}
	return c, c.Rev != "" && len(c.Record) > 0 && c.Count >= 0 && c.Lines > 0 && 0 <= c.Line && c.Line < c.Size
}

// restore returns the history that the checkpoint tells of, or an empty one.
func (l *log) restore(size int64, report func(Damage)) (history, error) {
	m, err := readMeta(l.d.root, l.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return history{}, nil
	case errors.Is(err, session.ErrCorrupt):
		report(Damage{File: path.Join(l.dir, metaName), Err: err})
		return history{}, nil
	case err != nil:
		return history{}, err
	}
	if m.ID != "" && m.ID != l.id {
		return history{}, fmt.Errorf("%w: %s is of another session", session.ErrCorrupt, path.Join(l.dir, metaName))
	}
	var bare history // the history's own lines come after it
	if bare.head.Meta, err = m.headMeta(); err != nil {
		return history{}, err
	}
	c, ok := checkpointOf(m)
	if !ok {
		return bare, nil
	}
	h := history{
		head: session.Head{
			Rev: c.Rev, Base: c.Base, Count: c.Count, Updated: c.Updated.UTC(), Expires: c.Expires.UTC(), Record: c.Record, Meta: bare.head.Meta,
		},
		created: c.Created.UTC(), size: c.Size, lines: c.Lines, indexed: c.Count, broken: true,
	}
	h.setAnchor(c.Begin, c.Line)
	if c.Size > size || !h.fits(l.file) {
		if size == 0 && c.Count > 0 {
			return history{}, &Damage{File: l.name, Err: errLost}
		}
		report(Damage{File: l.name, Err: fmt.Errorf("%w: not the history that %s tells of", session.ErrCorrupt, metaName)})
		return bare, nil
	}
	l.checkpointed = h.size
	return h, nil
}

// checkpoint writes meta.json, under the lock of the history, which it must be
// up to date with. A meta.json that is damaged is put aside.
func (l *log) checkpoint() error {
	h := &l.history
	if !l.known || h.torn || h.open || h.head.Rev == "" || h.head.Record == nil || len(h.head.Appends) > 0 {
		return nil
	}
	m, err := l.readMeta()
	if err != nil {
		return err
	}
	c := checkpoint{
		Size: h.size, Lines: h.lines, Line: h.anchor, Begin: h.anchorHead[:h.anchorLen], Rev: h.head.Rev, Base: h.head.Base, Count: h.head.Count,
		Updated: h.head.Updated, Expires: h.head.Expires, Created: h.created, Record: h.head.Record,
	}
	if m.Head, err = json.Marshal(c); err != nil {
		return err
	}
	if err := m.setHeadMeta(h.head.Meta); err != nil {
		return err
	}
	if m.Name == "" {
		m.Name = l.id[strings.LastIndexByte(l.id, '/')+1:]
	}
	if m.ID = ""; hasDigest(l.dir) {
		m.ID = l.id
	}
	if m.Created.IsZero() {
		m.Created = h.created
	}
	m.Updated = h.head.Updated
	if err := writeMeta(l.d.root, l.dir, m, l.d.syncs()); err != nil {
		return err
	}
	l.kept, l.checkpointed = 0, h.size
	return nil
}

// readMeta reads meta.json for changing it, under the lock of the history.
func (l *log) readMeta() (*metaFile, error) {
	m, err := readMeta(l.d.root, l.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &metaFile{}, nil
	case errors.Is(err, session.ErrCorrupt):
		_, err := putMetaAside(l.d.root, l.dir, l.d.opts.Clock())
		return &metaFile{}, err
	}
	return m, err
}
