package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/holdfast-go/session"
)

// commit makes a commit, in the log's turn.
func (l *log) commit(ctx context.Context, c *session.Commit) error {
	for {
		create := c.IfRev == "" && c.Head != nil
		err := l.open(create)
		if errors.Is(err, fs.ErrNotExist) {
			l.forget()
			switch err := l.missing(); {
			case err != nil:
				return err
			case c.IfRev != "":
				return session.ErrConflict
			}
			return nil // there is nothing to remove
		}
		if err != nil {
			return err
		}
		done, err := l.commitLocked(ctx, c)
		if done || err != nil {
			return err
		}
		l.forget()
	}
}

// commitLocked makes a commit to the open file, unless that is no longer the
// one that its path names.
func (l *log) commitLocked(ctx context.Context, c *session.Commit) (done bool, err error) {
	if err := l.ready(ctx); err != nil {
		return err != errReplaced, noteReplaced(err)
	}
	defer l.unlock()
	h := &l.history
	switch {
	case h.head.Rev != c.IfRev:
		return true, session.ErrConflict
	case c.Keep > h.head.Count:
		return true, fmt.Errorf("%w: keep %d of %d", session.ErrInvalidOption, c.Keep, h.head.Count)
	case c.Head == nil && c.IfRev == "":
		return true, nil
	case c.Head == nil:
		return true, l.remove()
	}
	if err := l.write(ctx, c); err != nil {
		return true, err
	}
	l.kept++
	if l.kept >= checkpointEvery || l.history.size-l.checkpointed >= checkpointBytes || c.SetMeta && (c.IfRev != "" || c.Head.Meta != nil) {
		l.checkpointSoon()
	}
	return true, nil
}

// errReplaced says that the open file is not the one that its path names.
var errReplaced = errors.New("filestore: the history was replaced")

func noteReplaced(err error) error {
	if err == errReplaced {
		return nil
	}
	return err
}

// ready locks the open file for writing and brings the history up to date. If it
// returns no error the caller unlocks.
func (l *log) ready(ctx context.Context) error {
	if l.denied != nil {
		return l.denied
	}
	if err := l.lock(ctx, true); err != nil {
		return err
	}
	st, ok, err := l.current()
	if err == nil && !ok {
		err = errReplaced
	}
	if err == nil && st.gone {
		err = unseal(l.file) // by one who was killed before the session was gone
	}
	if err == nil && !l.uptodate(st) {
		err = l.catchUp(ctx, st.size, l.report, true)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		l.unlock()
	}
	return err
}

// checkpointSoon makes a checkpoint. That it can't is no fault of the write that
// was made: the next one tries again.
func (l *log) checkpointSoon() {
	if err := l.checkpoint(); err != nil {
		l.report(Damage{File: path.Join(l.dir, metaName), Err: err})
	}
}

// write writes the lines of a commit and takes them into the history.
func (l *log) write(ctx context.Context, c *session.Commit) error {
	h := &l.history
	lines, first := l.linesOf(ctx, c)
	b := l.freshLine(l.batch[:0])
	lead := len(b)
	starts := l.starts[:0]
	for i := range lines {
		starts = append(starts, int64(len(b)))
		b = lines[i].append(b)
	}
	l.starts = starts
	if l.batch = b; cap(b) > maxKeptBatch {
		l.batch = nil
	}
	if first && hasDigest(l.dir) {
		if err := l.nameID(); err != nil {
			return err
		}
	}
	if err := l.writeBytes(b, first); err != nil {
		return err
	}
	if lead > 0 {
		if err := l.catchUp(ctx, l.seen+int64(len(b)), func(Damage) {}, true); err != nil {
			l.known = false // the write was made; who comes next reads all
		}
	} else {
		l.wrote(c, lines, starts, b)
	}
	if l.known && h.head.Rev == c.Head.Rev { // the file may do without the Record
		h.head.Record, h.head.Appends, h.unknown = append(h.head.Record[:0], c.Head.Record...), nil, false
	}
	return nil
}

// freshLine appends to b what has to stand before what is written next.
func (l *log) freshLine(b []byte) []byte {
	if l.history.open {
		b = append(b, '\n')
	}
	if l.history.torn {
		b = append(b, '\n')
	}
	return b
}

// maxKeptBatch is how large a buffer is kept for the next write.
const maxKeptBatch = 64 << 10

