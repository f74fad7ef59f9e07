package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

func TestOpenURL(t *testing.T) {
	t.Chdir(t.TempDir())
	abs, err := filepath.Abs("abs")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		url  string
		dir  string // that must exist; empty: none
		want error
	}{
		{"file:rel", "rel", nil},
		{"file:a%20b%3Fc/d", "a b?c/d", nil},
		{"file:" + abs, "abs", nil},
		{"file://" + filepath.ToSlash(abs) + "2", "abs2", nil},
		{"FILE:opts?ttl=24h&durability=normal&max_batch_bytes=1000&max_open_files=7", "opts", nil},
		{"file:x?durability=none", "", session.ErrInvalidOption},
		{"file:x?ttl=1", "", session.ErrInvalidOption},
		{"file:x?max_open_files=-1", "", session.ErrInvalidOption},
		{"file:x?tll=1h", "", session.ErrInvalidOption},
		{"file://host/x", "", session.ErrInvalidOption},
		{"file:", "", session.ErrInvalidOption},
		{"sqlite:x", "", session.ErrInvalidOption},
	} {
		b, err := OpenURL(t.Context(), tc.url)
		if !errors.Is(err, tc.want) || err != nil && b != nil {
			t.Errorf("OpenURL(%q) = %v, %v, want %v", tc.url, b, err, tc.want)
		}
		if err != nil {
			continue
		}
		if info, err := os.Stat(tc.dir); err != nil || !info.IsDir() {
			t.Errorf("OpenURL(%q): %v", tc.url, err)
		}
		if o := b.(*Store).opts; strings.Contains(tc.url, "ttl") &&
			(o.TTL != 24*time.Hour || o.Durability != DurabilityNormal || o.MaxBatchBytes != 1000 || o.MaxOpenFiles != 7) {
			t.Errorf("OpenURL(%q): options %+v", tc.url, o)
		}
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// TestMaxOpenFiles uses more sessions than files may be open.
func TestMaxOpenFiles(t *testing.T) {
	const most = 5
	s, _ := openStore(t, t.TempDir(), &Options{MaxOpenFiles: most})
	for round := range 3 {
		for i := range 40 {
			appendTexts(t, s, fmt.Sprint(i), fmt.Sprint(round))
			if n := s.driver.opened.Len(); n > most {
				t.Fatalf("%d files are open, want at most %d", n, most)
			}
		}
	}
	for info, err := range s.List(t.Context(), nil) {
		if err != nil || info.Messages != 3 {
			t.Errorf("List: %+v, %v", info, err)
		}
	}
	if n := s.driver.opened.Len(); n > most {
		t.Errorf("%d files are open after List, want at most %d", n, most)
	}
}

// TestReplacedByHand removes, moves and restores a session's directory under
// the hands of a store that has it open.
func TestReplacedByHand(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, nil)
	at := filepath.Join(dir, "s")
	appendTexts(t, s, "s", "a")
	if err := os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(at)); err != nil {
		t.Fatal(err)
	}
	appendTexts(t, s, "s", "b")
	wantTexts(t, s, "copy", "a")
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, s, "s", []string(nil)...)
	if err := os.CopyFS(at, os.DirFS(filepath.Join(dir, "copy"))); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, s, "s", "a")
	appendTexts(t, s, "s", "c")
	if err := os.Rename(at, filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	s.driver.logs["s"].checked = time.Time{} // as it is after a second
	wantTexts(t, s, "s", []string(nil)...)
	wantTexts(t, s, "moved", "a", "c")
	appendTexts(t, s, "s", "new")
	wantTexts(t, s, "s", "new")
}

// TestSweep removes what has expired, and what was left behind.
func TestSweep(t *testing.T) {
	now := time.Now().UTC()
	dir := t.TempDir()
	s, _ := openStore(t, dir, &Options{TTL: time.Hour, Clock: func() time.Time { return now }})
	appendTexts(t, s, "old", "a")
	appendTexts(t, s, "f/old", "a")
	appendTexts(t, s, "mail", "a")
	if err := os.Mkdir(filepath.Join(dir, "mail", InboxSubdir), dirMode); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "mail", InboxSubdir, "note"), []byte("x"))
	if _, err := s.Lock(t.Context(), "old", nil); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	appendTexts(t, s, "new", "a")
	for _, name := range []string{trashPrefix + "x", filepath.Join("new", tempPrefix+"x")} {
		name = filepath.Join(dir, name)
		writeFile(t, name, []byte("x"))
		if err := os.Chtimes(name, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Sweep(t.Context()); n != 2 || err != nil {
		t.Errorf("Sweep = %d, %v, want 2", n, err)
	}
	var left []string
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		if err == nil && !e.IsDir() && e.Name() != "lock" {
			left = append(left, filepath.ToSlash(rel))
		}
		return err
	})
	if diff := cmp.Diff([]string{"mail/history.jsonl", "mail/inbox/note", "new/history.jsonl"}, left); err != nil || diff != "" {
		t.Errorf("files after Sweep (-want +got), %v:\n%s", err, diff)
	}
	wantTexts(t, s, "new", "a")
}

