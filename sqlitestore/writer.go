package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/holdfast-go/session"
)

// writer is the one connection that writes. One goroutine at a time leads: it
// begins a transaction, makes the writes of all that wait, and commits. Who
// finds nobody leading leads itself and waits for nobody; those who come
// meanwhile wait, and share a commit. When the leader has its own result, a
// goroutine goes on with the others' until none is left.
type writer struct {
	db    *database
	conn  *conn            // the leader's
	known map[string]place // the leader's; see place

	ctx  context.Context // of what no caller leads; done when the store closes
	stop context.CancelFunc
	on   sync.WaitGroup // leadOn

	mu      sync.Mutex
	leading bool
	queue   []*request // of those who wait; empty if nobody leads
}

// request is one write.
type request struct {
	ctx   context.Context
	bytes int
	// apply makes the write in the transaction that is open. If it returns
	// ErrConflict it has changed nothing.
	apply func(ctx context.Context, w *writer) error
	err   error
	done  chan struct{} // closed when err is set; nil of the leader's own
}

// maxGroupBytes bounds what shares a transaction. A larger write goes alone.
const maxGroupBytes = 4 << 20

func newWriter(db *database, c *conn) *writer {
	w := &writer{db: db, conn: c, known: make(map[string]place)}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// submit makes a write and returns when it is committed, or has failed. If the
// context is done before the write has begun, nothing is written.
func (w *writer) submit(ctx context.Context, bytes int, apply func(context.Context, *writer) error) error {
	r := &request{ctx: ctx, bytes: bytes, apply: apply}
	w.mu.Lock()
	if !w.leading {
		w.leading = true
		w.mu.Unlock()
		w.lead(ctx, r)
		if w.more() {
			w.on.Go(w.leadOn)
		}
		return r.err
	}
	r.done = make(chan struct{})
	w.queue = append(w.queue, r)
	w.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
		if w.withdraw(r) {
			return ctx.Err()
		}
		<-r.done
	}
	return r.err
}

// close ends a lead whose last request was withdrawn.
func (w *writer) close() error {
	w.stop()
	w.on.Wait()
	return w.conn.close()
}

// withdraw takes a request out of the queue, if it is still there.
func (w *writer) withdraw(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, r)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// more reports whether the lead has to go on; if not, nobody leads any more.
func (w *writer) more() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leading = len(w.queue) > 0
	return w.leading
}

// leadOn makes what waits, until nothing does.
func (w *writer) leadOn() {
	for {
		w.lead(w.ctx, nil)
		runtime.Gosched() // those who have their result may come with the next write
		if !w.more() {
			return
		}
	}
}

// lead makes one transaction, of own, if not nil, and of what waits when the
// write lock is held.
func (w *writer) lead(ctx context.Context, own *request) {
	if w.db.memory != nil {
		w.db.memory.Lock()
		defer w.db.memory.Unlock()
	}
	var group []*request
	if own != nil {
		group = append(group, own)
	}
	err := w.begin(ctx)
	if err == nil || own == nil {
		group = w.takeAlong(group)
	}
	if err != nil {
		settle(group, err)
		return
	}
	if w.together(group) {
		settle(group, w.finish(nil))
		return
	}
	// Something is half done. Each by itself, so that only the one that can't
	// be made fails.
	w.rollback()
	for _, r := range group {
		if r.err = w.begin(r.ctx); r.err == nil {
			r.err = w.finish(r.applyTo(w))
		}
	}
	settle(group, nil)
}

// together makes a group's writes in the open transaction. It reports false if
// the transaction must not be committed.
func (w *writer) together(group []*request) bool {
	for _, r := range group {
		if r.err = r.ctx.Err(); r.err != nil {
			continue // it has changed nothing
		}
		r.err = r.applyTo(w)
		if r.err != nil && !errors.Is(r.err, session.ErrConflict) {
			return false
		}
	}
	return true
}

// settle tells those who wait that their result is there: err for all if it is
// not nil.
func settle(group []*request, err error) {
	for _, r := range group {
		if err != nil {
			r.err = err
		}
		if r.done != nil {
			close(r.done)
		}
	}
}

func (r *request) applyTo(w *writer) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	return wrapError(r.ctx, r.apply(r.ctx, w))
}

// takeAlong adds to a group what waits, up to a number of bytes.
func (w *writer) takeAlong(group []*request) []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes, n := 0, 0
	for _, r := range group {
		bytes += r.bytes
	}
	for n < len(w.queue) && (len(group)+n == 0 || bytes+w.queue[n].bytes <= maxGroupBytes) {
		bytes += w.queue[n].bytes
		n++
	}
	group = append(group, w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
	return group
}

// begin waits for the write lock, which another process may hold.
func (w *writer) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := waiting(ctx, w.db.opts.BusyTimeout, func() error {
		_, err := w.conn.run("BEGIN IMMEDIATE")
		return err
	})
	if isBusy(err) && ctx.Err() == nil {
		return fmt.Errorf("sqlitestore: another process has held the database for %v: %w", w.db.opts.BusyTimeout, err)
	}
	return wrapError(ctx, err)
}

// finish commits if err is nil, and else, or if that fails, rolls back.
func (w *writer) finish(err error) error {
	if err == nil {
		if _, err = w.conn.run("COMMIT"); err == nil {
			return nil
		}
		err = wrapError(context.Background(), err)
	}
	if errors.Is(err, session.ErrConflict) {
		w.conn.run("ROLLBACK") // of nothing
		return err
	}
	w.rollback()
	return err
}

// rollback ends the transaction, if SQLite has not done so already, which is
// all that its error would say.
func (w *writer) rollback() {
	clear(w.known)
	w.conn.run("ROLLBACK")
}
