package filestore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// model is what a session should be.
type model struct {
	head  session.Head
	lines [][]byte
}

// TestRandomCommits makes commits of all kinds through several drivers, which
// are opened anew now and then, and compares heads and parts of the history with
// a model after each.
func TestRandomCommits(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			dir := t.TempDir()
			opts := &Options{Durability: DurabilityNormal, MaxOpenFiles: 2}
			drivers := []*files{openDriver(t, dir, opts), openDriver(t, dir, opts), openDriver(t, dir, opts)}
			defer func() {
				for _, d := range drivers {
					d.Close()
				}
			}()
			ids := []string{"a", "a/b", "b", "A", strings.Repeat("É", 100)}
			models := map[string]*model{}
			now := time.Unix(1_700_000_000, 0).UTC()
			for step := range 600 {
				i := rnd.IntN(len(drivers))
				if rnd.IntN(40) == 0 {
					if err := drivers[i].Close(); err != nil {
						t.Fatal(err)
					}
					drivers[i] = openDriver(t, dir, opts)
				}
				id := ids[rnd.IntN(len(ids))]
				m := models[id]
				if m == nil {
					m = &model{}
				}
				now = now.Add(time.Duration(rnd.Int64N(int64(time.Second))))
				c := randomCommit(rnd, id, m, step, now)
				if err := drivers[i].Commit(t.Context(), id, c); err != nil {
					t.Fatalf("step %d: Commit: %v", step, err)
				}
				if c.Head == nil {
					delete(models, id)
				} else {
					head := *c.Head
					if !c.SetMeta {
						head.Meta = m.head.Meta
					}
					models[id] = &model{head, append(m.lines[:c.Keep:c.Keep], c.Add...)}
				}
				checkModel(t, drivers[rnd.IntN(len(drivers))], id, models[id], rnd)
				if t.Failed() {
					t.Fatalf("step %d", step)
				}
			}
		})
	}
}

func randomCommit(rnd *rand.Rand, id string, m *model, step int, now time.Time) session.Commit {
	c := session.Commit{IfRev: m.head.Rev}
	if m.head.Rev != "" && rnd.IntN(25) == 0 {
		return c
	}
	c.Keep = len(m.lines)
	base := m.head.Base
	if rnd.IntN(6) == 0 {
		c.Keep = rnd.IntN(len(m.lines) + 1)
	}
	for range []int{0, 1, 1, 1, 2, 4, 70}[rnd.IntN(7)] {
		size := []int{10, 300, 2000, 9000, 70_000}[rnd.IntN(5)]
		c.Add = append(c.Add, fmt.Appendf(nil, `{"role":"user","id":"%d","content":[{"type":"text","text":"%s"}]}`, step, strings.Repeat("x", size)))
	}
	if c.Keep < len(m.lines) || m.head.Rev == "" {
		base = fmt.Sprint("base", step)
	}
	c.Head = &session.Head{
		ID: id, Rev: fmt.Sprint("rev", step), Base: base, Count: c.Keep + len(c.Add), Updated: now,
		Record: bytes.Repeat([]byte{byte(step)}, 1+rnd.IntN(300)),
	}
	if rnd.IntN(2) == 0 {
		c.Head.Expires = now.Add(time.Hour)
	}
	if c.SetMeta = m.head.Rev == "" || rnd.IntN(5) == 0; c.SetMeta && rnd.IntN(2) == 0 {
		c.Head.Meta = fmt.Appendf(nil, `{"title":"%d"}`, step)
	}
	return c
}

func checkModel(t *testing.T, d *files, id string, m *model, rnd *rand.Rand) {
	t.Helper()
	h, err := d.Head(t.Context(), id)
	if err != nil {
		t.Fatalf("Head(%q): %v", id, err)
	}
	if m == nil {
		m = &model{}
	}
	if n := len(h.Appends); n > 0 { // the suite looks at these more closely
		if h.Appends[n-1].Rev != h.Rev {
			t.Errorf("the last of the Appends is %q, want %q", h.Appends[n-1].Rev, h.Rev)
		}
		h.Record, h.Appends = m.head.Record, nil
	}
	if diff := cmp.Diff(m.head, h); diff != "" {
		t.Fatalf("Head(%q) (-want +got):\n%s", id, diff)
	}
	if h.Count == 0 {
		return
	}
	from := rnd.IntN(h.Count)
	to := from + 1 + rnd.IntN(h.Count-from)
	if rnd.IntN(2) == 0 {
		to = h.Count
	}
	lines, err := d.Range(t.Context(), id, h, from, to)
	if err != nil {
		t.Fatalf("Range(%q): %v", id, err)
	}
	if !slices.EqualFunc(lines, m.lines[from:to], bytes.Equal) {
		t.Fatalf("Range(%q, %d, %d) of %d differs", id, from, to, h.Count)
	}
}
