package filestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// badNames are names that no session can have. Those without a NUL and of valid
// UTF-8 are IDs all the same.
var badNames = []string{
	"", ".", "..", "../outside", "a/../../outside", "/srv/outside", `..\outside`, "ok/../../../x", "a/b", `a\b`,
	"\x00", "a\x00b", "a\nb", "\xff", strings.Repeat("x", 201), strings.Repeat("x", 300), ".hidden", ".tmp-x", "a.", "a ",
	"con", "CON", "Nul", "aux.txt", "com1", "LPT9.jsonl",
}

// snapshotOf returns all paths below a directory, with what is in the files.
func snapshotOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			all[name] = ""
			return err
		}
		data, err := os.ReadFile(name)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// outsideOf makes a directory beside the base, with a session in it, and a
// symlink in the base that leads there, if there are symlinks.
func outsideOf(t testing.TB) (base, outside string, linked bool) {
	t.Helper()
	top := t.TempDir()
	base, outside = filepath.Join(top, "base"), filepath.Join(top, "outside")
	m := managerAt(t, top, nil)
	say(t, openSession(t, m, "outside"), "private")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(base, 0o700); err != nil {
		t.Fatal(err)
	}
	linked = true
	for _, link := range []string{"link", "folder+"} {
		if err := os.Symlink(outside, filepath.Join(base, link)); err != nil {
			t.Logf("no symlinks here: %v", err)
			linked = false
		}
	}
	return base, outside, linked
}

