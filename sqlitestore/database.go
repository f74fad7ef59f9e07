package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/session"
)

// database is the session.Driver: one connection that writes, and a pool of
// connections that read.
type database struct {
	opts    Options
	writer  *writer
	readers *sql.DB
	memory  *sync.RWMutex // of a database in memory, which has no WAL: readers and the writer exclude each other
	sweeps  sweeps

	head, history, byListed, inFolder, byNumber *sql.Stmt
}

var _ session.Driver = (*database)(nil)

// pragmas returns what every connection has.
func (o Options) pragmas(busy time.Duration) []string {
	return append([]string{fmt.Sprintf("busy_timeout = %d", busy.Milliseconds()), "foreign_keys = 1"}, o.Durability.pragmas()...)
}

// The writer keeps the pages that many sessions' next messages go to, and
// checkpoints less often than SQLite's 1,000 pages: a page that was changed
// twice in between is copied once. It costs 16 MiB of memory and as much of the
// WAL file. A larger commit, or reads that overlap without a pause, stretch the
// file further; it is cut to the limit when it can be begun anew.
var writerPragmas = []string{
	"query_only = 0", "cache_size = -16384", "wal_autocheckpoint = 4000", "journal_size_limit = 67108864",
}

func openDatabase(ctx context.Context, file string, o Options) (_ *database, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := parseTarget(file)
	if err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	d := &database{opts: o}
	if t.memory {
		d.memory = new(sync.RWMutex)
	}
	defer func() {
		if err != nil {
			d.Close()
			err = wrapError(ctx, err)
		}
	}()

	writing, err := newConnector(t.dsn(), append(o.pragmas(lockPoll), writerPragmas...)...)
	if err != nil {
		return nil, err
	}
	var c *conn
	// Another process that closes the file just now keeps new connections out.
	if err := waiting(ctx, o.BusyTimeout, func() (err error) { c, err = connect(ctx, writing); return err }); err != nil {
		return nil, err
	}
	d.writer = newWriter(d, c)
	if err := waiting(ctx, o.BusyTimeout, func() error { return prepareFile(ctx, c, t.memory) }); err != nil {
		return nil, err
	}

	reading, err := newConnector(t.dsn(), append(o.pragmas(o.BusyTimeout), "query_only = 1")...)
	if err != nil {
		return nil, err
	}
	d.readers = sql.OpenDB(reading)
	d.readers.SetMaxOpenConns(o.Readers)
	d.readers.SetMaxIdleConns(o.Readers)
	return d, d.prepareReads(ctx)
}

// prepareFile makes sure that the database is ours and current. Nothing is
// written to one that isn't.
func prepareFile(ctx context.Context, c *conn, memory bool) error {
	version, err := identify(ctx, c)
	if err != nil {
		return err
	}
	if r, ok := c.raw.(interface{ IsReadOnly(string) (bool, error) }); ok {
		if readOnly, err := r.IsReadOnly("main"); err != nil || readOnly {
			return errors.Join(fmt.Errorf("%w: the database is read-only", session.ErrInvalidOption), err)
		}
	}
	if !memory {
		var mode string
		err := c.queryRow(ctx, "PRAGMA journal_mode = WAL", func(v []driver.Value) error { mode, _ = v[0].(string); return nil })
		if err == nil && mode != "wal" {
			err = fmt.Errorf("sqlitestore: the file does not support WAL mode (journal mode %q)", mode)
		}
		if err != nil {
			return err
		}
	}
	if version < int64(len(migrations)) {
		return migrate(ctx, c)
	}
	return nil
}

// rlock keeps the writer of a database in memory out. It returns what lets it
// in again.
func (d *database) rlock() func() {
	if d.memory == nil {
		return func() {}
	}
	d.memory.RLock()
	return d.memory.RUnlock
}

// Close implements session.Driver.
func (d *database) Close() error {
	d.sweeps.wait()
	var errs []error
	for _, s := range []*sql.Stmt{d.head, d.history, d.byListed, d.inFolder, d.byNumber} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if d.readers != nil {
		errs = append(errs, d.readers.Close())
	}
	if d.writer != nil {
		errs = append(errs, d.writer.close()) // last, so that it takes the WAL file away
	}
	return errors.Join(errs...)
}
