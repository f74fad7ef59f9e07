package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// reports collects what OnDamage is told.
type reports struct {
	mu  sync.Mutex
	all []Damage
}

func (r *reports) add(d Damage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, d)
}

func (r *reports) take() []Damage {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

func openStore(tb testing.TB, dir string, opts *Options) (*Store, *reports) {
	tb.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	r := &reports{}
	o.OnDamage = r.add
	o.Durability = DurabilityNormal
	s, err := New(dir, &o)
	if err != nil {
		tb.Fatalf("New: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s, r
}

func appendTexts(tb testing.TB, s *Store, id string, texts ...string) {
	tb.Helper()
	var messages []session.Message
	for _, t := range texts {
		messages = append(messages, session.UserText(t))
	}
	if _, err := s.Append(tb.Context(), id, messages, nil); err != nil {
		tb.Fatalf("Append(%q): %v", texts, err)
	}
}

func wantTexts(tb testing.TB, s *Store, id string, want ...string) {
	tb.Helper()
	got, err := s.Load(tb.Context(), id)
	if err != nil {
		tb.Errorf("Load: %v", err)
	}
	if diff := cmp.Diff(want, textsOf(got)); err == nil && diff != "" {
		tb.Errorf("Load (-want +got):\n%s", diff)
	}
}

func readFile(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func writeFile(tb testing.TB, name string, b []byte) {
	tb.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// wholeLines is a history of a, b c (one batch), d, e, f g h (one batch), one line each.
func wholeLines(tb testing.TB) [][]byte {
	tb.Helper()
	dir := tb.TempDir()
	s, _ := openStore(tb, dir, nil)
	appendTexts(tb, s, "s", "a")
	appendTexts(tb, s, "s", "b", "c")
	appendTexts(tb, s, "s", "d")
	appendTexts(tb, s, "s", "e")
	appendTexts(tb, s, "s", "f", "g", "h")
	lines := bytes.SplitAfter(readFile(tb, historyFile(dir, "s")), []byte{'\n'})
	return lines[:len(lines)-1]
}

func half(b []byte) []byte { return b[:len(b)/2] }

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// damageCase is a damaged history, and what is still to be had of it.
type damageCase struct {
	name    string
	history func(l [][]byte) []byte
	meta    string
	load    []string // what Load returns; nil: it is ErrCorrupt
	live    []string // what is whole; nil: the same as load
	line    int      // of the damage that is reported first; 0: there is none
	torn    bool     // of a write that failed, so that it is no damage of the history

	repair []string // and after Repair
}

var damageCases = []damageCase{
	{name: "none", history: func(l [][]byte) []byte { return concat(l[:5]...) },
		load: []string{"a", "b", "c", "d", "e"}},
	{name: "torn last line", history: func(l [][]byte) []byte { return concat(l[0], l[1], l[2], l[3], half(l[4])) },
		load: []string{"a", "b", "c", "d"}, line: 5, torn: true},
	{name: "last line without its line feed", history: func(l [][]byte) []byte { return bytes.TrimSpace(concat(l[:5]...)) },
		load: []string{"a", "b", "c", "d", "e"}},
	{name: "torn batch", history: func(l [][]byte) []byte { return concat(l[0], l[1]) },
		load: []string{"a"}, line: 2, torn: true},
	{name: "torn batch, torn line", history: func(l [][]byte) []byte { return concat(l[0], l[1], half(l[2])) },
		load: []string{"a"}, line: 2, torn: true},
	{name: "torn batch without a line feed", history: func(l [][]byte) []byte { return concat(l[0], bytes.TrimSpace(l[1])) },
		load: []string{"a"}, line: 2, torn: true},
	{name: "NULs at the end", history: func(l [][]byte) []byte { return concat(l[0], make([]byte, 5000)) },
		load: []string{"a"}, line: 2, torn: true},
	{name: "torn line, and others behind an empty one", history: func(l [][]byte) []byte {
		return concat(l[0], l[1], half(l[2]), []byte("\n\n"), l[3], l[4])
	}, load: []string{"a", "d", "e"}, line: 2, torn: true},
	{name: "fused lines", history: func(l [][]byte) []byte { return concat(l[0], half(l[1]), l[3], l[4]) },
		live: []string{"a", "e"}, line: 2, repair: []string{"a", "e", "x"}},
	{name: "fused at the end", history: func(l [][]byte) []byte { return concat(l[0], half(l[3]), l[4]) },
		load: []string{"a"}, line: 2, torn: true},
	{name: "NULs in a line", history: func(l [][]byte) []byte {
		return concat(l[0], l[1], l[2], half(l[3]), make([]byte, 50), l[3][len(l[3])/2+50:], l[4])
	}, live: []string{"a", "b", "c", "e"}, line: 4, repair: []string{"a", "b", "c", "e", "x"}},
	{name: "NULs for lines", history: func(l [][]byte) []byte { return concat(l[0], make([]byte, 5000), []byte{'\n'}, l[4]) },
		live: []string{"a", "e"}, line: 2, repair: []string{"a", "e", "x"}},
	{name: "first line of a batch", history: func(l [][]byte) []byte { return concat(l[0], []byte("}{\n"), l[2], l[3], l[4]) },
		live: []string{"a", "c", "d", "e"}, line: 2, repair: []string{"a", "c", "d", "e", "x"}},
	{name: "last line of a batch", history: func(l [][]byte) []byte { return concat(l[0], l[1], []byte("?\n"), l[3], l[4]) },
		live: []string{"a", "b", "d", "e"}, line: 3, repair: []string{"a", "b", "d", "e", "x"}},
	{name: "line in a batch", history: func(l [][]byte) []byte { return concat(l[1], l[2], l[5], l[6][1:], l[7], l[5], l[6], l[7]) },
		live: []string{"b", "c", "f", "h", "f", "g", "h"}, line: 4, repair: []string{"b", "c", "f", "h", "f", "g", "h", "x"}},
	{name: "not JSON", history: func(l [][]byte) []byte {
		return concat(l[0], []byte("<<<<<<< HEAD\n=======\n"), l[3], []byte(">>>>>>> other\n"), l[4])
	}, live: []string{"a", "d", "e"}, line: 2, repair: []string{"a", "d", "e", "x"}},
	{name: "not an object", history: func(l [][]byte) []byte { return concat(l[0], []byte("[1]\n"), l[4]) },
		live: []string{"a", "e"}, line: 2, repair: []string{"a", "e", "x"}},
	{name: "not a message", history: func(l [][]byte) []byte {
		return concat(l[0], bytes.Replace(l[3], []byte(`"content":[`), []byte(`"content":[7,`), 1), l[4])
	}, live: []string{"a", "e"}, line: 2},
	{name: "all of it", history: func([][]byte) []byte { return []byte("one\ntwo\n") },
		load: []string{}, line: 1, torn: true},
	{name: "empty", history: func([][]byte) []byte { return []byte{} }, load: []string{}},
	{name: "a line of 50 MB", history: func(l [][]byte) []byte {
		return concat(l[0], bytes.Replace(l[3], []byte(`"text":"d"`), []byte(`"text":"`+strings.Repeat("y", 50<<20)+`"`), 1), l[4])
	}, load: []string{"a", strings.Repeat("y", 50<<20), "e"}},
	{name: "50 MB that are no line", history: func(l [][]byte) []byte {
		return concat(l[0], bytes.Repeat([]byte("z"), 50<<20), []byte("\n"), l[4])
	}, live: []string{"a", "e"}, line: 2, repair: []string{"a", "e", "x"}},
	{name: "meta.json is not JSON", meta: "{bad json", history: func(l [][]byte) []byte { return concat(l[:5]...) },
		load: []string{"a", "b", "c", "d", "e"}},
	{name: "meta.json is empty", meta: " ", history: func(l [][]byte) []byte { return concat(l[:5]...) },
		load: []string{"a", "b", "c", "d", "e"}},
	{name: "meta.json is of NULs", meta: strings.Repeat("\x00", 64), history: func(l [][]byte) []byte { return concat(l[:5]...) },
		load: []string{"a", "b", "c", "d", "e"}},
	{name: "meta.json has a bare head", meta: `{"head":{"size":12}}`, history: func(l [][]byte) []byte { return concat(l[:5]...) },
		load: []string{"a", "b", "c", "d", "e"}},
}

// TestDamage states what is still to be had of damaged files: that Load returns
// what was acknowledged or an error that says where it is damaged, that
// OnDamage is told, that everything whole can be read, that reading changes
// nothing, that appends stand on fresh lines, and that Repair keeps all bytes.
func TestDamage(t *testing.T) {
	l := wholeLines(t)
	for _, tc := range damageCases {
		t.Run(tc.name, func(t *testing.T) {
			if testing.Short() && strings.Contains(tc.name, "50 MB") {
				t.Skip("large")
			}
			t.Parallel()
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "s"), 0o700); err != nil {
				t.Fatal(err)
			}
			file := historyFile(dir, "s")
			history := tc.history(l)
			writeFile(t, file, history)
			if tc.meta != "" {
				writeFile(t, filepath.Join(dir, "s", metaName), []byte(tc.meta))
			}
			tc.read(t, dir)
			if !bytes.Equal(readFile(t, file), history) {
				t.Error("reading has changed the history")
			}
			tc.appendTo(t, dir, history)
			tc.repairIn(t, dir, history)
		})
	}
}

// read reads a damaged session.
func (tc *damageCase) read(t *testing.T, dir string) {
	s, told := openStore(t, dir, nil)
	for range 2 {
		got, err := s.Load(t.Context(), "s")
		if tc.load != nil {
			if diff := cmp.Diff(tc.load, textsOf(got), nilIsEmpty); err != nil || diff != "" {
				t.Errorf("Load = %v (-want +got):\n%.2000s", err, diff)
			}
			continue
		}
		var d *Damage
		if !errors.Is(err, session.ErrCorrupt) || !errors.As(err, &d) || d.Line != tc.line || d.File != "s/history.jsonl" || len(got) > 0 {
			t.Errorf("Load = %d messages, %v, want ErrCorrupt of line %d", len(got), err, tc.line)
		}
	}
	reported := told.take()
	isMeta := func(d Damage) bool { return d.File == "s/meta.json" }
	if tc.meta != "" && !strings.HasPrefix(tc.meta, "{\"") && !slices.ContainsFunc(reported, isMeta) {
		t.Errorf("OnDamage was told %v, want that meta.json is damaged", reported)
	}
	reported = slices.DeleteFunc(reported, isMeta)
	if tc.line > 0 != (len(reported) > 0) || len(reported) > 0 && (reported[0].Line != tc.line || reported[0].File != "s/history.jsonl") {
		t.Errorf("OnDamage was told %v, want line %d", reported, tc.line)
	}
	live, damage, err := s.liveMessages(t.Context(), "s")
	want := tc.live
	if want == nil {
		want = tc.load
	}
	if diff := cmp.Diff(want, textsOf(live), nilIsEmpty); err != nil || diff != "" {
		t.Errorf("liveMessages = %v (-want +got):\n%.2000s", err, diff)
	}
	if tc.load == nil && (len(damage) == 0 || damage[0].Line != tc.line) {
		t.Errorf("liveMessages tells of %v, want line %d", damage, tc.line)
	}
	for info, err := range s.List(t.Context(), nil) {
		if err != nil || info.ID != "s" {
			t.Errorf("List: %q, %v", info.ID, err)
		}
	}
}

var nilIsEmpty = cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })

// appendTo appends to a damaged session through a new handle, and reads it
// through another.
func (tc *damageCase) appendTo(t *testing.T, dir string, history []byte) {
	s, _ := openStore(t, dir, nil)
	appendTexts(t, s, "s", "x")
	after := readFile(t, historyFile(dir, "s"))
	if !bytes.HasPrefix(after, history) {
		t.Error("an append has changed what was there")
	}
	last := bytes.Split(bytes.TrimSuffix(after, []byte{'\n'}), []byte{'\n'})
	if got, ok := parseLine(last[len(last)-1]); !ok || !bytes.Contains(got.message, []byte(`"x"`)) {
		t.Errorf("the last line is %.200q, want the new message on a line of its own", last[len(last)-1])
	}
	again, _ := openStore(t, dir, nil)
	for _, s := range []*Store{s, again} {
		if tc.load != nil {
			wantTexts(t, s, "s", append(tc.load[:len(tc.load):len(tc.load)], "x")...)
		} else if got, err := s.Load(t.Context(), "s"); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("Load after an append = %d messages, %v, want ErrCorrupt", len(got), err)
		}
		snap, err := s.Read(t.Context(), "s", &session.ReadOptions{Last: 1})
		if err != nil || len(snap.Messages) != 1 || snap.Messages[0].Text() != "x" {
			t.Errorf("Read of the last message = %v, %v, want x", textsOf(snap.Messages), err)
		}
	}
}

