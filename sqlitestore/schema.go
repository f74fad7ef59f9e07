package sqlitestore

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// The file is a SQLite database in WAL mode with application_id 0x68667374
// ("hfst") and the format's version in user_version. It holds two tables:
//
//	sessions  one row a session: its number, ID, base and Meta
//	messages  one row a message: its JSON text, and in the last row the head
//
// The key of a message is number<<24 | position, positions from 1, so that a
// history is one range of a plain rowid table and needs no index.
//
// The head. The columns rev, updated, expires and record are those of the
// session's Head, and stand in the session's last row; in the rows before it
// they are NULL. Head.Count is the position of that row. A session without
// messages has a row at position 0, without a body, for its head. That row may
// stay when messages follow. An append so writes to the place where the head
// already is: it clears the head of the row that was last and inserts a row,
// and both are on one page, or on two where the page is full. It writes 1.17
// times the bytes of an INSERT of the message alone (messages of 200 to 2,300
// bytes); with the head in the session's own row, on another page, it were 1.6.
//
// A row of more than bigBody bytes is not rewritten to clear its head. Only rev
// is overwritten, by as many hyphens, so that SQLite writes one page and not
// the whole overflow chain. So of all rows of a session only the last one's
// head counts.
//
// Lists. sessions.listed is when the session was updated, give or take: at
// most listedFor before updated, never after it. An append that is within that
// time leaves the sessions table alone. A list takes the sessions by listed and
// puts right the order within listedFor; see heads.go. listed is NULL for
// hidden sessions.
//
// Expiry. sessions.due is a time not after which the session expires, unless
// it was written since; NULL: it does not expire. The sweep looks at the head
// of a session that is due, and removes the session or moves due.
//
// Times are Unix nanoseconds. The view history is for people; nothing else
// here reads it.
var migrations = []string{ // from version i to i+1
	`CREATE TABLE sessions (
		number INTEGER PRIMARY KEY CHECK (number BETWEEN 1 AND 0x7ffffffffe),
		id     TEXT NOT NULL UNIQUE,
		base   TEXT NOT NULL,
		listed INTEGER,
		due    INTEGER,
		meta   TEXT
	) STRICT;
	CREATE INDEX sessions_listed ON sessions (listed) WHERE listed IS NOT NULL;
	CREATE INDEX sessions_due ON sessions (due) WHERE due IS NOT NULL;
	CREATE TABLE messages (
		key     INTEGER PRIMARY KEY,
		rev     TEXT,
		updated INTEGER,
		expires INTEGER,
		record  BLOB,
		body    TEXT
	) STRICT;
	CREATE TRIGGER sessions_delete AFTER DELETE ON sessions BEGIN
		DELETE FROM messages WHERE key >= OLD.number << 24 AND key < (OLD.number + 1) << 24;
	END;
	CREATE VIEW history AS
		SELECT s.id AS session, m.key & 0xffffff AS position,
			json_extract(m.body, '$.role') AS role,
			(SELECT group_concat(json_extract(b.value, '$.text'), char(10)) FROM json_each(m.body, '$.content') AS b
				WHERE json_extract(b.value, '$.type') = 'text') AS text,
			m.body AS message
		FROM sessions AS s JOIN messages AS m ON m.key > s.number << 24 AND m.key < (s.number + 1) << 24;`,
}

const (
	applicationID = 0x68667374 // "hfst"

	positionBits = 24
	maxPosition  = 1<<positionBits - 1

	// bigBody is the size from which a row's body is not rewritten to clear
	// its head: about what fits on a page.
	bigBody = 4000

	// listedFor is how long sessions.listed may stay behind updated.
	listedFor = int64(10 * time.Second)
)

func firstKey(number int64) int64        { return number << positionBits }
func keyOf(number int64, pos int) int64  { return number<<positionBits | int64(pos) }
func positionOf(key int64) int           { return int(key & maxPosition) }
func void(rev string) bool               { return strings.Trim(rev, "-") == "" }
func hidden(id string) bool              { return id != "" && id[0] == 0 }
func listedNeeds(listed, now int64) bool { return now < listed || now >= listed+listedFor }
func dueNeeds(due, expires *int64) bool {
	return (due == nil) != (expires == nil) || due != nil && *expires < *due
}
func identityError(what string) error { return fmt.Errorf("sqlitestore: %s", what) }
func newerFormat(version, our int64) error {
	return fmt.Errorf("%w: schema version %d, this one knows %d", session.ErrNewerFormat, version, our)
}

// identify reports the schema version of a database, 0 if it is empty. It is
// an error if the database is somebody else's or of a newer version.
func identify(ctx context.Context, c *conn) (version int64, err error) {
	var app, objects int64
	err = c.queryRow(ctx, `SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`, func(v []driver.Value) error {
		app, version, objects = v[0].(int64), v[1].(int64), v[2].(int64)
		return nil
	})
	switch {
	case err != nil:
		return 0, err
	case app == 0 && version == 0 && objects == 0:
		return 0, nil
	case app != applicationID:
		return 0, identityError("the database belongs to another application")
	case version > int64(len(migrations)):
		return 0, newerFormat(version, int64(len(migrations)))
	case version < 1:
		return 0, fmt.Errorf("%w: schema version %d", session.ErrCorrupt, version)
	}
	return version, nil
}

// migrate brings an empty or older database to the current version, in one
// transaction.
func migrate(ctx context.Context, c *conn) (err error) {
	if err := c.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			c.exec(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	version, err := identify(ctx, c) // another process may have been first
	if err != nil {
		return err
	}
	for _, m := range migrations[version:] {
		if err := c.exec(ctx, m); err != nil {
			return err
		}
	}
	if err := c.exec(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, len(migrations))); err != nil {
		return err
	}
	return c.exec(ctx, "COMMIT")
}
