package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/drivertest"
	"github.com/holdfast-go/session/internal/listing"
)

// openDriver returns the driver of a new database in a file.
func openDriver(tb testing.TB, opts *Options) *database {
	tb.Helper()
	return openDriverAt(tb, filepath.Join(tb.TempDir(), "sessions.db"), opts)
}

func openDriverAt(tb testing.TB, file string, opts *Options) *database {
	tb.Helper()
	o, err := opts.withDefaults()
	if err != nil {
		tb.Fatal(err)
	}
	d, err := openDatabase(tb.Context(), file, o)
	if err != nil {
		tb.Fatalf("openDatabase(%q): %v", file, err)
	}
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return d
}

var start = time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC)

// TestRandomCommits drives the driver with commits of all kinds and compares
// it with a model after each.
func TestRandomCommits(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			d := openDriver(t, &Options{Clock: func() time.Time { return start }})
			ids := []string{"a", "a/b", "\x00hidden", "a\x7f", "é", "b"}
			mix := drivertest.Mix{Remove: 12, Cut: 5, Sizes: []int{10, 300, 2000, bigBody, 9000, 20_000}}
			sessions := drivertest.Sessions{}
			now := start
			for step := range 250 {
				id := ids[rnd.IntN(len(ids))]
				now = now.Add(time.Duration(rnd.Int64N(int64(8*time.Second))) - time.Second)
				c := sessions.Commit(rnd, id, step, now, mix)
				if rnd.IntN(5) == 0 {
					wrong := c
					wrong.IfRev = "wrong"
					if err := d.Commit(t.Context(), id, wrong); !errors.Is(err, session.ErrConflict) {
						t.Fatalf("step %d: Commit with a wrong revision = %v, want ErrConflict", step, err)
					}
				}
				if rnd.IntN(10) == 0 {
					forget(t, d)
				}
				if err := d.Commit(t.Context(), id, c); err != nil {
					t.Fatalf("step %d: Commit: %v", step, err)
				}
				sessions.Apply(id, c)
				sessions.Check(t, d, id, rnd, mix)
			}
			checkList(t, d, sessions, rnd)
			wantNoDamage(t, d)
		})
	}
}

