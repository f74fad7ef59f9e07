package dynamostore

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-go/session"
)

// TestKeysSortByPosition checks that a base's keys are in one range, in the
// order of positions, whatever the bases are called.
func TestKeysSortByPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bases := rapid.SliceOfNDistinct(rapid.StringMatching(`[a%/0 é]{1,4}`), 1, 4, rapid.ID[string]).Draw(t, "bases")
		type place struct{ base, position int }
		keys := make(map[string]place)
		for range 20 {
			p := place{rapid.IntRange(0, len(bases)-1).Draw(t, "base"), rapid.SampledFrom([]int{1, 9, 10, 11, 99, 100, maxPosition}).Draw(t, "position")}
			key := keyAt(escapeBase(bases[p.base]), p.position, newNonce())
			keys[key] = p
			keys[partKey(key, 0)], keys[partKey(key, 999)] = p, p
		}
		from := rapid.IntRange(1, 100).Draw(t, "from")
		to := rapid.IntRange(from, maxPosition).Draw(t, "to")
		base := rapid.IntRange(0, len(bases)-1).Draw(t, "which")
		low, high := positionAt(escapeBase(bases[base]), from), behindAt(escapeBase(bases[base]), to)
		for key, p := range keys {
			want := p.base == base && p.position >= from && p.position <= to
			if got := low <= key && key <= high; got != want {
				t.Errorf("%q between %q and %q = %v, want %v", key, low, high, got, want)
			}
			_, b, position, _, ok := parseBatchKey(key)
			if !ok || b != escapeBase(bases[p.base]) || position != p.position {
				t.Errorf("parseBatchKey(%q) = %q, %d, %v, want %q, %d", key, b, position, ok, bases[p.base], p.position)
			}
		}
	})
}

func TestSegmentsComeBack(t *testing.T) {
	segments := []segment{
		{"1-a", 3, keyAt("1-a", 2, "n")}, {"2-%2F", 4, keyAt("2-%2F", 4, "n")}, {"3", maxPosition, keyAt("3", 7, "n")},
	}
	for n := range len(segments) + 1 {
		got, ok := decodeSegments(encodeSegments(segments[:n]))
		if diff := cmp.Diff(segments[:n], got, cmp.AllowUnexported(segment{})); !ok || diff != "" {
			t.Errorf("segments of %d: %v (-want +got):\n%s", n, ok, diff)
		}
	}
	for _, bad := range []string{"x", "x 1", segments[0].key, segments[0].key + " 1", segments[0].key + " x", encodeSegments([]segment{segments[1], segments[0]})} {
		if got, ok := decodeSegments(bad); ok {
			t.Errorf("decodeSegments(%q) = %v, want none", bad, got)
		}
	}
}

// TestSizes compares with sizes from "DynamoDB item sizes and formats": names
// and text in UTF-8 bytes, a number a byte for two digits and one more.
func TestSizes(t *testing.T) {
	for _, test := range []struct {
		it        item
		least, at int // a number may be taken for up to a byte more
	}{
		{item{"a": str("é")}, 3, 3},
		{item{"abc": bin(make([]byte, 100))}, 103, 103},
		{item{"n": num(7)}, 3, 4},
		{item{"n": num(1234)}, 4, 5},
		{item{"a": str("xyz"), "n": num(-1234)}, 9, 10},
	} {
		if got := sizeOf(test.it); got < test.least || got > test.at {
			t.Errorf("sizeOf(%v) = %d, want %d to %d", test.it, got, test.least, test.at)
		}
	}
	for size, want := range map[int]int{1: 1, 1024: 1, 1025: 2, 4096: 4} {
		if got := writeUnits(size); got != want {
			t.Errorf("writeUnits(%d) = %d, want %d", size, got, want)
		}
	}
}