// repairIn repairs a damaged session.
func (tc *damageCase) repairIn(t *testing.T, dir string, history []byte) {
	s, _ := openStore(t, dir, nil)
	before := readFile(t, historyFile(dir, "s"))
	info, err := s.Info(t.Context(), "s")
	if err != nil {
		t.Fatalf("Info: %v", err)
	}
	found, err := s.Repair(t.Context(), "s")
	if err != nil {
		t.Fatalf("Repair: %v", err)
	}
	aside, err := filepath.Glob(filepath.Join(dir, "s", "*.damaged-*"))
	if err != nil {
		t.Fatal(err)
	}
	if tc.repair == nil && tc.load == nil {
		return // lines that are whole, but hold no message, are left to the caller
	}
	if want := tc.line > 0 || tc.meta != "" && !strings.HasPrefix(tc.meta, "{\""); want != (len(found) > 0) || want != (len(aside) > 0) {
		t.Errorf("Repair found %v and made %q, want some: %t", found, aside, want)
	}
	if len(found) == 0 && !bytes.Equal(before, readFile(t, historyFile(dir, "s"))) {
		t.Error("Repair of nothing has changed the history")
	}
	if want := tc.repair; want != nil {
		wantTexts(t, s, "s", want...)
		after, err := s.Info(t.Context(), "s")
		if err != nil || after.Version == info.Version || after.Messages != len(want) {
			t.Errorf("Info after Repair = %+v, %v, want another version than %s and %d messages", after, err, info.Version, len(want))
		}
	} else {
		wantTexts(t, s, "s", append(tc.load[:len(tc.load):len(tc.load)], "x")...)
	}
	for _, d := range found {
		if d.Line == 0 {
			continue
		}
		if kept := concatFiles(t, aside); !bytes.Contains(kept, before[d.Offset:d.Offset+d.Length]) {
			t.Errorf("%v is not in %q", &d, aside)
		}
	}
	if again, err := s.Repair(t.Context(), "s"); err != nil || len(again) > 0 {
		t.Errorf("Repair again = %v, %v, want nothing", again, err)
	}
	appendTexts(t, s, "s", "y")
	other, told := openStore(t, dir, nil)
	got, err := other.Load(t.Context(), "s")
	if n := len(got); err != nil || n < 2 || got[n-1].Text() != "y" || len(told.take()) > 0 {
		t.Errorf("Load after Repair and an append = %d messages, %v, want the appended last and no damage", n, err)
	}
}

