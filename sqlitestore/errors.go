package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-go/session"
)

// resultCode returns SQLite's primary result code of an error, 0 if it has none.
func resultCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

func isBusy(err error) bool {
	code := resultCode(err)
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

// wrapError adds the sentinel that an error of SQLite stands for, and the
// context's error if that is what ended the call.
func wrapError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if c := ctx.Err(); c != nil && (resultCode(err) == sqlite3.SQLITE_INTERRUPT || isBusy(err)) {
		return fmt.Errorf("sqlitestore: %w: %w", c, err)
	}
	switch resultCode(err) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", session.ErrCorrupt, err)
	case sqlite3.SQLITE_TOOBIG:
		return fmt.Errorf("%w: %w", session.ErrTooLarge, err)
	case 0:
		return err
	}
	return fmt.Errorf("sqlitestore: %w", err)
}
