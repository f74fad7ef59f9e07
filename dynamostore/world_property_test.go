package dynamostore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// TestConcurrentProcesses checks the driver against a model while processes
// write and read at the same time, replies are lost, writes come late and
// processes die. SESSION_TEST_SEEDS is how many runs there are.
func TestConcurrentProcesses(t *testing.T) {
	seeds := 24
	if testing.Short() {
		seeds = 4
	}
	if n, err := strconv.Atoi(os.Getenv("SESSION_TEST_SEEDS")); err == nil {
		seeds = n
	}
	// Their channels must not belong to one run.
	enc, encErr := encoder()
	dec, decErr := decoder()
	if err := errors.Join(encErr, decErr); err != nil {
		t.Fatal(err)
	}
	if _, err := dec.DecodeAll(enc.EncodeAll([]byte("x"), nil), nil); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed, []time.Duration{0, time.Hour, 0, 4 * time.Hour}[seed%4])
				if w.run(150); !t.Failed() {
					w.finish()
				}
			})
		})
	}
}

func (w *world) run(calls int) {
	for calls > 0 && !w.Failed() {
		synctest.Wait()
		if w.running < 3 && w.rnd.IntN(6) == 0 {
			calls--
			w.now = w.now.Add(time.Duration(w.rnd.Int64N(int64(50 * time.Minute))))
			switch w.rnd.IntN(40) {
			case 0:
				if w.ttl < 2*time.Hour { // others go on until their first items are due
					w.now = w.now.Add(4 * 24 * time.Hour)
				}
			case 1, 2, 3:
				for range 10 {
					w.removeExpired()
				}
			}
			call := w.commit
			if w.rnd.IntN(3) == 0 {
				call = w.read
			}
			w.spawn(call)
		}
		w.step()
	}
	for w.step() {
	}
}

// checkHead checks a head that a driver shows.
func (w *world) checkHead(h session.Head) {
	if h.Rev == "" {
		return
	}
	want := w.heads[h.Rev]
	if h.Meta == nil && w.ttl > 0 && !w.now.Before(h.Expires) {
		want.Meta = nil // the service may have removed it
	}
	if diff := cmp.Diff(want, h); diff != "" {
		w.Errorf("head at %q (-want +got):\n%s", h.Rev, diff)
	}
	if !w.applied[h.Rev] {
		w.Errorf("head at %q, which was not made", h.Rev)
	}
}

// look reads the head as a driver sees it, and reports whether it could.
func (w *world) look(ctx context.Context, d *driver) (h session.Head, ok bool) {
	h, err := d.Head(ctx, w.id)
	w.turn()
	if err != nil {
		w.checkError("Head", err)
		return h, false
	}
	w.checkHead(h)
	return h, true
}

// read reads ranges of the history at the current revision and at earlier ones.
func (w *world) read(ctx context.Context, d *driver) {
	h, ok := w.look(ctx, d)
	if !ok {
		return
	}
	for range 3 {
		w.readRange(ctx, d, h)
		if all := w.made(); len(all) > 0 {
			w.readRange(ctx, d, w.heads[all[w.rnd.IntN(len(all))]])
		}
	}
}

// made returns the revisions that were made, in a fixed order.
func (w *world) made() []string {
	var all []string
	for rev := range w.heads {
		if w.applied[rev] {
			all = append(all, rev)
		}
	}
	slices.Sort(all)
	return all
}

func (w *world) readRange(ctx context.Context, d *driver, h session.Head) {
	if h.Count == 0 {
		return
	}
	from := w.rnd.IntN(h.Count)
	to := h.Count
	if w.rnd.IntN(2) == 0 {
		to = from + 1 + w.rnd.IntN(h.Count-from)
	}
	lines, err := d.Range(ctx, w.id, h, from, to)
	w.turn()
	switch {
	case errors.Is(err, session.ErrConflict):
		// Right if the base has changed by now, or the session has gone.
		w.fake.mu.Lock()
		now := w.fake.items[w.drivers[0].pk(w.id)+"\x00\x00"+headKey]
		w.fake.mu.Unlock()
		if revOf(now) != "" && textOf(now, attrBase) == h.Base {
			w.Errorf("Range(%d, %d) at %q = %v, but the base is the same", from, to, h.Rev, err)
		}
	case err != nil:
		w.checkError("Range", err)
	case !slices.EqualFunc(lines, w.histories[h.Rev][from:to], bytes.Equal):
		if w.ttl > 0 && !h.Expires.After(w.now) {
			return // the service may have taken a part
		}
		w.Errorf("Range(%d, %d) at %q of %d differs (-want +got):\n%s\n%s", from, to, h.Rev, h.Count,
			cmp.Diff(w.histories[h.Rev][from:to], lines), strings.Join(w.log, "\n"))
	}
}

// finish checks, without faults, the session as it has become, and that all
// else can be removed.
func (w *world) finish() {
	w.faults = 0
	do := func(call func(ctx context.Context, d *driver)) {
		w.drivers = []*driver{w.newDriver()}
		w.spawn(call)
		for w.step() {
		}
	}
	for range 3 { // if it had been removed, the items of then as well
		w.now = w.now.Add(2 * takeOver * time.Second)
		do(func(ctx context.Context, d *driver) {
			h, err := d.Head(ctx, w.id)
			if err != nil {
				w.Fatal(err)
			}
			c := w.change(h)
			for c.Head == nil {
				c = w.change(h)
			}
			if err := d.Commit(ctx, w.id, c); err != nil {
				w.Errorf("Commit at the end: %v", err)
			}
		})
	}
	do(func(ctx context.Context, d *driver) {
		h, err := d.Head(ctx, w.id)
		if err != nil {
			w.Fatal(err)
		}
		w.checkHead(h)
		for range 20 {
			w.readRange(ctx, d, h)
		}
		st, _ := d.cache.get(w.id)
		if err := d.sweep(ctx, w.id, &st); err != nil {
			w.Errorf("sweep: %v", err)
		}
		w.checkItems(true)
		for range 20 {
			w.readRange(ctx, d, h)
		}
		if err := d.Commit(ctx, w.id, session.Commit{IfRev: h.Rev}); err != nil {
			w.Errorf("removal: %v", err)
		}
	})
	w.checkItems(false)
}

// checkItems checks that there are no items but those of the session, or none
// but its tombstone.
func (w *world) checkItems(session bool) {
	head := w.fake.items[w.drivers[0].pk(w.id)+"\x00\x00"+headKey]
	live := map[string]bool{headKey: true}
	if session {
		live = w.live(head)
	} else if head == nil {
		return // removed by its ttl
	}
	for key, it := range w.fake.items {
		f := fields{item: it}
		if !live[textOf(it, attrSK)] && f.num(attrSeq) <= seqOf(head) {
			w.Errorf("item %q is left over", key)
		}
	}
}

func seqOf(head item) int64 {
	f := fields{item: head}
	return f.num(attrSeq)
}
