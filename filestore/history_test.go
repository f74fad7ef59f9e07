package filestore

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-go/session"
)

// pieces are what the histories of TestAnyHistory are made of.
var pieces = []string{
	`{"ts":"2026-12-01T03:26:34Z","kind":"message","commit":"A","message":{"role":"user"}}` + "\n",
	`{"ts":"2026-12-01T03:26:34Z","kind":"message","commit":"B","record":"AQ==","message":{"role":"user"}}` + "\n",
	`{"ts":"2026-12-01T03:26:34Z","kind":"message","more":2,"message":{"role":"user","id":"1"}}` + "\n",
	`{"ts":"2026-12-01T03:26:34Z","kind":"message","more":1,"message":{"role":"user","id":"2"}}` + "\n",
	`{"ts":"2026-12-01T03:26:34Z","kind":"message","commit":"C","expires":"2026-12-01T03:26:34Z","message":{"role":"user","id":"3"}}` + "\n",
	`{"ts":"2026-12-01T03:26:34Z","kind":"rollback","dropped":1,"keep":1,"more":1}` + "\n",
	`{"ts":"2026-12-01T03:26:34Z","kind":"rollback","dropped":2,"keep":0,"commit":"D","record":"AQ=="}` + "\n",
	`{"ts":"2026-12-01T03:26:34Z","kind":"rollback","dropped":1}` + "\n",
	`{"ts":"2026-12-01T03:26:34Z","kind":"meta","commit":"E","record":"AQ==","meta":{"title":"t"}}` + "\n",
	`{"ts":"2026-12-01T03:26:34Z","kind":"notice","text":"n"}` + "\n",
	`{"role":"user","content":[{"type":"text","text":"x"}]}` + "\n",
	`{"kind":"of the future"}`, `{"role":"assis`, "\x00\x00\x00", "garbage\n", "\n", " \n", "{}",
}

// TestAnyHistory makes histories of lines, whole and not.
func TestAnyHistory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		var b []byte
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(rt, "pieces") {
			b = append(b, p...)
		}
		checkHistory(t, rt, dir, b, rapid.Uint().Draw(rt, "cut"))
	})
}

// FuzzHistory takes any bytes for a history.
func FuzzHistory(f *testing.F) {
	for i := range pieces {
		f.Add([]byte(pieces[i]+pieces[(i+3)%len(pieces)]), uint(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint) {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "s"), 0o700); err != nil {
			t.Fatal(err)
		}
		checkHistory(t, t, dir, b, cut)
	})
}

// checkHistory reads a history in one go and in two, appends to it, and reads
// it forwards and backwards, which must agree.
func checkHistory(tb testing.TB, t rapid.TB, dir string, b []byte, cut uint) {
	ctx := tb.Context()
	writeFile(tb, historyFile(dir, "s"), b)
	once := history{}
	all := fold{history: &once, report: func(Damage) {}, heads: true}
	if err := all.scan(ctx, bytes.NewReader(b), int64(len(b))); err != nil {
		t.Fatal(err)
	}
	inTwo(t, b, int64(cut%uint(len(b)+1)), &once)
	d := openDriver(tb, dir, &Options{Durability: DurabilityNormal})
	defer d.Close()
	h, err := d.Head(ctx, "s")
	if err != nil || h.Count != once.head.Count && h.Rev != "" {
		t.Fatalf("Head = %+v, %v, want %d messages", h, err, once.head.Count)
	}
	if h.Rev == "" {
		return
	}
	forwards, err := d.Range(ctx, "s", h, 0, max(h.Count, 1))
	if h.Count > 0 && err != nil {
		t.Fatalf("Range: %v", err)
	}
	next := h
	next.Rev, next.Record, next.Appends, next.Count = "1-new", []byte{1}, nil, h.Count+1
	next.Updated = time.Unix(1, 0).UTC()
	if err := d.Commit(ctx, "s", session.Commit{IfRev: h.Rev, Keep: h.Count, Add: [][]byte{[]byte(`{"new":1}`)}, Head: &next}); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	again := openDriver(tb, dir, &Options{Durability: DurabilityNormal})
	defer again.Close()
	for _, d := range []*files{d, again} {
		got, err := d.Head(ctx, "s")
		if err != nil || got.Count != next.Count || got.Rev != next.Rev {
			t.Fatalf("Head after a Commit = %+v, %v, want %+v", got, err, next)
		}
		lines, err := d.Range(ctx, "s", got, 0, got.Count)
		if err != nil || !slices.EqualFunc(lines[:h.Count], forwards[:h.Count], bytes.Equal) || string(lines[h.Count]) != `{"new":1}` {
			t.Fatalf("Range after a Commit = %q, %v, want %q and the new one", lines, err, forwards)
		}
		from := int(cut % uint(got.Count))
		part, err := d.Range(ctx, "s", got, from, got.Count)
		if err != nil || !slices.EqualFunc(part, lines[from:], bytes.Equal) {
			t.Fatalf("Range from %d = %q, %v, want %q", from, part, err, lines[from:])
		}
	}
}

// inTwo reads a history up to some byte, as if the rest were not there yet, and
// then on.
func inTwo(t rapid.TB, b []byte, cut int64, want *history) {
	var h history
	size := int64(len(b))
	for _, end := range []int64{cut, size} {
		r := bytes.NewReader(b)
		if h.bare && !h.ended(r, size) {
			h = history{}
		}
		f := fold{history: &h, report: func(Damage) {}, heads: true, growing: end < size}
		if err := f.scan(context.Background(), r, end); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want.head, h.head); diff != "" || h.lines != want.lines || h.torn != want.torn || h.size != want.size && !h.bare {
		t.Fatalf("%q read in two at %d comes to another history: %d lines, want %d; %d bytes, want %d; head (-want +got):\n%s",
			b, cut, h.lines, want.lines, h.size, want.size, diff)
	}
}