// forget makes the writer look where each session is.
func forget(t *testing.T, d *database) {
	t.Helper()
	err := d.writer.submit(t.Context(), 0, func(_ context.Context, w *writer) error { clear(w.known); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func checkList(t *testing.T, d *database, sessions drivertest.Sessions, rnd *rand.Rand) {
	t.Helper()
	for _, prefix := range []string{"", "a", "a/", "\xc3", "é", "none"} {
		var want []session.Head
		for id, m := range sessions {
			if !hidden(id) && strings.HasPrefix(id, prefix) {
				want = append(want, m.Head)
			}
		}
		slices.SortFunc(want, listing.Newer)
		checkHeads(t, d, session.HeadQuery{Prefix: prefix}, want)
		if len(want) < 2 {
			continue
		}
		i := rnd.IntN(len(want))
		checkHeads(t, d, session.HeadQuery{Prefix: prefix, AfterUpdated: want[i].Updated, AfterID: want[i].ID}, want[i+1:])
		checkHeads(t, d, session.HeadQuery{Prefix: prefix, Since: want[i].Updated}, want[:i+1])
	}
}

func checkHeads(t *testing.T, d *database, q session.HeadQuery, want []session.Head) {
	t.Helper()
	if diff := cmp.Diff(idsOf(want), idsOf(heads(t, d, q))); diff != "" {
		t.Errorf("Heads(%+v) (-want +got):\n%s", q, diff)
	}
}

func heads(t *testing.T, d *database, q session.HeadQuery) (all []session.Head) {
	t.Helper()
	for h, err := range d.Heads(t.Context(), q) {
		if err != nil {
			t.Fatalf("Heads(%+v): %v", q, err)
		}
		all = append(all, h)
	}
	return all
}

func idsOf(heads []session.Head) []string {
	ids := make([]string, len(heads))
	for i, h := range heads {
		ids[i] = h.ID
	}
	return ids
}

// appendOne appends a line to a session and returns the new head.
func appendOne(ctx context.Context, d *database, id string, h session.Head, line string, now time.Time) (session.Head, error) {
	next := h
	next.ID, next.Count, next.Updated, next.Record = id, h.Count+1, now, []byte("record")
	next.Rev = fmt.Sprintf("%d-%d", next.Count, rand.Uint64())
	if h.Rev == "" {
		next.Base = next.Rev
	}
	return next, d.Commit(ctx, id, session.Commit{IfRev: h.Rev, Keep: h.Count, Add: [][]byte{[]byte(line)}, Head: &next, SetMeta: h.Rev == ""})
}

// TestListOrder lists more sessions than a page holds, updated in an order in
// which sessions.listed lags behind.
func TestListOrder(t *testing.T) {
	d := openDriver(t, &Options{Durability: DurabilityNormal})
	rnd := rand.New(rand.NewPCG(1, 2))
	now, all := start, map[string]session.Head{}
	for i := range 3000 {
		id := fmt.Sprintf("%s/%d", []string{"x", "y"}[rnd.IntN(2)], rnd.IntN(350))
		if i%3 > 0 {
			now = now.Add(time.Duration(rnd.Int64N(int64(40 * time.Millisecond))))
		}
		h, err := appendOne(t.Context(), d, id, all[id], `{"role":"user"}`, now)
		if err != nil {
			t.Fatal(err)
		}
		all[id] = h
	}
	for _, prefix := range []string{"", "x/", "y/1"} {
		var want []session.Head
		for id, h := range all {
			if strings.HasPrefix(id, prefix) {
				want = append(want, h)
			}
		}
		slices.SortFunc(want, listing.Newer)
		checkHeads(t, d, session.HeadQuery{Prefix: prefix}, want)
		for _, i := range []int{0, 1, len(want) / 2, len(want) - 1} {
			checkHeads(t, d, session.HeadQuery{Prefix: prefix, AfterUpdated: want[i].Updated, AfterID: want[i].ID}, want[i+1:])
			var since []session.Head
			for _, h := range want {
				if !h.Updated.Before(want[i].Updated) {
					since = append(since, h)
				}
			}
			checkHeads(t, d, session.HeadQuery{Prefix: prefix, Since: want[i].Updated}, since)
		}
		got := idsOf(heads(t, d, session.HeadQuery{Prefix: prefix, Limit: 7}))
		if len(got) < 7 || !slices.Equal(got[:7], idsOf(want)[:7]) {
			t.Errorf("Heads with Limit 7 begins with %q, want %q", got[:min(7, len(got))], idsOf(want)[:7])
		}
	}
	wantNoDamage(t, d)
}

// TestConcurrentWriters lets goroutines append to a few sessions: every append
// is made once, and each writer's own come in its order.
func TestConcurrentWriters(t *testing.T) {
	for _, file := range []string{"file", ":memory:"} {
		t.Run(strings.Trim(file, ":"), func(t *testing.T) {
			if file == "file" {
				file = filepath.Join(t.TempDir(), "sessions.db")
			}
			d := openDriverAt(t, file, &Options{Durability: DurabilityNormal})
			const writers, appends, sessions = 8, 60, 3
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for n := range appends {
						id := fmt.Sprint("s", n%sessions)
						for {
							h, err := d.Head(t.Context(), id)
							if err == nil {
								_, err = appendOne(t.Context(), d, id, h, fmt.Sprintf("%d %d", w, n), start)
							}
							if err == nil {
								break
							}
							if !errors.Is(err, session.ErrConflict) {
								t.Error(err)
								return
							}
						}
					}
				})
			}
			wg.Wait()
			total := 0
			for s := range sessions {
				id := fmt.Sprint("s", s)
				h, err := d.Head(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				lines, err := d.Range(t.Context(), id, h, 0, h.Count)
				if err != nil {
					t.Fatal(err)
				}
				last := map[int]int{}
				for _, l := range lines {
					var w, n int
					fmt.Sscan(string(l), &w, &n)
					if before, ok := last[w]; ok && n <= before {
						t.Errorf("session %s: writer %d's %d follows %d", id, w, n, before)
					}
					last[w] = n
				}
				total += len(lines)
			}
			if total != writers*appends {
				t.Errorf("%d messages, want %d", total, writers*appends)
			}
		})
	}
}