func concatFiles(t *testing.T, names []string) (all []byte) {
	for _, n := range names {
		all = append(all, readFile(t, n)...)
	}
	return all
}

// TestLostHistory checks that a history that is gone is not taken for an empty
// one.
func TestLostHistory(t *testing.T) {
	for _, lose := range []func(name string) error{os.Remove, func(name string) error { return os.Truncate(name, 0) }} {
		dir := t.TempDir()
		s, _ := openStore(t, dir, nil)
		appendTexts(t, s, "s", "a")
		appendTexts(t, s, "other", "a")
		if _, err := s.Update(t.Context(), "s", func(m *session.Meta) error { m.Title = "t"; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := lose(historyFile(dir, "s")); err != nil {
			t.Fatal(err)
		}
		s, _ = openStore(t, dir, nil)
		if got, err := s.Load(t.Context(), "s"); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("Load = %d messages, %v, want ErrCorrupt", len(got), err)
		}
		if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText("b")}, nil); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("Append = %v, want ErrCorrupt", err)
		}
		var listed []string
		var after *session.Info
		for range 4 { // List stops at the damaged one, and goes on behind it
			done := true
			for info, err := range s.List(t.Context(), &session.ListOptions{After: after}) {
				if err == nil {
					listed = append(listed, info.ID)
					continue
				}
				listed, after, done = append(listed, "damaged "+info.ID), &info, false
			}
			if done {
				break
			}
		}
		slices.Sort(listed)
		if diff := cmp.Diff([]string{"damaged s", "other"}, listed); diff != "" {
			t.Errorf("List (-want +got):\n%s", diff)
		}
		if found, err := s.Repair(t.Context(), "s"); err != nil || len(found) == 0 {
			t.Errorf("Repair = %v, %v", found, err)
		}
		appendTexts(t, s, "s", "b")
		wantTexts(t, s, "s", "b")
	}
}

