package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-go/session"
)

// headColumns and headTables read sessions with the last row of each.
const (
	headColumns = `s.number, s.id, s.base, s.meta, m.key, m.rev, m.updated, m.expires, m.record`
	headTables  = `sessions AS s LEFT JOIN messages AS m ON m.key =
		(SELECT max(key) FROM messages WHERE key >= s.number << 24 AND key < (s.number + 1) << 24)`

	headByID     = `SELECT ` + headColumns + ` FROM ` + headTables + ` WHERE s.id = ?`
	headByNumber = `SELECT ` + headColumns + ` FROM ` + headTables + ` WHERE s.number = ?`

	// historyRange yields one row without a message if there is none in the
	// range, and no row if the session is not at that base. It seeks the first
	// message itself and not what is behind another, whose page may be damaged.
	historyRange = `SELECT m.key, CAST(m.body AS BLOB) FROM sessions AS s
		LEFT JOIN messages AS m ON m.key >= (s.number << 24) + ?3 AND m.key <= (s.number << 24) + ?4
		WHERE s.id = ?1 AND s.base = ?2`
)

func (d *database) prepareReads(ctx context.Context) error {
	for query, stmt := range map[string]**sql.Stmt{
		headByID: &d.head, headByNumber: &d.byNumber, historyRange: &d.history,
		headsByListed: &d.byListed, headsInFolder: &d.inFolder,
	} {
		var err error
		if *stmt, err = d.readers.PrepareContext(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

// Head implements session.Driver.
func (d *database) Head(ctx context.Context, id string) (session.Head, error) {
	defer d.rlock()()
	_, h, err := scanHead(d.head.QueryRowContext(ctx, id))
	if errors.Is(err, sql.ErrNoRows) {
		return session.Head{}, nil
	}
	return h, wrapError(ctx, err)
}

// scanHead reads headColumns.
func scanHead(row interface{ Scan(...any) error }) (number int64, h session.Head, err error) {
	var meta, rev sql.NullString
	var key, updated, expires sql.NullInt64
	if err := row.Scan(&number, &h.ID, &h.Base, &meta, &key, &rev, &updated, &expires, &h.Record); err != nil {
		return 0, session.Head{}, err
	}
	if !key.Valid || void(rev.String) || !updated.Valid {
		return 0, session.Head{}, fmt.Errorf("%w: session %q has lost its head", session.ErrCorrupt, h.ID)
	}
	h.Rev, h.Count, h.Updated = rev.String, positionOf(key.Int64), timeOf(updated.Int64)
	if expires.Valid {
		h.Expires = timeOf(expires.Int64)
	}
	if meta.Valid {
		h.Meta = []byte(meta.String)
	}
	return number, h, nil
}

// Range implements session.Driver.
func (d *database) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	defer d.rlock()()
	lines := make([][]byte, to-from)
	err := d.readRange(ctx, id, h.Base, from, lines)
	if errors.Is(err, session.ErrCorrupt) {
		// A page is damaged. One by one, so that only the messages on it are
		// missing.
		clear(lines)
		for i := range lines {
			err := d.readRange(ctx, id, h.Base, from+i, lines[i:i+1])
			if err != nil && !errors.Is(err, session.ErrCorrupt) {
				return nil, err
			}
		}
		return lines, nil
	}
	if err != nil {
		return nil, err
	}
	return lines, nil
}

// readRange fills lines with the messages from position from+1 on.
func (d *database) readRange(ctx context.Context, id, base string, from int, lines [][]byte) error {
	rows, err := d.history.QueryContext(ctx, id, base, from+1, from+len(lines))
	if err != nil {
		return wrapError(ctx, err)
	}
	defer rows.Close()
	found := false
	var slab arena
	for rows.Next() {
		found = true
		var key sql.NullInt64
		var body sql.RawBytes
		if err := rows.Scan(&key, &body); err != nil {
			return wrapError(ctx, err)
		}
		if i := positionOf(key.Int64) - from - 1; key.Valid && body != nil && i >= 0 && i < len(lines) {
			lines[i] = slab.copy(body)
		}
	}
	if err := rows.Err(); err != nil {
		return wrapError(ctx, err)
	}
	if !found {
		return session.ErrConflict
	}
	return nil
}

// arena copies byte strings into a few large blocks.
type arena struct{ block []byte }

const arenaBytes = 64 << 10

func (a *arena) copy(b []byte) []byte {
	if len(b) > arenaBytes/4 {
		return append(make([]byte, 0, len(b)), b...)
	}
	if cap(a.block)-len(a.block) < len(b) {
		a.block = make([]byte, 0, arenaBytes)
	}
	start := len(a.block)
	a.block = append(a.block, b...)
	return a.block[start:len(a.block):len(a.block)]
}
