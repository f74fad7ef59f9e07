package filestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/holdfast-go/session"
)

// log is a session's history file as this process knows it. Whoever has taken
// turn may use the rest.
type log struct {
	d    *files
	id   string
	dir  string // below the base, with slashes
	name string // of the history
	turn chan struct{}

	file    *os.File // nil: not open
	denied  error    // why it can't be written, if it can be read
	fresh   bool     // opened since history was last compared with it
	checked time.Time
	adopted []byte // a Record for a history that has none

	known   bool // whether history is of the file
	history history
	seen    int64 // how large the file was when history was last brought forward

	kept         int   // commits by this process since the last checkpoint
	checkpointed int64 // the size of the history at the last checkpoint that is known

	batch  []byte // buffers of write
	lines  []line
	starts []int64

	cached cached // guarded by the cache
}

var (
	errNotRegular = fmt.Errorf("%w: %s is no regular file", session.ErrCorrupt, historyName)
	errLost       = fmt.Errorf("%w: the history is gone; %s tells of messages", session.ErrCorrupt, metaName)
)

// checkEvery is how often it is looked whether a history's path still names it,
// which a directory that is renamed by hand does not show otherwise.
const checkEvery = time.Second

func (d *files) newLog(id string) (*log, error) {
	dir, err := d.dirOf(id)
	if err != nil {
		return nil, err
	}
	return &log{d: d, id: id, dir: dir, name: path.Join(dir, historyName), turn: make(chan struct{}, 1)}, nil
}

// take waits for the log's turn. give ends it.
func (l *log) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *log) give() { <-l.turn }

// open opens the file if it is not open. Without create the error is
// fs.ErrNotExist if there is none.
func (l *log) open(create bool) error {
	switch {
	case l.file != nil && l.denied == nil:
		return nil
	case l.file != nil:
		l.close() // perhaps it can be written by now
	}
	root, flags := l.d.root, os.O_RDWR|os.O_APPEND
	if create {
		flags |= os.O_CREATE
	}
	f, err := root.OpenFile(l.name, flags, fileMode)
	for try := 0; create && errors.Is(err, fs.ErrNotExist) && try < 100; try++ { // others may remove empty folders
		if err = root.MkdirAll(l.dir, dirMode); err == nil || errors.Is(err, fs.ErrNotExist) {
			f, err = root.OpenFile(l.name, flags, fileMode)
		}
	}
	l.denied = nil
	if errors.Is(err, fs.ErrPermission) {
		l.denied = err
		f, err = root.Open(l.name) // enough for reading
	}
	if err != nil {
		return err
	}
	l.file, l.fresh, l.checked = f, true, time.Now()
	l.d.noteOpen(l)
	return nil
}

// close closes the file; forget also forgets what was in it.
func (l *log) close() {
	if l.file != nil {
		l.d.noteClosed(l)
		l.file.Close() // what was written was checked when it was
		l.file = nil
	}
}

func (l *log) forget() {
	l.close()
	l.known, l.history, l.seen, l.adopted, l.checkpointed = false, history{}, 0, nil, 0
}

// lock locks the open file.
func (l *log) lock(ctx context.Context, exclusive bool) error {
	return lockContext(ctx, l.file, exclusive)
}

// lockContext locks a file. It does not wait in the operating system, where the
// context would not reach it.
func lockContext(ctx context.Context, f *os.File, exclusive bool) error {
	for wait := 20 * time.Microsecond; ; wait = min(2*wait, 5*time.Millisecond) {
		err := tryLock(f, exclusive)
		if !errors.Is(err, errWouldBlock) {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// unlock ends a lock. That it can't is no fault of what was done under it:
// closing the file ends it as well.
func (l *log) unlock() {
	if l.file != nil && unlock(l.file) != nil {
		l.close()
	}
}

// current looks at the open file and reports whether it is the one that its
// path names.
func (l *log) current() (status, bool, error) {
	st, err := stat(l.file)
	if err != nil || !st.gone && time.Since(l.checked) < checkEvery {
		return st, err == nil, err
	}
	there, err := l.d.root.Stat(l.name)
	if errors.Is(err, fs.ErrNotExist) {
		return st, false, nil
	}
	if err != nil {
		return st, false, err
	}
	mine, err := l.file.Stat()
	if err != nil {
		return st, false, err
	}
	l.checked = time.Now()
	return st, os.SameFile(there, mine), nil
}

// refresh brings the history up to what the file has. If there is no file, the
// history is empty.
func (l *log) refresh(ctx context.Context) error {
	for {
		err := l.open(false)
		if errors.Is(err, fs.ErrNotExist) {
			l.forget()
			return l.missing()
		}
		if err != nil {
			return err
		}
		st, ok, err := l.current()
		if err != nil {
			return err
		}
		if ok && l.uptodate(st) {
			return nil
		}
		if !ok {
			l.forget()
			continue
		}
		done, err := l.refreshLocked(ctx)
		if done || err != nil {
			return err
		}
	}
}

func (l *log) uptodate(st status) bool { return l.known && !l.fresh && st.size == l.seen }

// ahead is how much of a file may be new before it is read without a lock
// first, and then what has come meanwhile with one.
const ahead = 1 << 20

func (l *log) refreshLocked(ctx context.Context) (done bool, err error) {
	st, err := stat(l.file)
	if err != nil {
		return false, err
	}
	if st.size-l.history.size > ahead {
		// A tail that looks torn may be one that is being written.
		if err := l.catchUp(ctx, st.size, l.report, false); err != nil {
			return false, err
		}
	}
	if err := l.lock(ctx, false); err != nil {
		return false, err
	}
	defer l.unlock()
	st, ok, err := l.current()
	if !ok || err != nil {
		return false, err
	}
	return true, l.catchUp(ctx, st.size, l.report, true)
}

// report tells Options.OnDamage.
func (l *log) report(d Damage) {
	if d.File == "" {
		d.File = l.name
	}
	if f := l.d.opts.OnDamage; f != nil {
		f(d)
	}
}

// missing returns an error if there is no history where there should be one.
func (l *log) missing() error {
	m, err := readMeta(l.d.root, l.dir)
	if err != nil {
		return nil // whatever it is, it doesn't tell of a history
	}
	if c, ok := checkpointOf(m); ok && c.Count > 0 {
		return &Damage{File: l.name, Err: errLost}
	}
	return nil
}

// catchUp brings the history forward to the given size of the file. It reads
// only what is new, or what is behind the checkpoint. final says that nobody is
// writing.
func (l *log) catchUp(ctx context.Context, size int64, report func(Damage), final bool) error {
	if l.known && (size < l.history.size || !l.history.fits(l.file) || l.history.bare && !l.history.ended(l.file, size)) {
		l.known = false
	}
	h := l.history
	if !l.known {
		var err error
		if h, err = l.restore(size, report); err != nil {
			return err
		}
	}
	f := fold{history: &h, report: report, heads: true, growing: !final}
	if err := f.scan(ctx, l.file, size); err != nil {
		return err
	}
	l.history, l.known, l.fresh, l.seen = h, true, false, size
	return nil
}

// scan folds the lines up to a size of the file.
func (f *fold) scan(ctx context.Context, r io.ReaderAt, size int64) error {
	if err := scanLines(ctx, r, f.size, size, f.next); err != nil {
		return err
	}
	f.end()
	return nil
}