// linesOf returns the lines of a commit. first says that they begin the file.
func (l *log) linesOf(ctx context.Context, c *session.Commit) (lines []line, first bool) {
	h := &l.history
	lines = l.lines[:0]
	dropped := h.head.Count - c.Keep
	if dropped > 0 {
		lines = append(lines, line{kind: KindRollback, dropped: dropped, keep: c.Keep})
	}
	if c.SetMeta && (c.Head.Meta != nil || h.head.Meta != nil) || dropped == 0 && len(c.Add) == 0 {
		meta := line{kind: kindMeta}
		if c.SetMeta {
			if meta.meta = c.Head.Meta; meta.meta == nil {
				meta.meta = []byte("null")
			}
		}
		lines = append(lines, meta)
	}
	notes := notesOf(ctx)
	for i, m := range c.Add {
		n := line{kind: KindMessage, message: m}
		if i < len(notes) {
			n.kind, n.tool, n.ms, n.ts = notes[i].Kind, notes[i].Tool, notes[i].MS, notes[i].TS.UTC()
		}
		lines = append(lines, n)
	}
	for i := range lines {
		if lines[i].ts.IsZero() {
			lines[i].ts = c.Head.Updated
		}
		lines[i].more = len(lines) - 1 - i
	}
	last := &lines[len(lines)-1]
	if last.ts != c.Head.Updated {
		last.updated = c.Head.Updated
	}
	last.commit, last.expires = c.Head.Rev, c.Head.Expires
	base := h.head.Base
	if c.IfRev == "" || dropped > 0 {
		base = c.Head.Rev
	}
	if c.Head.Base != base {
		last.base = c.Head.Base
	}
	appends := c.IfRev != "" && dropped == 0 && len(c.Add) > 0 && !c.SetMeta
	if !appends || h.head.Record == nil || h.unknown || h.commits >= recordCommits || h.added >= recordBytes {
		last.record = c.Head.Record
	}
	l.lines = lines
	return lines, c.IfRev == ""
}

// nameID writes the ID down where the directory's name doesn't tell it.
func (l *log) nameID() error {
	return writeFileAtomic(l.d.root, path.Join(l.dir, idName), []byte(l.id), l.d.syncs())
}

// wrote takes the lines that were written into the history.
func (l *log) wrote(c *session.Commit, lines []line, starts []int64, b []byte) {
	h, at := &l.history, l.seen
	count := c.Keep
	if c.Keep < h.head.Count {
		h.cut(c.Keep)
	}
	for i := range lines {
		if lines[i].kind.hasMessage() {
			h.place(count, at+starts[i], false)
			count++
		}
	}
	last := starts[len(starts)-1]
	h.setAnchor(b[last:len(b)-1], at+last)
	if h.created.IsZero() {
		h.created = c.Head.Updated
	}
	h.size, h.lines = at+int64(len(b)), h.lines+len(lines)
	l.seen = h.size
	h.head.Rev, h.head.Base, h.head.Count = c.Head.Rev, c.Head.Base, count
	h.head.Updated, h.head.Expires = c.Head.Updated, c.Head.Expires
	if c.SetMeta {
		h.head.Meta = slices.Clone(c.Head.Meta)
	}
	if lines[len(lines)-1].record != nil {
		h.commits, h.added = 0, 0
	} else {
		h.commits, h.added = h.commits+1, h.added+int64(len(b))
	}
	clear(lines) // they hold the caller's slices
}

// writeBytes writes what is appended, at once. What it can't write whole, or
// can't sync, it takes back; where that fails too, it stands there as an
// unfinished batch, which does not count.
func (l *log) writeBytes(b []byte, first bool) error {
	n, err := l.d.hooks.write(l.file, b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err == nil && l.d.syncs() {
		if err = l.d.hooks.sync(l.file); err == nil && first {
			err = l.d.syncDirs(l.dir)
		}
	}
	if err == nil {
		return nil
	}
	if st, statErr := stat(l.file); statErr == nil && st.size == l.seen+int64(n) && l.d.hooks.truncate(l.file, l.seen) == nil {
		return fmt.Errorf("filestore: %w", err)
	}
	l.known = false
	return fmt.Errorf("filestore: %w", err)
}

// syncDirs makes a directory, and those it is in, survive power loss.
func (d *files) syncDirs(dir string) error {
	for {
		if err := syncDir(d.root, dir); err != nil || dir == "." {
			return err
		}
		dir = path.Dir(dir)
	}
}
