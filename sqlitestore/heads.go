package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/listing"
)

// Heads reads pages, so that no connection is held while it yields.
//
// All sessions. The index on listed gives their order but for listedFor: a
// session may have been updated that long after the time it is listed by. What
// has been read waits in a heap until what is still to come can't be newer.
//
// A folder. The index on id gives its sessions, whose times are read and
// sorted: that costs the folder, however many other sessions there are.
const (
	pageHeads = 256

	headsByListed = `SELECT ` + headColumns + `, s.listed FROM ` + headTables + `
		WHERE s.listed IS NOT NULL AND (s.listed, s.number) < (?1, ?2) AND s.listed > ?3
		ORDER BY s.listed DESC, s.number DESC LIMIT ?4`

	headsInFolder = `SELECT s.number, s.id, m.updated FROM ` + headTables + `
		WHERE s.id >= ?1 AND s.id < ?2 AND s.listed IS NOT NULL`
)

// Heads implements session.Driver.
func (d *database) Heads(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		heads := d.allHeads
		if q.Prefix != "" {
			heads = d.folderHeads
		}
		if err := heads(ctx, q, func(h session.Head) bool { return yield(h, nil) }); err != nil {
			yield(session.Head{}, wrapError(ctx, err))
		}
	}
}

func (d *database) allHeads(ctx context.Context, q session.HeadQuery, yield func(session.Head) bool) error {
	cur := cursor{listed: math.MaxInt64, number: math.MaxInt64}
	if !q.AfterUpdated.IsZero() {
		cur.listed = nanosOf(q.AfterUpdated) // listed is never after updated
	}
	oldest := int64(math.MinInt64)
	if !q.Since.IsZero() {
		oldest = nanosOf(q.Since) - listedFor
	}
	return listing.InOrder(q, pageHeads, func(n int) (page []session.Head, newest time.Time, err error) {
		page, err = d.listedPage(ctx, &cur, oldest, n)
		if len(page) == n {
			newest = timeOf(cur.listed + listedFor - 1)
		}
		return page, newest, err
	}, yield)
}

// cursor is a position in the index on listed.
type cursor struct{ listed, number int64 }

// listedPage reads heads behind the cursor and moves it.
func (d *database) listedPage(ctx context.Context, cur *cursor, oldest int64, limit int) ([]session.Head, error) {
	defer d.rlock()()
	rows, err := d.byListed.QueryContext(ctx, cur.listed, cur.number, oldest, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var page []session.Head
	for rows.Next() {
		var listed int64
		number, h, err := scanHead(withColumn{rows, &listed})
		if err != nil {
			return nil, err
		}
		*cur = cursor{listed, number}
		page = append(page, h)
	}
	return page, rows.Err()
}

// withColumn scans one more column.
type withColumn struct {
	rows *sql.Rows
	dest any
}

func (w withColumn) Scan(dest ...any) error { return w.rows.Scan(append(dest, w.dest)...) }

func (d *database) folderHeads(ctx context.Context, q session.HeadQuery, yield func(session.Head) bool) error {
	entries, page, err := d.folder(ctx, q)
	for err == nil {
		for _, h := range page {
			if !yield(h) {
				return nil
			}
		}
		if len(entries) == 0 {
			return nil
		}
		entries, page, err = d.folderPage(ctx, d.byNumber, entries, listing.PageSize(q, pageHeads))
	}
	return err
}

// entry is what a folder's list is sorted by.
type entry struct {
	number int64
	id     string
	nanos  int64
}

// folder returns the sorted entries of a folder and, read in the same
// transaction, the heads of the first of them, which are no longer among the
// entries.
func (d *database) folder(ctx context.Context, q session.HeadQuery) ([]entry, []session.Head, error) {
	defer d.rlock()()
	tx, err := d.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	defer tx.Rollback()
	rows, err := tx.StmtContext(ctx, d.inFolder).QueryContext(ctx, q.Prefix, behindPrefix(q.Prefix))
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var entries []entry
	for rows.Next() {
		var e entry
		var nanos sql.NullInt64
		if err := rows.Scan(&e.number, &e.id, &nanos); err != nil {
			return nil, nil, err
		}
		e.nanos = nanos.Int64
		if !nanos.Valid || listing.Wanted(q, session.Head{ID: e.id, Updated: timeOf(e.nanos)}) {
			entries = append(entries, e)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.nanos, a.nanos), strings.Compare(a.id, b.id))
	})
	return d.readEntries(ctx, tx.StmtContext(ctx, d.byNumber), entries, listing.PageSize(q, pageHeads))
}

func (d *database) folderPage(ctx context.Context, byNumber *sql.Stmt, entries []entry, limit int) ([]entry, []session.Head, error) {
	defer d.rlock()()
	return d.readEntries(ctx, byNumber, entries, limit)
}

// readEntries reads the heads of the first entries and returns the others. A
// session that was changed since is left out: its place in the list is gone.
func (d *database) readEntries(ctx context.Context, byNumber *sql.Stmt, entries []entry, limit int) ([]entry, []session.Head, error) {
	n := min(limit, len(entries))
	page := make([]session.Head, 0, n)
	for _, e := range entries[:n] {
		_, h, err := scanHead(byNumber.QueryRowContext(ctx, e.number))
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return nil, nil, err
		case h.ID == e.id && h.Updated.UnixNano() == e.nanos:
			page = append(page, h)
		}
	}
	return entries[n:], page, nil
}

// behindPrefix returns the first string behind all that begin with prefix, in
// byte order. It need not be valid UTF-8; SQLite compares bytes.
func behindPrefix(prefix string) string {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) > 0 {
		b[len(b)-1]++
	}
	return string(b)
}

// nanosOf is UnixNano, but the nearest it can be for times out of its range.
func nanosOf(t time.Time) int64 {
	switch {
	case t.Before(time.Unix(0, math.MinInt64/2)):
		return math.MinInt64 / 2
	case t.After(time.Unix(0, math.MaxInt64/2)):
		return math.MaxInt64 / 2
	}
	return t.UnixNano()
}
