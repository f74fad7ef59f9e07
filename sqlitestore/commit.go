package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

const (
	// maxValueBytes is less than SQLITE_MAX_LENGTH, which is 1,000,000,000
	// and bounds a row.
	maxValueBytes = 999_000_000

	maxKnown = 1 << 14 // places that the writer remembers

	// rowsAtOnce and bytesAtOnce bound an INSERT of several rows.
	rowsAtOnce  = 32
	bytesAtOnce = 1 << 20
)

// place is where a session is and what an append has to know of it. The writer
// remembers the place of each session it has written. A place that another
// process has moved is noticed by the revision, which is in the last row.
type place struct {
	number int64 // 0: there is no such session
	count  int
	rev    string
	base   string
	listed *int64 // nil: hidden
	due    *int64
	big    bool // whether the last row is larger than bigBody
}

const (
	placeOf = `SELECT s.number, s.base, s.listed, s.due, m.key, m.rev, octet_length(m.body) > ?2
		FROM sessions AS s LEFT JOIN messages AS m ON m.key =
			(SELECT max(key) FROM messages WHERE key >= s.number << 24 AND key < (s.number + 1) << 24)
		WHERE s.id = ?1`
	clearHead  = `UPDATE messages SET rev = NULL, updated = NULL, expires = NULL, record = NULL WHERE key = ? AND rev = ?`
	voidHead   = `UPDATE messages SET rev = printf('%.*c', octet_length(rev), '-') WHERE key = ? AND rev = ?`
	setHead    = `UPDATE messages SET rev = ?2, updated = ?3, expires = ?4, record = ?5 WHERE key = ?1`
	changeHead = setHead + ` AND rev = ?6`
	insertHead = `INSERT INTO messages (key, rev, updated, expires, record, body) VALUES (?, ?, ?, ?, ?, ?)`
	insertBody = `INSERT INTO messages (key, body) VALUES (?, ?)`
	dropRows   = `DELETE FROM messages WHERE key >= ? AND key < ?`
	dropping   = `DELETE FROM sessions WHERE number = ?`
	insertion  = `INSERT INTO sessions (id, base, listed, due, meta) VALUES (?, ?, ?, ?, ?)`
	moving     = `UPDATE sessions SET base = ?2, listed = ?3, due = ?4 WHERE number = ?1`
	movingMeta = `UPDATE sessions SET base = ?2, listed = ?3, due = ?4, meta = ?5 WHERE number = ?1`
)

// insertBodies is insertBody for rowsAtOnce rows.
var insertBodies = insertBody + strings.Repeat(", (?, ?)", rowsAtOnce-1)

// Commit implements session.Driver.
func (d *database) Commit(ctx context.Context, id string, c session.Commit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	total := 0
	for _, m := range c.Add {
		if total += len(m); len(m) > maxValueBytes {
			return fmt.Errorf("%w: a message of %d bytes", session.ErrTooLarge, len(m))
		}
	}
	if c.Head != nil && len(c.Head.Meta) > maxValueBytes {
		return fmt.Errorf("%w: Meta of %d bytes", session.ErrTooLarge, len(c.Head.Meta))
	}
	if c.Keep+len(c.Add) > maxPosition {
		return fmt.Errorf("%w: %d messages", session.ErrTooLarge, c.Keep+len(c.Add))
	}
	err := d.writer.submit(ctx, total, func(ctx context.Context, w *writer) error { return w.commit(ctx, id, &c) })
	if err == nil && c.Head != nil && !c.Head.Expires.IsZero() {
		d.sweepSometimes()
	}
	return err
}

// commit makes a commit in the transaction that is open.
func (w *writer) commit(ctx context.Context, id string, c *session.Commit) error {
	if p := w.known[id]; p.rev == c.IfRev && p.extends(c) {
		if done, err := w.extend(ctx, id, p, c); done || err != nil {
			return err
		}
	}
	p, err := w.placeOf(id)
	switch {
	case err != nil:
		return err
	case p.rev != c.IfRev:
		return session.ErrConflict
	case !p.extends(c):
		return w.rebuild(ctx, id, p, c)
	}
	_, err = w.extend(ctx, id, p, c) // where placeOf has just seen it
	return err
}

// extends reports whether a commit only adds messages or changes the head.
func (p place) extends(c *session.Commit) bool {
	return p.number != 0 && c.Head != nil && c.Keep == p.count
}

func (w *writer) placeOf(id string) (p place, err error) {
	err = w.conn.queryRow(context.Background(), placeOf, func(v []driver.Value) error {
		p = place{number: v[0].(int64), listed: integer(v[2]), due: integer(v[3])}
		base, isText := v[1].(string)
		p.base = base
		key, ok := v[4].(int64)
		rev, _ := v[5].(string)
		if !ok || !isText || void(rev) {
			return fmt.Errorf("%w: session %q has lost its head", session.ErrCorrupt, id)
		}
		big, _ := v[6].(int64)
		p.count, p.rev, p.big = positionOf(key), rev, big != 0
		return nil
	}, id, int64(bigBody))
	return p, err
}