func TestManagerRefusesBadNames(t *testing.T) {
	base, outside, _ := outsideOf(t)
	before := snapshotOf(t, outside)
	m := managerAt(t, base, nil)
	ok := openSession(t, m, "ok")
	say(t, ok, "hi")
	inBase := snapshotOf(t, base)
	for _, name := range badNames {
		for op, err := range map[string]error{
			"Open":          second(m.Open(name)),
			"LoadSession":   second(m.LoadSession(name)),
			"ShowSession":   second(m.ShowSession(name)),
			"DeleteSession": m.DeleteSession(name),
			"AcquireLock":   second(m.AcquireLock(name)),
			"PutInbox":      second(m.PutInbox(name, "m")),
			"LastReport":    third(m.LastReport(name)),
			"Fork":          second(ok.Fork(name, nil)),
		} {
			var e *session.Error
			if !errors.Is(err, session.ErrInvalidID) || !errors.As(err, &e) {
				t.Errorf("%s(%.20q) = %v, want ErrInvalidID", op, name, err)
			}
		}
		if name != "" {
			if _, err := ok.Compact("x", &CompactOptions{Name: name}); !errors.Is(err, session.ErrInvalidID) {
				t.Errorf("Compact to %.20q = %v, want ErrInvalidID", name, err)
			}
		}
		if m.SessionExists(name) || m.ReadMeta(name) != nil || m.SessionTitle(name) != "" || m.InboxDirFor(name) != "" {
			t.Errorf("%.20q exists", name)
		}
	}
	if diff := cmp.Diff(inBase, snapshotOf(t, base)); diff != "" {
		t.Errorf("the base has changed:\n%s", diff)
	}
	if diff := cmp.Diff(before, snapshotOf(t, outside)); diff != "" {
		t.Errorf("something outside has changed:\n%s", diff)
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// TestStoreKeepsBadNamesInside uses the same names as IDs of a Store, which has
// a session of its own for each.
func TestStoreKeepsBadNamesInside(t *testing.T) {
	base, outside, _ := outsideOf(t)
	before := snapshotOf(t, filepath.Dir(base))
	s, err := New(base, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	if err := s.Save(ctx, "ok", []session.Message{session.UserText("hi")}); err != nil {
		t.Fatal(err)
	}
	for _, id := range badNames {
		valid := session.CheckID(id) == nil
		check := func(op string, err error) {
			if t.Helper(); valid && err != nil || !valid && !errors.Is(err, session.ErrInvalidID) {
				t.Errorf("%s(%.20q) = %v", op, id, err)
			}
		}
		message := session.UserText("of " + id)
		if !valid {
			message = session.UserText("x")
		}
		_, err := s.Append(ctx, id, []session.Message{message}, nil)
		check("Append", err)
		check("Save", s.Save(ctx, id, []session.Message{message, session.UserText("more")}))
		got, err := s.Load(ctx, id)
		check("Load", err)
		if valid && (len(got) != 2 || got[0].Text() != "of "+id) {
			t.Errorf("Load(%.20q) = %v", id, got)
		}
	}
	for _, id := range badNames {
		if session.CheckID(id) != nil {
			continue
		}
		if err := s.Delete(ctx, id, nil); err != nil {
			t.Errorf("Delete(%.20q) = %v", id, err)
		}
		if _, err := session.Fork(ctx, s, "ok", id, nil); err != nil {
			t.Errorf("Fork to %.20q = %v", id, err)
		}
		if err := s.Delete(ctx, id, nil); err != nil {
			t.Errorf("Delete(%.20q) = %v", id, err)
		}
	}
	after := snapshotOf(t, filepath.Dir(base))
	for name := range after {
		if rel, err := filepath.Rel(base, name); err == nil && filepath.IsLocal(rel) {
			delete(after, name)
			delete(before, name)
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("outside of the base something has changed:\n%s", diff)
	}
	entries, err := os.ReadDir(base)
	if err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "ok" }) {
		t.Errorf("the base has %v, %v, want the session in it", entries, err)
	}
	_ = outside
}

// TestSymlinksDontLeadOutside uses sessions whose directories are links out of
// the base.
func TestSymlinksDontLeadOutside(t *testing.T) {
	base, outside, linked := outsideOf(t)
	if !linked {
		t.Skip("no symlinks here")
	}
	before := snapshotOf(t, outside)
	m := managerAt(t, base, nil)
	store := m.Store()
	for op, err := range map[string]error{
		"Open":          second(m.Open("link")),
		"AcquireLock":   second(m.AcquireLock("link")),
		"PutInbox":      second(m.PutInbox("link", "m")),
		"DeleteSession": m.DeleteSession("link"),
		"Append":        second(store.Append(t.Context(), "link", []session.Message{session.UserText("x")}, nil)),
		"Append below":  second(store.Append(t.Context(), "folder/history.jsonl", []session.Message{session.UserText("x")}, nil)),
	} {
		if err == nil {
			t.Errorf("%s of a link out of the base = nil, want an error", op)
		}
	}
	if got, err := m.LoadSession("link"); err == nil || len(got) > 0 {
		t.Errorf("LoadSession of a link out of the base = %v, %v", got, err)
	}
	if got, err := store.Load(t.Context(), "link"); err == nil || len(got) > 0 {
		t.Errorf("Load of a link out of the base = %v, %v", got, err)
	}
	if m.SessionExists("link") || m.ReadMeta("link") != nil {
		t.Error("a link out of the base is a session")
	}
	if list, err := m.ListSessions(); err != nil || len(list) != 0 {
		t.Errorf("ListSessions = %v, %v, want none", list, err)
	}
	if diff := cmp.Diff(before, snapshotOf(t, outside)); diff != "" {
		t.Errorf("something outside has changed:\n%s", diff)
	}

	// Parts of a session that lead outside.
	s := openSession(t, m, "demo")
	for _, part := range []string{historyName, turnName, lockName, InboxSubdir, TmpSubdir} {
		name := filepath.Join(s.Dir(), part)
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(outside, "new"), name); err != nil {
			t.Fatal(err)
		}
	}
	for op, err := range map[string]error{
		"AppendMessages": s.AppendMessages([]session.Message{session.UserText("x")}),
		"Notice":         s.Notice("x"),
		"AcquireLock":    second(s.AcquireLock()),
		"PutInbox":       second(s.PutInbox("x")),
		"Spill":          second(s.Spill("x", make([]byte, 1<<20), nil)),
	} {
		if err == nil {
			t.Errorf("%s through a link out of the base = nil, want an error", op)
		}
	}
	if end, err := s.MarkTurnStart(); err == nil { // which replaces the link
		end()
	}
	if diff := cmp.Diff(before, snapshotOf(t, outside)); diff != "" {
		t.Errorf("something outside has changed:\n%s", diff)
	}
}

// TestSessionThatIsAFile has files where directories should be.
func TestSessionThatIsAFile(t *testing.T) {
	m := newManager(t)
	file := filepath.Join(m.BaseDir(), "demo")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	say(t, openSession(t, m, "other"), "hi")
	if s, err := m.Open("demo"); err == nil {
		t.Errorf("Open of a file = %v, want an error", s)
	}
	if err := m.Store().Save(t.Context(), "demo", nil); err == nil {
		t.Error("Save to a file = nil, want an error")
	}
	if _, err := m.Store().Load(t.Context(), "demo"); err == nil {
		t.Error("Load of a file = nil, want an error")
	}
	if err := m.DeleteSession("demo"); err == nil {
		t.Error("DeleteSession of a file = nil, want an error")
	}
	if list, err := m.ListSessions(); err != nil || len(list) != 1 {
		t.Errorf("ListSessions = %v, %v, want the other session", list, err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

// TestSessionThatMayNotBeRead takes the permissions away.
func TestSessionThatMayNotBeRead(t *testing.T) {
	m := newManager(t)
	say(t, openSession(t, m, "demo"), "hi")
	say(t, openSession(t, m, "other"), "hi")
	again := managerAt(t, m.BaseDir(), nil) // which has no file open yet
	dir := filepath.Join(m.BaseDir(), "demo")
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, dirMode) })
	withoutPrivileges(t, m.BaseDir())
	if got, err := again.Store().Load(t.Context(), "demo"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Load = %v, %v, want ErrPermission", got, err)
	}
	if s, err := again.Open("demo"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Open = %v, %v, want ErrPermission", s, err)
	}
	if err := again.DeleteSession("demo"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("DeleteSession = %v, want ErrPermission", err)
	}
	if got, err := again.LoadSession("other"); err != nil || len(got) != 1 {
		t.Errorf("LoadSession of the other = %v, %v", got, err)
	}
}
