package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// block makes the writer's leader wait until the returned function is called,
// so that what is submitted meanwhile queues up.
func block(t *testing.T, d *database) (release func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- d.writer.submit(context.Background(), maxGroupBytes, func(context.Context, *writer) error {
			close(entered)
			<-leave
			return nil
		})
	}()
	<-entered
	return func() {
		t.Helper()
		close(leave)
		if err := <-done; err != nil {
			t.Errorf("the blocking write: %v", err)
		}
	}
}

// awaitQueue waits until n requests wait.
func awaitQueue(t *testing.T, w *writer, n int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		waiting := len(w.queue)
		w.mu.Unlock()
		if waiting == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests wait, want %d", waiting, n)
		}
	}
}

// TestGroupCommit submits writes that share a transaction: each has its own
// outcome, and none is made twice.
func TestGroupCommit(t *testing.T) {
	boom := errors.New("boom")
	for _, tc := range []struct {
		name  string
		fail  error
		tries int // how often each write is tried: once if no other fails half done
	}{
		{"all succeed", nil, 1},
		{"one conflicts", session.ErrConflict, 1},
		{"one fails", boom, 2},
		{"one is too large", session.ErrTooLarge, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := openDriver(t, nil)
			release := block(t, d)
			const n, failing = 6, 2
			tries := make([]int, n)
			errs := make([]error, n)
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					id := fmt.Sprint("s", i)
					c := newSession(id, `{"role":"user"}`)
					errs[i] = d.writer.submit(t.Context(), 0, func(ctx context.Context, w *writer) error {
						tries[i]++
						if i != failing || tc.fail == nil {
							return w.commit(ctx, id, &c)
						}
						if tc.fail != session.ErrConflict {
							if err := w.commit(ctx, id, &c); err != nil {
								return err
							}
						}
						return tc.fail
					})
				})
				awaitQueue(t, d.writer, i+1)
			}
			release()
			wg.Wait()
			for i := range n {
				want := error(nil)
				wantTries := tc.tries
				if i == failing {
					want = tc.fail
				}
				if tc.tries == 2 && i > failing {
					wantTries = 1
				}
				if !errors.Is(errs[i], want) || tries[i] != wantTries {
					t.Errorf("write %d: %v after %d tries, want %v after %d", i, errs[i], tries[i], want, wantTries)
				}
				h, err := d.Head(t.Context(), fmt.Sprint("s", i))
				if err != nil || (h.Rev != "") != (want == nil) {
					t.Errorf("write %d: the head is %+v, %v", i, h, err)
				}
			}
			wantNoDamage(t, d)
		})
	}
}

// TestQueuedWriteIsCancelled cancels a write that waits, and one that is being
// made.
func TestQueuedWriteIsCancelled(t *testing.T) {
	d := openDriver(t, nil)
	release := block(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() { errs <- d.Commit(ctx, "cancelled", newSession("cancelled", `{"role":"user"}`)) }()
	go func() { errs <- d.Commit(t.Context(), "other", newSession("other", `{"role":"user"}`)) }()
	awaitQueue(t, d.writer, 2)
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("a write that waits, cancelled: %v", err)
	}
	release()
	if err := <-errs; err != nil {
		t.Errorf("the other write: %v", err)
	}
	for id, want := range map[string]bool{"cancelled": false, "other": true} {
		if h, err := d.Head(t.Context(), id); err != nil || (h.Rev != "") != want {
			t.Errorf("Head(%q) = %+v, %v, want one: %v", id, h, err, want)
		}
	}

	// A batch so large that the context ends in the middle of it.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	c := newSession("large")
	for i := range 20_000 {
		c.Add = append(c.Add, fmt.Appendf(nil, `{"role":"user","id":"%d"}`, i))
	}
	c.Head.Count = len(c.Add)
	go func() {
		time.Sleep(5 * time.Millisecond)
		cancel()
	}()
	err := d.Commit(ctx, "large", c)
	h, headErr := d.Head(t.Context(), "large")
	if headErr != nil {
		t.Fatal(headErr)
	}
	switch {
	case err == nil && h.Count != len(c.Add):
		t.Errorf("Commit succeeded, and there are %d messages", h.Count)
	case err != nil && (!errors.Is(err, context.Canceled) || h.Rev != ""):
		t.Errorf("Commit = %v, and the head is %+v", err, h)
	}
	wantNoDamage(t, d)
}

// TestManyGoroutinesAndCancels lets writers with short deadlines come and go:
// nobody is stuck, and what was acknowledged is there.
func TestManyGoroutinesAndCancels(t *testing.T) {
	d := openDriver(t, &Options{Durability: DurabilityNormal})
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			id := fmt.Sprint("s", g)
			var h session.Head
			for n := range 40 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%5)*200*time.Microsecond)
				next, err := appendOne(ctx, d, id, h, fmt.Sprintf(`{"role":"user","id":"%d"}`, n), start)
				cancel()
				got, headErr := d.Head(t.Context(), id)
				if headErr != nil {
					t.Error(headErr)
					return
				}
				switch {
				case got.Rev == next.Rev:
					h = next
				case err == nil || got.Rev != h.Rev:
					t.Errorf("%s: append: %v; head %+v", id, err, got)
					return
				case !errors.Is(err, context.DeadlineExceeded):
					t.Errorf("%s: append: %v", id, err)
				}
			}
		})
	}
	wg.Wait()
	wantNoDamage(t, d)
}

