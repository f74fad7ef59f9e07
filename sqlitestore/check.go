package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-go/session"
)

// Check reads the whole database and returns what is wrong with it: SQLite's
// integrity check, what this package relies on (positions without gaps, a head
// in the last row of each session and in no other, no message without a
// session), and whether each message can be decoded. It returns at most about
// a hundred findings of a kind. An error means that it could not look.
func (s *Store) Check(ctx context.Context) ([]session.Damage, error) {
	var found []session.Damage
	err := s.call("check", func() (err error) {
		found, err = s.driver.check(ctx)
		return err
	})
	return found, err
}

// maxFindings bounds what one check reports.
const maxFindings = 100

// invariants are queries for what must not be: a session's ID, a position, and
// what is wrong.
var invariants = []string{
	`SELECT '', m.key & 0xffffff, 'message of session number ' || (m.key >> 24) || ', which does not exist' FROM messages AS m
		WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.number = m.key >> 24)`,
	`SELECT s.id, coalesce(m.key & 0xffffff, 0), 'the session has lost its head' FROM ` + headTables + `
		WHERE m.rev IS NULL OR m.rev NOT GLOB '*[^-]*' OR m.updated IS NULL OR m.record IS NULL`,
	`SELECT s.id, m.key & 0xffffff, 'a row without a message' FROM sessions AS s
		JOIN messages AS m ON m.key > s.number << 24 AND m.key < (s.number + 1) << 24 WHERE m.body IS NULL`,
	`SELECT s.id, 0, 'a message at position 0' FROM sessions AS s JOIN messages AS m ON m.key = s.number << 24 WHERE m.body IS NOT NULL`,
	`SELECT s.id, m.key & 0xffffff, 'the message before it is missing' FROM sessions AS s
		JOIN messages AS m ON m.key > (s.number << 24) + 1 AND m.key < (s.number + 1) << 24
		WHERE NOT EXISTS (SELECT 1 FROM messages AS b WHERE b.key = m.key - 1)`,
	`SELECT s.id, m.key & 0xffffff, 'a head that is not the last' FROM sessions AS s
		JOIN messages AS m ON m.key >= s.number << 24 AND m.key < (s.number + 1) << 24
		WHERE m.rev GLOB '*[^-]*' AND EXISTS (SELECT 1 FROM messages AS n WHERE n.key > m.key AND n.key < (s.number + 1) << 24)`,
	fmt.Sprintf(`SELECT s.id, 0, 'the session is listed at a wrong time' FROM %s
		WHERE s.listed IS NOT NULL AND (s.listed > m.updated OR s.listed + %d <= m.updated)
			OR (s.listed IS NULL) <> (hex(s.id) GLOB '00*')`, headTables, listedFor),
	`SELECT s.id, 0, 'the session is due at a wrong time' FROM ` + headTables + ` WHERE (s.due IS NULL) <> (m.expires IS NULL) OR s.due > m.expires`,
}

func (d *database) check(ctx context.Context) ([]session.Damage, error) {
	defer d.rlock()()
	tx, err := d.readers.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, wrapError(ctx, err)
	}
	defer tx.Rollback()
	var found []session.Damage
	report := func(id string, position int, where string, err error) {
		if id != "" {
			where = fmt.Sprintf("session %q", id)
		}
		found = append(found, session.Damage{Position: position, Where: where, Err: err})
	}
	err = eachRow(ctx, tx, "PRAGMA integrity_check", func(rows *sql.Rows) error {
		var what string
		err := rows.Scan(&what)
		if err == nil && what != "ok" {
			report("", 0, "the file", fmt.Errorf("%w: %s", session.ErrCorrupt, what))
		}
		return err
	})
	if err != nil {
		return found, err
	}
	for _, query := range invariants {
		err := eachRow(ctx, tx, fmt.Sprint(query, " LIMIT ", maxFindings), func(rows *sql.Rows) error {
			var id, what string
			var position int
			err := rows.Scan(&id, &position, &what)
			if err == nil {
				report(id, position, "messages", fmt.Errorf("%w: %s", session.ErrCorrupt, what))
			}
			return err
		})
		if err != nil {
			return found, err
		}
	}
	bad := 0
	err = eachRow(ctx, tx, `SELECT s.id, m.key, CAST(m.body AS BLOB) FROM messages AS m JOIN sessions AS s ON s.number = m.key >> 24
		WHERE m.body IS NOT NULL ORDER BY m.key`, func(rows *sql.Rows) error {
		var id string
		var key int64
		var body sql.RawBytes
		if err := rows.Scan(&id, &key, &body); err != nil || bad >= maxFindings {
			return err
		}
		if _, err := session.DecodeMessage(body); err != nil {
			bad++
			report(id, positionOf(key), "", err)
		}
		return nil
	})
	return found, err
}

func eachRow(ctx context.Context, tx *sql.Tx, query string, f func(*sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return wrapError(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return wrapError(ctx, err)
		}
	}
	return wrapError(ctx, rows.Err())
}