// TestForeignLines reads and goes on with what others have written.
func TestForeignLines(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, historyFile(dir, "s"), []byte(strings.Join([]string{
		`{"role":"user","content":[{"type":"text","text":"bare"}]}`,
		`{"ts":"2026-01-02T03:04:05Z","kind":"settings","model":"m"}`,
		`{"ts":"2026-01-02T03:04:05+01:00","kind":"message","message":{"role":"assistant","content":[{"type":"text","text":"b"}]}}`,
		`{"ts":"2026-01-02T03:04:06Z","kind":"message","message":{"role":"user","content":[{"type":"text","text":"c"}]}}`,
		`{"ts":"2026-01-02T03:04:07Z","kind":"rollback","dropped":1}`,
		`{ "kind": "message", "message": {"role":"user","content":[{"type":"text","text":"d"}]}, "ts": "2026-01-02T03:04:08Z" }`,
		`{"kind":"of the future","x":[1]}`,
		`{"kind":"tool_result","tool":"read","ms":5,"message":{"role":"tool","content":[{"type":"tool_result","tool_use_id":"1"}]}}`,
	}, "\n")))
	writeFile(t, filepath.Join(dir, "s", metaName), []byte(`{"name":"s","title":"by hand","mine":7}`))
	var versions []session.Version
	for range 2 {
		s, told := openStore(t, dir, nil)
		wantTexts(t, s, "s", "bare", "b", "d", "")
		info, err := s.Info(t.Context(), "s")
		if err != nil || info.Title != "by hand" || info.Messages != 4 {
			t.Errorf("Info = %+v, %v", info, err)
		}
		versions = append(versions, info.Version)
		if d := told.take(); len(d) > 0 {
			t.Errorf("damage: %v", d)
		}
	}
	if versions[0] != versions[1] {
		t.Errorf("versions %q and %q of two handles, want the same", versions[0], versions[1])
	}
	s, _ := openStore(t, dir, nil)
	if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText("x")}, &session.WriteOptions{IfVersion: versions[0], Key: "k"}); err != nil {
		t.Errorf("Append with IfVersion: %v", err)
	}
	if _, err := s.Update(t.Context(), "s", func(m *session.Meta) error { m.Model = "m"; return nil }); err != nil {
		t.Errorf("Update: %v", err)
	}
	again, _ := openStore(t, dir, nil)
	wantTexts(t, again, "s", "bare", "b", "d", "", "x")
	if _, err := again.Append(t.Context(), "s", []session.Message{session.UserText("x")}, &session.WriteOptions{Key: "k"}); err != nil {
		t.Errorf("Append with the same Key: %v", err)
	}
	wantTexts(t, again, "s", "bare", "b", "d", "", "x")
	if b := readFile(t, filepath.Join(dir, "s", metaName)); !bytes.Contains(b, []byte(`"mine": 7`)) {
		t.Errorf("meta.json has lost a member that is not known:\n%s", b)
	}
	fmt.Fprintln(t.Output(), string(readFile(t, historyFile(dir, "s"))))
}

