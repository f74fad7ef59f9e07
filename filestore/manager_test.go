package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

func newManager(t testing.TB) *Manager { return newManagerWith(t, nil) }

func newManagerWith(t testing.TB, opts *Options) *Manager { return managerAt(t, t.TempDir(), opts) }

func managerAt(t testing.TB, base string, opts *Options) *Manager {
	t.Helper()
	s, err := New(base, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	m, err := s.Manager()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func openSession(t testing.TB, m *Manager, name string) *Session {
	t.Helper()
	s, err := m.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func load(t testing.TB, s *Session) []session.Message {
	t.Helper()
	messages, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func say(t testing.TB, s *Session, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := s.AppendMessages([]session.Message{session.UserText(text)}); err != nil {
			t.Fatal(err)
		}
	}
}

func textsOf(messages []session.Message) (t []string) {
	for _, m := range messages {
		t = append(t, m.Text())
	}
	return t
}

func TestNewManager(t *testing.T) {
	base := filepath.Join(t.TempDir(), "a", "b")
	t.Setenv(DirVar, base)
	m, err := NewManager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.BaseDir() != base {
		t.Errorf("BaseDir = %q, want %q", m.BaseDir(), base)
	}
	info, err := os.Stat(base)
	if err != nil || info.Mode().Perm() != dirMode {
		t.Errorf("the directory has mode %v, %v, want %o", info.Mode(), err, dirMode)
	}
	s, err := Open("demo")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(base, "demo"); s.Dir() != want {
		t.Errorf("Dir = %q, want %q", s.Dir(), want)
	}
	say(t, s, "hi")
	if got, err := m.LoadSession("demo"); err != nil || len(got) != 1 {
		t.Errorf("LoadSession = %v, %v, want what Open's session has", got, err)
	}
	t.Setenv(DirVar, "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", "relative")
	if dir, err := defaultDir(); err != nil || !filepath.IsAbs(dir) || !strings.HasSuffix(dir, filepath.Join("session", "sessions")) {
		t.Errorf("defaultDir = %q, %v", dir, err)
	}
}

func TestNewManagerInRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "x")} {
		if m, err := NewManagerIn(dir); err == nil {
			m.Close()
			t.Errorf("NewManagerIn(%q) = nil, want an error", dir)
		}
	}
}

