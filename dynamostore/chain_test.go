package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// opened returns a driver on f whose batches hold little.
func opened(t *testing.T, f *fake) *driver {
	t.Helper()
	d, err := newDriver(f, "table", &Options{Uncompressed: true})
	if err != nil {
		t.Fatal(err)
	}
	d.batchBytes = 20
	return d
}

// addLines appends lines to a session and returns its new head. It fails as
// the driver does.
func addLines(t *testing.T, d *driver, h session.Head, lines ...string) (session.Head, error) {
	t.Helper()
	n := h
	n.Rev = newNonce()
	n.ID, n.Count, n.Updated = "s", h.Count+len(lines), listStart
	if h.Rev == "" {
		n.Base = n.Rev
	}
	var add [][]byte
	for _, l := range lines {
		add = append(add, []byte(l))
	}
	return n, d.Commit(t.Context(), "s", session.Commit{IfRev: h.Rev, Keep: h.Count, Add: add, Head: &n, SetMeta: h.Rev == ""})
}

func mustAdd(t *testing.T, d *driver, h session.Head, lines ...string) session.Head {
	t.Helper()
	n, err := addLines(t, d, h, lines...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// orphan leaves the items of a commit that never comes about, as a process does
// that dies.
func orphan(t *testing.T, f *fake, h session.Head, lines ...string) {
	t.Helper()
	d := opened(t, f)
	if _, err := d.Head(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	heads := 0
	f.before = func(_ context.Context, request string, apply func()) error {
		if request == "PutItem" {
			if heads++; len(lines) > 1 || heads > 1 {
				return &types.ResourceNotFoundException{} // refused: the head
			}
		}
		apply()
		return nil
	}
	defer func() { f.before = nil }()
	if _, err := addLines(t, d, h, lines...); err == nil {
		t.Fatal("the commit of a process that died came about")
	}
}

func wantLines(t *testing.T, d *driver, h session.Head, from, to int, want ...string) {
	t.Helper()
	lines, err := d.Range(t.Context(), "s", h, from, to)
	if err != nil {
		t.Fatalf("Range(%d, %d): %v", from, to, err)
	}
	var got []string
	for _, l := range lines {
		got = append(got, string(l))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Range(%d, %d) (-want +got):\n%s", from, to, diff)
	}
}

func letters(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%02d", prefix, i))
	}
	return all
}

// TestOrphansAreNotRead reads every range of a history beside an orphan of
// several batches, of which only the first begins where another begins.
func TestOrphansAreNotRead(t *testing.T) {
	f := newFake()
	d := opened(t, f)
	want := letters("a", 3)
	h := mustAdd(t, d, session.Head{}, want...)
	orphan(t, f, h, "a large one, alone", "another large one", "and a third of them")
	for _, lines := range [][]string{letters("b", 12), letters("c", 1), letters("d", 6)} {
		h = mustAdd(t, d, h, lines...)
		want = append(want, lines...)
	}
	for from := range want {
		for to := from + 1; to <= len(want); to++ {
			wantLines(t, opened(t, f), h, from, to, want[from:to]...)
		}
	}
}

// TestOrphanOfDroppedBase reads, by a head that has been followed, where only
// the batch of a writer that lost has not been removed yet.
func TestOrphanOfDroppedBase(t *testing.T) {
	f := newFake()
	d, behind := opened(t, f), opened(t, f)
	h := mustAdd(t, d, session.Head{}, "a")
	orphan(t, f, h, "x")
	h = mustAdd(t, d, h, "b")
	h = mustAdd(t, d, h, "c")
	if _, err := behind.Head(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(t.Context(), "s", session.Commit{IfRev: h.Rev}); err != nil {
		t.Fatal(err)
	}
	late := &batch{key: keyAt(escapeBase(h.Base), 2, newNonce()), start: 2, first: 2, n: 1, seq: 2, data: [][]byte{[]byte("x")}}
	it := d.encodeBatch("s", late, 0)[0]
	f.items[keyOf(it)] = it
	if got, err := behind.Range(t.Context(), "s", h, 1, 2); !errors.Is(err, session.ErrConflict) {
		t.Errorf("Range of a base that was dropped = %q, %v, want ErrConflict", got, err)
	}
}

// TestDamagedChain removes items by hand. Only their messages are missing, and
// what a writer that lost left does not take their place.
func TestDamagedChain(t *testing.T) {
	f := newFake()
	d := opened(t, f)
	h := mustAdd(t, d, session.Head{}, "a", "b")
	orphan(t, f, h, "x")
	for _, l := range []string{"c", "d", "e"} {
		h = mustAdd(t, d, h, l)
	}
	whole := f.items
	remove := func(missing ...string) {
		f.items = make(map[string]item)
		for key, it := range whole {
			f.items[key] = it
			if b, ok := it[attrData].(*types.AttributeValueMemberB); ok && slices.Contains(missing, string(b.Value)) {
				delete(f.items, key)
			}
		}
	}
	remove("d")
	wantLines(t, d, h, 0, 5, "a", "b", "", "", "e") // c or x: nothing says which
	remove("e")
	wantLines(t, d, h, 0, 5, "a", "b", "c", "d", "")
	remove("c", "d")
	wantLines(t, d, h, 3, 5, "", "e")
	remove("a\nb")
	wantLines(t, d, h, 0, 5, "", "", "c", "d", "e")
}

// TestLoserRemovesItsItems checks that a commit that met another leaves nothing,
// whether or not the server shows what it met.
func TestLoserRemovesItsItems(t *testing.T) {
	for _, lines := range [][]string{letters("x", 1), letters("x", 60)} {
		f := newFake()
		f.oldItems = len(lines) == 1
		d, loser := opened(t, f), opened(t, f)
		h := mustAdd(t, d, session.Head{}, "a")
		if _, err := loser.Head(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		mustAdd(t, d, h, "b")
		before := len(f.items)
		if _, err := addLines(t, loser, h, lines...); !errors.Is(err, session.ErrConflict) {
			t.Fatalf("Commit at an older revision = %v, want ErrConflict", err)
		}
		if len(f.items) != before {
			t.Errorf("a commit of %d lines that lost leaves %d items", len(lines), len(f.items)-before)
		}
	}
}
