package dynamostore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-go/session"
)

var listStart = time.Date(2026, 3, 1, 0, 0, 0, 123456789, time.UTC)

// TestListsAreExact compares lists, of which the index is behind by as much as
// it may be, with what they should be.
func TestListsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFake()
		f.pageSize = rapid.IntRange(200, 4000).Draw(t, "page")
		every := rapid.SampledFrom([]time.Duration{-1, time.Second, time.Minute}).Draw(t, "every")
		var drivers []*driver
		for range 2 {
			d, err := newDriver(f, "table", &Options{KeyPrefix: "p", IndexEvery: every})
			if err != nil {
				t.Fatal(err)
			}
			drivers = append(drivers, d)
		}
		other, err := newDriver(f, "table", &Options{KeyPrefix: "q"})
		if err != nil {
			t.Fatal(err)
		}
		heads := make(map[string]session.Head)
		now := listStart
		for i := range rapid.IntRange(0, 80).Draw(t, "writes") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 700, 20_000}).Draw(t, "ms")) * time.Millisecond)
			id := rapid.SampledFrom([]string{"a/1", "a/2", "a/b/1", "a/b/2", "a", "b/1", "\x00a/1", "c", "d", "é/1", "e", "f"}).Draw(t, "id")
			h := session.Head{ID: id, Rev: fmt.Sprint(i), Base: cmpOr(heads[id].Base, fmt.Sprint(i)), Updated: now}
			h.Meta = [][]byte{nil, []byte("m"), bytes.Repeat([]byte("m"), 2000)}[i%3]
			d := rapid.SampledFrom(drivers).Draw(t, "driver")
			c := session.Commit{IfRev: heads[id].Rev, Head: &h, SetMeta: true}
			if c.IfRev != "" && rapid.IntRange(0, 9).Draw(t, "remove") == 0 {
				c.Head = nil
			}
			if err := d.Commit(t.Context(), id, c); err != nil {
				t.Fatal(err)
			}
			if heads[id] = h; c.Head == nil {
				delete(heads, id)
			}
			h.Rev, h.Base = "other", "other"
			if err := other.Commit(t.Context(), fmt.Sprint(i), session.Commit{Head: &h}); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			q := session.HeadQuery{
				Prefix: rapid.SampledFrom([]string{"", "a", "a/", "a/b/", "a/b", "é/", "none/"}).Draw(t, "prefix"),
				Limit:  rapid.IntRange(0, 4).Draw(t, "limit"),
			}
			if rapid.Bool().Draw(t, "after") {
				q.AfterUpdated, q.AfterID = drawTime(t, now), rapid.SampledFrom([]string{"", "a/2", "d", "zz"}).Draw(t, "after ID")
			}
			if rapid.Bool().Draw(t, "since") {
				q.Since = drawTime(t, now)
			}
			checkHeads(t, drivers[0], q, heads)
		}
	})
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func drawTime(t *rapid.T, now time.Time) time.Time {
	all := []time.Time{now, time.Unix(-1<<40, 0), time.Unix(1<<40, 0), listStart}
	if i := rapid.IntRange(0, 6).Draw(t, "time"); i < len(all) {
		return all[i]
	}
	return now.Add(-time.Duration(rapid.Int64Range(0, int64(now.Sub(listStart))).Draw(t, "ago")))
}

func checkHeads(t *rapid.T, d *driver, q session.HeadQuery, heads map[string]session.Head) {
	var want, got []session.Head
	for id, h := range heads {
		behind := q.AfterUpdated.IsZero() || h.Updated.Before(q.AfterUpdated) || h.Updated.Equal(q.AfterUpdated) && id > q.AfterID
		if !hidden(id) && strings.HasPrefix(id, q.Prefix) && !h.Updated.Before(q.Since) && behind {
			want = append(want, h)
		}
	}
	slices.SortFunc(want, func(a, b session.Head) int {
		if c := b.Updated.Compare(a.Updated); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	for h, err := range d.Heads(t.Context(), q) {
		if err != nil {
			t.Fatalf("Heads(%+v): %v", q, err)
		}
		got = append(got, h)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Heads(%+v) (-want +got):\n%s", q, diff)
	}
}

// A session is replaced or removed between the reads of its head and of its
// Meta, which has an item of its own.
func TestHeadsBesideChanges(t *testing.T) {
	for _, removed := range []bool{false, true} {
		f := newFake()
		d, other := opened(t, f), opened(t, f)
		long := func(text string) []byte { return bytes.Repeat([]byte(text), 2000) }
		old := session.Head{ID: "s", Rev: "1", Base: "1", Updated: listStart, Meta: long("old")}
		now := session.Head{ID: "s", Rev: "2", Base: "1", Updated: listStart, Meta: long("new")}
		if err := d.Commit(t.Context(), "s", session.Commit{Head: &old, SetMeta: true}); err != nil {
			t.Fatal(err)
		}
		reads := 0
		f.before = func(ctx context.Context, request string, apply func()) error {
			if strings.HasPrefix(request, "BatchGetItem") {
				reads++
			}
			if reads == 2 {
				reads++
				c := session.Commit{IfRev: "1", Head: &now, SetMeta: true}
				if removed {
					c = session.Commit{IfRev: "1"}
				}
				if err := other.Commit(ctx, "s", c); err != nil {
					t.Error(err)
				}
			}
			apply()
			return nil
		}
		var got []session.Head
		for h, err := range d.Heads(t.Context(), session.HeadQuery{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, h)
		}
		want := []session.Head{now}
		if removed {
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("removed %v: Heads (-want +got):\n%s", removed, diff)
		}
	}
}
