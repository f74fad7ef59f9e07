package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// conn is one connection, below database/sql: a statement costs half as much
// there, which is a quarter of an append. It is for one goroutine at a time.
//
// Its calls are given contexts without a Done channel where they are many and
// short: for one with, the driver starts a goroutine a statement.
type conn struct {
	raw   driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue
}

// connector opens connections and sets their pragmas: on each one, also on one
// that replaces another, and after those of the caller's DSN.
type connector struct {
	driver.Connector
	pragmas string
}

func newConnector(dsn string, pragmas ...string) (driver.Connector, error) {
	c, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return connector{c, "PRAGMA " + strings.Join(pragmas, "; PRAGMA ")}, nil
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	raw, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := raw.(driver.ExecerContext).ExecContext(ctx, c.pragmas, nil); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return raw, nil
}

func connect(ctx context.Context, connector driver.Connector) (*conn, error) {
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: make(map[string]driver.Stmt)}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// exec runs a script that is not worth preparing.
func (c *conn) exec(ctx context.Context, script string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(ctx, script, nil)
	return err
}

// prepared returns the prepared form of a statement, for the connection's life.
func (c *conn) prepared(query string) (driver.Stmt, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	s, err := c.raw.Prepare(query)
	if err == nil {
		c.stmts[query] = s
	}
	return s, err
}

func (c *conn) named(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, v := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return c.args
}

// run runs a prepared statement.
func (c *conn) run(query string, args ...driver.Value) (driver.Result, error) {
	s, err := c.prepared(query)
	if err != nil {
		return nil, err
	}
	defer func() { clear(c.args) }() // keep no message alive
	return s.(driver.StmtExecContext).ExecContext(context.Background(), c.named(args))
}

// changed runs a prepared statement and returns how many rows it changed.
func (c *conn) changed(query string, args ...driver.Value) (int64, error) {
	r, err := c.run(query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// queryRow calls scan with the first row of a prepared query, if there is one.
func (c *conn) queryRow(ctx context.Context, query string, scan func([]driver.Value) error, args ...driver.Value) error {
	done := false
	return c.query(ctx, query, func(v []driver.Value) error {
		if done {
			return nil
		}
		done = true
		return scan(v)
	}, args...)
}

// query calls scan with each row of a prepared query.
func (c *conn) query(ctx context.Context, query string, scan func([]driver.Value) error, args ...driver.Value) (err error) {
	s, err := c.prepared(query)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, c.named(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	dest := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(dest); {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := scan(dest); err != nil {
			return err
		}
	}
}

// lockPoll is how long SQLite itself waits for another process's lock. The
// writer waits longer by asking again, and looks at its context in between.
const lockPoll = 10 * time.Millisecond

// waiting calls f until it doesn't fail because of a lock. SQLite does not wait
// for every lock itself, so there is a little pause between calls.
func waiting(ctx context.Context, limit time.Duration, f func() error) error {
	for start := time.Now(); ; {
		err := f()
		if err == nil || !isBusy(err) || time.Since(start) >= limit {
			return err
		}
		select {
		case <-time.After(rand.N(2 * time.Millisecond)):
		case <-ctx.Done():
			return err
		}
	}
}