// TestFullHeadCostsOneUnit makes a head as large as it becomes: of a session
// with a usual ID whose writes have keys, with a TTL and older segments.
func TestFullHeadCostsOneUnit(t *testing.T) {
	d, err := newDriver(newFake(), "table", nil)
	if err != nil {
		t.Fatal(err)
	}
	rev := func(n int) string { return fmt.Sprintf("%d-0123456789abcdef", n) }
	st := state{rev: rev(123456) + "k", base: rev(123400), count: 1234567, seq: 123456, listed: stampOf(listStart), until: farRemoval, dirty: farRemoval}
	for i := range maxInHead {
		st.older = append(st.older, segment{rev(123000 + i), 1234000 + i, keyAt(rev(123000+i), 1234000+i, newNonce())})
	}
	st.last = keyAt(rev(123400), 1234567, newNonce())
	h := session.Head{Rev: st.rev, Base: st.base, Count: st.count, Updated: listStart, Expires: listStart.Add(time.Hour), Record: make([]byte, 550)}
	id := "users/0123456789abcdef/01234567-89ab-cdef-0123-456789abcdef"[:36]
	if n := sizeOf(d.encodeHead(id, &st, &h)); n > writeUnit {
		t.Errorf("a full head takes %d bytes, want at most %d", n, writeUnit)
	}
}

func TestHeadsComeBack(t *testing.T) {
	d, err := newDriver(newFake(), "table", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, updated := range []int64{math.MinInt64, -1, 0, 1, math.MaxInt64} {
		st := state{rev: "r", base: "b", seq: 1, meta: []byte("m")}
		h := session.Head{ID: "s", Rev: "r", Base: "b", Updated: time.Unix(0, updated).UTC(), Expires: time.Unix(0, updated/3).UTC(), Record: []byte{0}, Meta: []byte("m")}
		st.listed = stampOf(h.Updated)
		gotState, got, err := decodeHead("s", d.encodeHead("s", &st, &h))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h, got); diff != "" {
			t.Errorf("head (-want +got):\n%s", diff)
		}
		st.older = []segment{}
		if diff := cmp.Diff(st, gotState, cmp.AllowUnexported(state{}, segment{})); diff != "" {
			t.Errorf("state (-want +got):\n%s", diff)
		}
	}
}

// TestBatches checks that lines come back from batches and parts of any size,
// and that no item is larger than it may be.
func TestBatches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, err := newDriver(newFake(), "table", &Options{Uncompressed: rapid.Bool().Draw(t, "uncompressed")})
		if err != nil {
			t.Fatal(err)
		}
		d.batchBytes, d.itemBytes = rapid.IntRange(1, 300).Draw(t, "batch"), rapid.IntRange(200, 500).Draw(t, "item")
		st := state{base: "b/b", count: rapid.IntRange(0, 100).Draw(t, "count"), last: "l", seq: 5}
		lines := rapid.SliceOfN(rapid.SliceOfN(rapid.ByteRange('\n', '\r'), 1, 900), 1, 30).Draw(t, "lines")
		batches, err := d.makeBatches("s", &st, newNonce(), lines)
		if err != nil {
			t.Fatal(err)
		}
		var items []item
		for _, b := range batches {
			items = append(items, d.encodeBatch("s", b, 1)...)
		}
		slices.SortFunc(items, func(a, b item) int { return strings.Compare(textOf(a, attrSK), textOf(b, attrSK)) })
		for _, it := range items {
			if n := sizeOf(it); n > d.itemBytes {
				t.Errorf("an item of %d bytes, want at most %d", n, d.itemBytes)
			}
		}
		var got [][]byte
		position, prev := st.count+1, st.last
		for _, b := range decodeBatches(items) {
			if b.start != position || b.prev != prev || b.first != st.count+1 {
				t.Errorf("batch at %d behind %q of %d, want %d, %q and %d", b.start, b.prev, b.first, position, prev, st.count+1)
			}
			got = append(got, b.lines()...)
			position, prev = b.start+b.n, b.key
		}
		if diff := cmp.Diff(lines, got); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}