// TestGarbageInBetween lets garbage slip in between a writer's look at the file
// and its write. The writer's next commit counts from where it thinks it is, and
// must not drop a message for that.
func TestGarbageInBetween(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, nil)
	appendTexts(t, s, "s", "a")
	write := s.driver.hooks.write
	s.driver.hooks.write = func(f *os.File, b []byte) (int, error) {
		if _, err := f.WriteString("garbage\n"); err != nil {
			t.Error(err)
		}
		return write(f, b)
	}
	appendTexts(t, s, "s", "b")
	s.driver.hooks.write = write
	appendTexts(t, s, "s", "c")
	live, damage, err := s.liveMessages(t.Context(), "s")
	if diff := cmp.Diff([]string{"a", "b", "c"}, textsOf(live)); err != nil || diff != "" || len(damage) != 1 || damage[0].Line != 2 {
		t.Errorf("liveMessages: damage %v, %v (-want +got):\n%s", damage, err, diff)
	}
}

// TestLineGoesOn appends to a line that had no line feed, as an editor might.
func TestLineGoesOn(t *testing.T) {
	for _, more := range []string{"\n", "\n" + `{"role":"user","content":[]}`, `{"role":"user"}` + "\n", " \n"} {
		dir := t.TempDir()
		s, _ := openStore(t, dir, nil)
		appendTexts(t, s, "s", "a")
		b := append(readFile(t, historyFile(dir, "s")), `{"role":"user","content":[{"type":"text","text":"b"}]}`...)
		writeFile(t, historyFile(dir, "s"), b)
		wantTexts(t, s, "s", "a", "b")
		writeFile(t, historyFile(dir, "s"), append(b, more...))
		again, _ := openStore(t, dir, nil)
		want, wantErr := again.Load(t.Context(), "s")
		got, err := s.Load(t.Context(), "s")
		if (err == nil) != (wantErr == nil) || !cmp.Equal(textsOf(want), textsOf(got)) {
			t.Errorf("Load = %q, %v, through a new handle %q, %v", textsOf(got), err, textsOf(want), wantErr)
		}
	}
}