func TestGenerateSessionName(t *testing.T) {
	m := newManager(t)
	seen := make(map[string]bool)
	for range 100 {
		name := m.GenerateSessionName()
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\d-[a-z0-9]{6}$`).MatchString(name) || seen[name] {
			t.Errorf("GenerateSessionName = %q", name)
		}
		if err := checkName(name); err != nil || mustDir(name) != name {
			t.Errorf("%q is stored as %q, %v", name, mustDir(name), err)
		}
		seen[name] = true
	}
}

func TestSessionsThatDoNotExist(t *testing.T) {
	m := newManager(t)
	if m.SessionExists("none") {
		t.Error("SessionExists = true")
	}
	if got, err := m.LoadSession("none"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("LoadSession = %v, %v, want ErrNotFound", got, err)
	}
	if got, err := m.ShowSession("none"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("ShowSession = %q, %v, want ErrNotFound", got, err)
	}
	if got := m.ReadMeta("none"); got != nil {
		t.Errorf("ReadMeta = %v, want nil", got)
	}
	if got := m.SessionTitle("none"); got != "" {
		t.Errorf("SessionTitle = %q", got)
	}
	if rep, current, err := m.LastReport("none"); rep != nil || current || err != nil {
		t.Errorf("LastReport = %v, %v, %v, want none and no error", rep, current, err)
	}
	if err := m.DeleteSession("none"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("DeleteSession = %v, want ErrNotFound", err)
	}
	if name, err := m.MostRecent(); name != "" || err != nil {
		t.Errorf("MostRecent = %q, %v, want none", name, err)
	}
	if list, err := m.ListSessions(); len(list) != 0 || err != nil {
		t.Errorf("ListSessions = %v, %v, want none", list, err)
	}
	if entries, err := os.ReadDir(m.BaseDir()); err != nil || len(entries) != 0 {
		t.Errorf("looking has created %v, %v", entries, err)
	}
}

func TestListSessions(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	m := newManagerWith(t, &Options{Clock: func() time.Time { now = now.Add(time.Second); return now }})
	for _, name := range []string{"a", "B", "c"} {
		say(t, openSession(t, m, name), "hi", "there")
	}
	b := openSession(t, m, "B")
	b.Meta().Title = "the B"
	if err := b.SaveMeta(); err != nil {
		t.Fatal(err)
	}
	openSession(t, m, "opened-only")
	if err := openSession(t, m, "noticed").Notice("n"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.BaseDir(), "flat.jsonl"), []byte(`{"role":"user","content":"x"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// None of these is a session.
	for _, dir := range []string{"Upper", ".tmp-x", "folder+", "x y"} {
		if err := os.Mkdir(filepath.Join(m.BaseDir(), dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	list, err := m.ListSessions()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]SessionInfo)
	for i, s := range list {
		got[s.Name] = s
		if i > 0 && list[i-1].ModTime.Before(s.ModTime) {
			t.Errorf("%s stands behind the older %s", s.Name, list[i-1].Name)
		}
		if s.ModTime.IsZero() {
			t.Errorf("%s has no time", s.Name)
		}
		s.ModTime = time.Time{}
		got[s.Name] = s
	}
	want := map[string]SessionInfo{
		"a": {Name: "a", MessageCount: 2}, "B": {Name: "B", MessageCount: 2, Title: "the B"}, "c": {Name: "c", MessageCount: 2},
		"noticed": {Name: "noticed"}, "flat": {Name: "flat", MessageCount: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ListSessions (-want +got):\n%s", diff)
	}
	if err := os.Remove(filepath.Join(m.BaseDir(), "flat.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := m.DeleteSession("noticed"); err != nil { // its time is the file's
		t.Fatal(err)
	}
	if name, err := m.MostRecent(); name != "B" || err != nil {
		t.Errorf("MostRecent = %q, %v, want B, whose Meta was written last", name, err)
	}
}

func TestDeleteSession(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	say(t, s, "hi")
	if _, err := s.PutInbox("m"); err != nil {
		t.Fatal(err)
	}
	say(t, openSession(t, m, "other"), "hi")
	if err := m.DeleteSession("demo"); err != nil {
		t.Fatal(err)
	}
	openSession(t, m, "empty")
	if err := m.DeleteSession("empty"); err != nil {
		t.Errorf("DeleteSession of one without history = %v", err)
	}
	entries, err := os.ReadDir(m.BaseDir())
	if err != nil || len(entries) != 1 || entries[0].Name() != "other" {
		t.Errorf("left: %v, %v, want the other session", entries, err)
	}
	if err := m.DeleteSession("demo"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a second DeleteSession = %v, want ErrNotFound", err)
	}
}

func TestShowSession(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	s.Meta().Title = "A title"
	if err := s.SaveMeta(); err != nil {
		t.Fatal(err)
	}
	err := s.AppendMessages([]session.Message{
		session.SystemText("secret"), session.UserText(strings.Repeat("é", 600)),
		session.NewMessage(session.RoleAssistant, session.Text("reading"), session.ToolUse("c1", "read", `{"path":"x"}`)),
		session.ToolResults(session.ToolError("c1", "read", "no such file")),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.ShowSession("demo")
	want := "Session: demo (4 messages)\nTitle: A title\n" + strings.Repeat("─", 50) + `

[system] (6 bytes)

[user]
` + strings.Repeat("é", 499) + `…

[assistant]
reading
(calls read)

[tool: read] (result of 12 bytes, an error)
`
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ShowSession, %v (-want +got):\n%s", err, diff)
	}
}

// TestManagerAndStoreAgree checks that both faces show the same sessions.
func TestManagerAndStoreAgree(t *testing.T) {
	m := newManager(t)
	store := m.Store()
	s := openSession(t, m, "Demo")
	say(t, s, "from the session")
	before, err := store.Info(t.Context(), "Demo")
	if err != nil {
		t.Fatal(err)
	}
	v, err := store.Append(t.Context(), "Demo", []session.Message{session.AssistantText("from the store")}, &session.WriteOptions{IfVersion: before.Version})
	if err != nil {
		t.Fatal(err)
	}
	if got := textsOf(load(t, s)); !cmp.Equal(got, []string{"from the session", "from the store"}) {
		t.Errorf("Session.Load = %v", got)
	}
	if err := s.Rollback(1); err != nil {
		t.Fatal(err)
	}
	snap, err := store.Read(t.Context(), "Demo", nil)
	if err != nil || snap.Version == v || snap.Base == before.Version || !cmp.Equal(textsOf(snap.Messages), []string{"from the session"}) {
		t.Errorf("Store.Read after Rollback = %+v, %v, want one message at another version", snap, err)
	}
	if _, err := store.Append(t.Context(), "Demo", snap.Messages, &session.WriteOptions{IfVersion: v}); !errors.Is(err, session.ErrConflict) {
		t.Errorf("Append at the version before a Rollback = %v, want ErrConflict", err)
	}
	if err := store.Delete(t.Context(), "Demo", nil); err != nil {
		t.Fatal(err)
	}
	if m.SessionExists("Demo") {
		t.Error("SessionExists after Store.Delete = true")
	}
}

// TestSessionsThatHaveExpired checks that the Manager takes them for absent, as
// the Store does.
func TestSessionsThatHaveExpired(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	m := newManagerWith(t, &Options{TTL: time.Hour, Clock: func() time.Time { return now }})
	s := openSession(t, m, "demo")
	s.Meta().Title = "t"
	if err := s.SaveMeta(); err != nil {
		t.Fatal(err)
	}
	say(t, s, "hi")
	if !m.SessionExists("demo") {
		t.Error("SessionExists = false")
	}
	now = now.Add(2 * time.Hour)
	if m.SessionExists("demo") || m.ReadMeta("demo") != nil {
		t.Error("it exists after it has expired")
	}
	if got, err := m.LoadSession("demo"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("LoadSession = %v, %v, want ErrNotFound", got, err)
	}
	if list, err := m.ListSessions(); err != nil || len(list) != 0 {
		t.Errorf("ListSessions = %v, %v, want none", list, err)
	}
	if got := openSession(t, m, "demo").Meta().Title; got != "" {
		t.Errorf("the title of one begun anew is %q", got)
	}
	if err := m.DeleteSession("demo"); err != nil {
		t.Errorf("DeleteSession = %v", err)
	}
}

// TestSessionsWithoutTimes lists a history whose lines say nothing of time.
func TestSessionsWithoutTimes(t *testing.T) {
	m := newManager(t)
	modified, created := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, meta := range map[string]string{"bare": "", "dated": `{"name":"dated","created":"2026-01-02T03:04:05Z"}`} {
		dir := filepath.Join(m.BaseDir(), name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		history := filepath.Join(dir, historyName)
		if err := os.WriteFile(history, []byte(`{"role":"user","content":[{"type":"text","text":"hi"}]}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(history, modified, modified); err != nil {
			t.Fatal(err)
		}
		if meta != "" {
			if err := os.WriteFile(filepath.Join(dir, metaName), []byte(meta), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, err := m.ListSessions()
	want := []SessionInfo{{Name: "bare", ModTime: modified, MessageCount: 1}, {Name: "dated", ModTime: modified, MessageCount: 1}}
	if err != nil || !cmp.Equal(list, want) {
		t.Errorf("ListSessions = %v, %v, want %v", list, err, want)
	}
	for name, want := range map[string]time.Time{"bare": modified, "dated": created} {
		if got := m.ReadMeta(name); got == nil || !got.Created.Equal(want) || !got.Updated.Equal(modified) {
			t.Errorf("ReadMeta(%s) = %+v, want created %v, updated %v", name, got, want, modified)
		}
	}
}
