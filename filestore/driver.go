package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// files is the driver.
type files struct {
	cache
	root  *os.Root
	opts  Options
	hooks hooks
	only  string // the directory of the one session, if it can be told from no ID; empty: each has its own
}

// hooks are the system calls that tests let fail.
type hooks struct {
	write    func(f *os.File, b []byte) (int, error)
	sync     func(f *os.File) error
	truncate func(f *os.File, size int64) error
}

func defaultHooks() hooks {
	return hooks{write: (*os.File).Write, sync: syncData, truncate: (*os.File).Truncate}
}

var _ session.Driver = (*files)(nil)

func openFiles(dir string, o Options) (*files, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	return &files{
		cache: cache{logs: make(map[string]*log), maxOpen: o.MaxOpenFiles},
		root:  root, opts: o,
		hooks: defaultHooks(),
	}, nil
}

func (d *files) syncs() bool { return d.opts.Durability == DurabilityFull }

// hidden reports whether an ID is of the contract's own.
func hidden(id string) bool { return strings.HasPrefix(id, "\x00") }

// with calls use with the log of a session, in its turn.
func (d *files) with(ctx context.Context, id string, use func(l *log) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l, err := d.acquire(id, func() (*log, error) { return d.newLog(id) })
	if err != nil {
		return err
	}
	defer d.release(l)
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.give()
	return wrapError(use(l))
}

// wrapError tells where an error comes from.
func wrapError(err error) error {
	if err == nil {
		return nil
	}
	var e *os.PathError
	var le *os.LinkError
	if errors.As(err, &e) || errors.As(err, &le) {
		return fmt.Errorf("filestore: %w", err)
	}
	return err
}

// Head implements session.Driver.
func (d *files) Head(ctx context.Context, id string) (h session.Head, err error) {
	if hidden(id) {
		return d.hiddenHead(ctx, id)
	}
	err = d.with(ctx, id, func(l *log) error {
		if err := l.refresh(ctx); err != nil {
			return err
		}
		h, err = l.head(ctx)
		return err
	})
	return h, err
}

// head returns the head for others to keep.
func (l *log) head(ctx context.Context) (session.Head, error) {
	h := l.history.head
	if h.Rev == "" {
		return session.Head{}, nil
	}
	h.ID = l.id
	h.Meta = bytes.Clone(h.Meta)
	if h.Record == nil {
		return h, l.adopt(ctx, &h)
	}
	h.Record = bytes.Clone(h.Record)
	h.Appends = slices.Clone(h.Appends)
	for i, a := range h.Appends {
		add := slices.Clone(a.Add)
		for j := range add {
			add[j] = bytes.Clone(add[j])
		}
		h.Appends[i].Add = add
	}
	return h, nil
}

// Commit implements session.Driver.
func (d *files) Commit(ctx context.Context, id string, c session.Commit) error {
	total := 0
	for _, m := range c.Add {
		if total += len(m); bytes.IndexByte(m, '\n') >= 0 {
			return fmt.Errorf("%w: a message of more than one line", session.ErrInvalidMessage)
		}
	}
	if total > d.opts.MaxBatchBytes {
		return fmt.Errorf("%w: %d bytes in one write", session.ErrTooLarge, total)
	}
	if hidden(id) {
		return d.hiddenCommit(ctx, id, &c)
	}
	return d.with(ctx, id, func(l *log) error { return l.commit(ctx, &c) })
}

// Range implements session.Driver.
func (d *files) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	if hidden(id) {
		return d.hiddenRange(ctx, id, h, from, to)
	}
	for {
		var r reader
		err := d.with(ctx, id, func(l *log) error {
			if err := l.refresh(ctx); err != nil {
				return err
			}
			if l.history.head.Base != h.Base || to > l.history.head.Count || l.history.head.Rev == "" {
				return session.ErrConflict
			}
			return l.reader(ctx, from, to, &r)
		})
		if err != nil {
			return nil, err
		}
		lines, err := r.read(ctx)
		if errors.Is(err, os.ErrClosed) {
			continue // others needed the handle
		}
		return lines, wrapError(err)
	}
}

// Close implements session.Driver.
func (d *files) Close() error {
	for _, l := range d.logs {
		l.leave()
	}
	d.cache.close()
	return d.root.Close()
}

const (
	// leaveBytes is how much behind a checkpoint is worth another one at Close.
	leaveBytes = 64 << 10
	// leaveTimeout bounds the wait for others' writes then.
	leaveTimeout = 100 * time.Millisecond
)

// leave makes a checkpoint of what this process has written, so that opening
// the session is quick. If it can't, opening takes longer.
func (l *log) leave() {
	if l.kept == 0 || !l.known || l.history.size-l.checkpointed < leaveBytes || l.open(false) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if l.ready(ctx) == nil {
		l.checkpointSoon()
		l.unlock()
	}
}