// TestCheckpoint reads only what is behind a checkpoint, and ignores one that
// does not fit.
func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, nil)
	for i := range 40 {
		appendTexts(t, s, "s", fmt.Sprint(i, strings.Repeat("x", 3000)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := readMeta(rootOf(t, dir), "s")
	if err != nil {
		t.Fatal(err)
	}
	c, ok := checkpointOf(m)
	if info, err := os.Stat(historyFile(dir, "s")); err != nil || !ok || c.Size != info.Size() || c.Count != 40 {
		t.Errorf("checkpoint %+v, %t of a history of %d bytes", c, ok, info.Size())
	}
	s, _ = openStore(t, dir, nil)
	info, err := s.Info(t.Context(), "s")
	if err != nil || info.Messages != 40 {
		t.Errorf("Info = %+v, %v", info, err)
	}
	if l := s.driver.logs["s"]; l.history.indexed != 40 {
		t.Errorf("the history was read from message %d on, want none of it", l.history.indexed)
	}
	// Another history of the same length.
	b := readFile(t, historyFile(dir, "s"))
	lines := strings.SplitAfter(string(b), "\n")
	lines[38], lines[39] = lines[39], lines[38]
	writeFile(t, historyFile(dir, "s"), []byte(strings.Join(lines[:39], "")+"\n"+strings.Repeat("\n", len(lines[39])-1)))
	s, told := openStore(t, dir, nil)
	if got, err := s.Load(t.Context(), "s"); err != nil || len(got) != 39 || len(told.take()) != 1 {
		t.Errorf("Load = %d messages, %v, want 39 and that the checkpoint does not fit", len(got), err)
	}
}

func rootOf(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// TestEvents reads a transcript with everything in it.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, nil)
	m, err := s.Manager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ses := openSession(t, m, "s")
	think := true
	ms := []session.Message{session.UserText("a"), session.UserText("b")}
	for _, do := range []func() error{
		func() error { return ses.AppendMessages(ms) },
		func() error { return ses.Settings("m", think, []string{"read"}) },
		func() error { return ses.Append(Event{Kind: KindToolResult, Tool: "read", MS: 7, Message: &ms[0]}) },
		func() error { return ses.Rollback(2) },
		func() error { return ses.Notice("n") },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(historyFile(dir, "s"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "garbage\n", `{"ts":"2026-01-02T03:04:05Z","kind":"future"}`, "\n", `{"role":"user","content":[{"type":"text","text":"c"}]}`, "\n", "torn")
	f.Close()
	var got []string
	for e, err := range ses.Events(t.Context()) {
		var d *Damage
		switch {
		case errors.As(err, &d):
			got = append(got, fmt.Sprint("damage in line ", d.Line))
		case err != nil:
			t.Fatal(err)
		case e.Message != nil:
			got = append(got, fmt.Sprint(e.Kind, " ", e.Message.Text(), " ", e.Tool, " ", e.MS))
		default:
			got = append(got, fmt.Sprint(e.Kind, " ", e.Text, e.Model, " ", e.Tools, " ", e.Dropped))
		}
	}
	want := []string{
		"message a  0", "message b  0", "settings m [read] 0", "tool_result a read 7", "rollback  [] 2", "notice n [] 0",
		"damage in line 7", "future  [] 0", "message c  0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
	for range ses.Events(t.Context()) {
		break
	}
}

// TestAppendsToFollow checks that a reader who has only the history gets a
// bounded number of appends with the head.
func TestAppendsToFollow(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, nil)
	for i := range 3*recordCommits + 10 {
		appendTexts(t, s, "s", fmt.Sprint(i))
	}
	for range 5 {
		appendTexts(t, s, "large", strings.Repeat("x", recordBytes/2))
	}
	d := openDriver(t, dir, nil)
	defer d.Close()
	for id, most := range map[string]int{"s": recordCommits, "large": 2} {
		if h, err := d.Head(t.Context(), id); err != nil || len(h.Appends) == 0 || len(h.Appends) > most {
			t.Errorf("Head(%q) has %d appends, %v, want 1 to %d", id, len(h.Appends), err, most)
		}
	}
}

// TestReadOnlyHistory reads a history that can't be written, and leaves it so.
func TestReadOnlyHistory(t *testing.T) {
	dir := t.TempDir()
	withoutPrivileges(t, filepath.Dir(dir)) // the superuser may write it
	s, _ := openStore(t, dir, nil)
	appendTexts(t, s, "s", "a")
	if err := os.Chmod(historyFile(dir, "s"), 0o400); err != nil {
		t.Fatal(err)
	}
	s, _ = openStore(t, dir, nil)
	wantTexts(t, s, "s", "a")
	if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText("b")}, nil); !errors.Is(err, os.ErrPermission) {
		t.Errorf("Append = %v, want ErrPermission", err)
	}
	wantTexts(t, s, "s", "a")
	if err := os.Chmod(historyFile(dir, "s"), 0o600); err != nil {
		t.Fatal(err)
	}
	appendTexts(t, s, "s", "c")
	wantTexts(t, s, "s", "a", "c")
}