// TestFullDisk fills the database up: the write fails as a whole, and the
// store works again when there is space.
func TestFullDisk(t *testing.T) {
	d := openDriver(t, nil)
	h, err := appendOne(t.Context(), d, "s", session.Head{}, `{"role":"user"}`, start)
	if err != nil {
		t.Fatal(err)
	}
	limit := func(pages int) {
		t.Helper()
		writerPragma(t, d, fmt.Sprintf("max_page_count = %d", pages))
	}
	limit(20)
	large := fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"%s"}]}`, strings.Repeat("x", 1<<20))
	for range 2 {
		_, err = appendOne(t.Context(), d, "s", h, large, start)
		if err == nil || errors.Is(err, session.ErrConflict) || errors.Is(err, session.ErrCorrupt) {
			t.Errorf("Commit on a full disk = %v", err)
		}
	}
	release := block(t, d)
	var wg sync.WaitGroup
	for i, line := range []string{`{"role":"user"}`, large, `{"role":"user"}`} {
		wg.Go(func() {
			err := d.Commit(t.Context(), fmt.Sprint("n", i), newSession(fmt.Sprint("n", i), line))
			if (err != nil) != (line == large) {
				t.Errorf("write %d beside one that does not fit: %v", i, err)
			}
		})
	}
	awaitQueue(t, d.writer, 3)
	release()
	wg.Wait()
	if got, err := d.Head(t.Context(), "s"); err != nil || got.Rev != h.Rev {
		t.Errorf("Head after failed writes = %+v, %v, want %q", got, err, h.Rev)
	}
	wantNoDamage(t, d)
	limit(1_000_000)
	if _, err = appendOne(t.Context(), d, "s", h, large, start); err != nil {
		t.Errorf("Commit when there is space again: %v", err)
	}
	wantNoDamage(t, d)
}

// TestLimits stores the sizes that every store must hold.
func TestLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("large")
	}
	d := openDriver(t, &Options{Durability: DurabilityNormal})
	large := fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"%s"}]}`, strings.Repeat("x", 17<<20))
	h, err := appendOne(t.Context(), d, "s", session.Head{}, large, start)
	if err != nil {
		t.Fatal(err)
	}
	before := wroteBytes(t)
	h, err = appendOne(t.Context(), d, "s", h, `{"role":"user"}`, start)
	if err != nil {
		t.Fatal(err)
	}
	if wrote := wroteBytes(t) - before; wrote > 100_000 {
		t.Errorf("an append after a message of 17 MiB writes %d bytes", wrote)
	}
	got, err := d.Range(t.Context(), "s", h, 0, 2)
	if err != nil || string(got[0]) != large {
		t.Errorf("Range of a large message: %d bytes, %v", len(got[0]), err)
	}

	c := newSession("many")
	for i := range 100_000 {
		c.Add = append(c.Add, fmt.Appendf(nil, `{"role":"user","id":"%d"}`, i))
	}
	c.Head.Count = len(c.Add)
	if err := d.Commit(t.Context(), "many", c); err != nil {
		t.Fatalf("Commit of %d messages: %v", len(c.Add), err)
	}
	got, err = d.Range(t.Context(), "many", *c.Head, 0, len(c.Add))
	if err != nil || !bytes.Equal(bytes.Join(got, nil), bytes.Join(c.Add, nil)) {
		t.Errorf("Range of %d messages: %d, %v", len(c.Add), len(got), err)
	}

	c = newSession("huge")
	c.Add, c.Head.Count = [][]byte{make([]byte, maxValueBytes+1)}, 1
	if err := d.Commit(t.Context(), "huge", c); !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("Commit of more than SQLite holds = %v, want ErrTooLarge", err)
	}
	wantNoDamage(t, d)
}

func wroteBytes(t *testing.T) int {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(data), "wchar: ")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDurability checks what the option sets, and that both settings share the
// file.
func TestDurability(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	full, normal := openDriverAt(t, file, nil), openDriverAt(t, file, &Options{Durability: DurabilityNormal})
	if got := writerPragma(t, full, "synchronous"); got != 2 {
		t.Errorf("synchronous = %d by default, want 2 (FULL)", got)
	}
	if got := writerPragma(t, normal, "synchronous"); got != 1 {
		t.Errorf("synchronous = %d with DurabilityNormal, want 1 (NORMAL)", got)
	}
	h, err := appendOne(t.Context(), full, "s", session.Head{}, "{}", start)
	for i := 0; err == nil && i < 10; i++ {
		h, err = appendOne(t.Context(), []*database{full, normal}[i%2], "s", h, "{}", start)
	}
	if err != nil {
		t.Errorf("two handles in turn: %v", err)
	}
	if _, err := Open(t.Context(), file, &Options{Durability: 7}); !errors.Is(err, session.ErrInvalidOption) {
		t.Errorf("Open with Durability 7 = %v, want ErrInvalidOption", err)
	}
}