// extend makes a commit that keeps all messages. It reports false, and has
// changed nothing, if the session is not where p says.
func (w *writer) extend(ctx context.Context, id string, p place, c *session.Commit) (bool, error) {
	h, last := c.Head, keyOf(p.number, p.count)
	var n int64
	var err error
	switch {
	case len(c.Add) == 0:
		n, err = w.conn.changed(changeHead, last, h.Rev, h.Updated.UnixNano(), value(expiresOf(h)), h.Record, c.IfRev)
	case p.big:
		n, err = w.conn.changed(voidHead, last, c.IfRev)
	default:
		n, err = w.conn.changed(clearHead, last, c.IfRev)
	}
	if err != nil || n == 0 {
		return false, err
	}
	if err := w.add(ctx, p, c); err != nil {
		return false, err
	}
	return true, w.move(id, p, c)
}

// rebuild makes any commit on a session that is at p, of which it must be
// certain.
func (w *writer) rebuild(ctx context.Context, id string, p place, c *session.Commit) (err error) {
	if c.Keep > p.count || c.Keep < 0 {
		return fmt.Errorf("sqlitestore: to keep %d messages of %d", c.Keep, p.count)
	}
	if c.Head == nil {
		delete(w.known, id)
		if p.number == 0 {
			return nil
		}
		_, err := w.conn.run(dropping, p.number) // the trigger removes the messages
		return err
	}
	h := c.Head
	if p.number == 0 {
		p.listed, p.due = nil, expiresOf(h)
		if !hidden(id) {
			p.listed = new(h.Updated.UnixNano())
		}
		p.base = h.Base
		r, err := w.conn.run(insertion, id, h.Base, value(p.listed), value(p.due), text(h.Meta))
		if err != nil {
			return err
		}
		if p.number, err = r.LastInsertId(); err != nil {
			return err
		}
	} else {
		from := keyOf(p.number, c.Keep+1)
		if c.Keep == 0 {
			from = firstKey(p.number)
		}
		if _, err := w.conn.run(dropRows, from, firstKey(p.number+1)); err != nil {
			return err
		}
	}
	switch {
	case len(c.Add) > 0:
		err = w.add(ctx, p, c)
	case c.Keep == 0:
		_, err = w.conn.run(insertHead, firstKey(p.number), h.Rev, h.Updated.UnixNano(), value(expiresOf(h)), h.Record, nil)
	default:
		var n int64
		n, err = w.conn.changed(setHead, keyOf(p.number, c.Keep), h.Rev, h.Updated.UnixNano(), value(expiresOf(h)), h.Record)
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: session %q has no message %d", session.ErrCorrupt, id, c.Keep)
		}
	}
	if err != nil {
		return err
	}
	return w.move(id, p, c)
}

// add inserts the messages of a commit, the last one with the head.
func (w *writer) add(ctx context.Context, p place, c *session.Commit) error {
	if len(c.Add) == 0 {
		return nil
	}
	first, bodies := keyOf(p.number, c.Keep+1), c.Add[:len(c.Add)-1]
	for len(bodies) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := 1
		if len(bodies) >= rowsAtOnce && sizeOf(bodies[:rowsAtOnce]) <= bytesAtOnce {
			n = rowsAtOnce
		}
		args := make([]driver.Value, 0, 2*rowsAtOnce)
		for i, b := range bodies[:n] {
			args = append(args, first+int64(i), string(b))
		}
		query := insertBody
		if n > 1 {
			query = insertBodies
		}
		if _, err := w.conn.run(query, args...); err != nil {
			return err
		}
		first, bodies = first+int64(n), bodies[n:]
	}
	h := c.Head
	_, err := w.conn.run(insertHead, first, h.Rev, h.Updated.UnixNano(), value(expiresOf(h)), h.Record, string(c.Add[len(c.Add)-1]))
	return err
}

// move brings the session's own row up to date, if need be, and remembers
// where the session is now.
func (w *writer) move(id string, p place, c *session.Commit) error {
	h := c.Head
	listed, due := p.listed, expiresOf(h)
	if listed != nil && listedNeeds(*listed, h.Updated.UnixNano()) {
		listed = new(h.Updated.UnixNano())
	}
	if !dueNeeds(p.due, due) {
		due = p.due
	}
	var err error
	switch {
	case c.SetMeta && c.IfRev != "":
		_, err = w.conn.run(movingMeta, p.number, h.Base, value(listed), value(due), text(h.Meta))
	case p.base != h.Base || listed != p.listed || due != p.due:
		_, err = w.conn.run(moving, p.number, h.Base, value(listed), value(due))
	}
	if err != nil {
		return err
	}
	if len(w.known) >= maxKnown {
		for other := range w.known {
			delete(w.known, other) // whichever: a session in use is soon known again
			break
		}
	}
	big := p.big
	switch {
	case len(c.Add) > 0:
		big = len(c.Add[len(c.Add)-1]) > bigBody
	case c.Keep != p.count:
		delete(w.known, id) // the next one has to look how large the last row is
		return nil
	}
	w.known[id] = place{number: p.number, count: c.Keep + len(c.Add), rev: h.Rev, base: h.Base, listed: listed, due: due, big: big}
	return nil
}

func sizeOf(lines [][]byte) (n int) {
	for _, l := range lines {
		n += len(l)
	}
	return n
}

// The values that the driver takes for what may be NULL.

func integer(v driver.Value) *int64 {
	if n, ok := v.(int64); ok {
		return &n
	}
	return nil
}

func value(n *int64) driver.Value {
	if n == nil {
		return nil
	}
	return *n
}

func text(b []byte) driver.Value {
	if b == nil {
		return nil
	}
	return string(b)
}

func expiresOf(h *session.Head) *int64 {
	if h.Expires.IsZero() {
		return nil
	}
	return new(h.Expires.UnixNano())
}

func timeOf(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }
