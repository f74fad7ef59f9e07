package filestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// events returns the lines of a session's transcript.
func events(t testing.TB, s *Session) (all []Event) {
	t.Helper()
	data, err := os.ReadFile(s.HistoryPath())
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(data)) {
		var ev Event
		if err := json.Unmarshal([]byte(text), &ev); err != nil {
			t.Fatalf("%q is no event: %v", text, err)
		}
		all = append(all, ev)
	}
	return all
}

func TestOpenCreatesDirectories(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "Demo")
	if s.Name() != "Demo" || s.Dir() != filepath.Join(m.BaseDir(), "%44emo") {
		t.Errorf("Name = %q, Dir = %q", s.Name(), s.Dir())
	}
	for _, dir := range []string{s.Dir(), s.CheckpointsDir(), s.ProcDir(), s.InboxDir(), s.TmpDir()} {
		if info, err := os.Stat(dir); err != nil || info.Mode() != os.ModeDir|dirMode {
			t.Errorf("%s: %v, %v, want a directory of mode %o", dir, info, err, dirMode)
		}
	}
	if s.InboxDir() != m.InboxDirFor("Demo") || m.InboxDirFor("../x") != "" {
		t.Errorf("InboxDirFor = %q and %q", m.InboxDirFor("Demo"), m.InboxDirFor("../x"))
	}
	if m.SessionExists("Demo") {
		t.Error("a session without history exists")
	}
	say(t, s, "hi")
	if !m.SessionExists("Demo") {
		t.Error("a session with a message does not exist")
	}
	if info, err := os.Stat(s.HistoryPath()); err != nil || info.Mode().Perm() != fileMode {
		t.Errorf("the history has mode %v, %v, want %o", info.Mode(), err, fileMode)
	}
}

// TestTranscript checks the lines of a history as another program reads them.
func TestTranscript(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	m := newManagerWith(t, &Options{Clock: func() time.Time { return now }})
	s := openSession(t, m, "demo")
	if err := s.Settings("model-1", false, []string{"read", "shell"}); err != nil {
		t.Fatal(err)
	}
	if got := load(t, s); len(got) != 0 || got == nil {
		t.Errorf("Load of settings alone = %#v, want empty", got)
	}
	messages := []session.Message{
		session.UserText("go"),
		session.NewMessage(session.RoleAssistant, session.ToolUse("c1", "read", `{"path":"x"}`)),
		session.ToolResults(session.ToolResult("c1", "read", "text")),
	}
	if err := s.AppendMessages(messages); err != nil {
		t.Fatal(err)
	}
	if err := s.Notice("interrupted"); err != nil {
		t.Fatal(err)
	}
	if err := s.Rollback(2); err != nil {
		t.Fatal(err)
	}
	retried := session.NewMessage(session.RoleUser, session.ToolResult("c2", "shell", "ok"))
	if err := s.Append(Event{Kind: KindToolResult, Message: &retried, MS: 12}); err != nil {
		t.Fatal(err)
	}
	merge := false
	want := []Event{
		{Kind: KindSettings, Model: "model-1", MergeThinking: &merge, Tools: []string{"read", "shell"}},
		{Kind: KindMessage, Message: &messages[0]},
		{Kind: KindMessage, Message: &messages[1]},
		{Kind: KindToolResult, Message: &messages[2], Tool: "read"},
		{Kind: KindNotice, Text: "interrupted"},
		{Kind: KindRollback, Dropped: 2},
		{Kind: KindToolResult, Message: &retried, Tool: "shell", MS: 12},
	}
	got := events(t, s)
	for i := range got {
		if !got[i].TS.Equal(now) {
			t.Errorf("event %d is of %v, want %v", i, got[i].TS, now)
		}
		got[i].TS = time.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the transcript (-want +got):\n%s", diff)
	}
	i := 0
	for ev, err := range s.Events(t.Context()) {
		if ev.TS = (time.Time{}); err != nil || !cmp.Equal(ev, want[i]) {
			t.Errorf("Events yields %+v, %v, want %+v", ev, err, want[i])
		}
		if i++; i == len(want)-1 {
			break // which is allowed
		}
	}
	if i != len(want)-1 {
		t.Errorf("Events yields %d events, want %d", i, len(want))
	}
	if got := load(t, s); !session.EqualMessages(got, []session.Message{messages[0], retried}) {
		t.Errorf("Load = %v, want what was not taken back", got)
	}
	if model, err := s.LastSettingsModel(); err != nil || model != "model-1" {
		t.Errorf("LastSettingsModel = %q, %v", model, err)
	}
}

func TestAppendEvents(t *testing.T) {
	s := openSession(t, newManager(t), "demo")
	hi := session.UserText("hi")
	at := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	if err := s.Append(Event{Message: &hi, TS: at}); err != nil {
		t.Fatal(err)
	}
	if got := events(t, s); len(got) != 1 || got[0].Kind != KindMessage || !got[0].TS.Equal(at) {
		t.Errorf("the transcript is %+v, want one message at %v", got, at)
	}
	for _, bad := range []struct {
		ev   Event
		want error
	}{
		{Event{Kind: KindMessage}, session.ErrInvalidMessage},
		{Event{Kind: KindToolResult}, session.ErrInvalidMessage},
		{Event{Kind: "other", Text: "x"}, session.ErrInvalidOption},
		{Event{Kind: KindMessage, Message: &session.Message{Role: "user", Content: []session.Block{nil}}}, session.ErrInvalidMessage},
	} {
		err := s.Append(bad.ev)
		var e *session.Error
		if !errors.Is(err, bad.want) || !errors.As(err, &e) || e.SessionID != "demo" {
			t.Errorf("Append(%+v) = %v, want %v", bad.ev, err, bad.want)
		}
	}
	if err := s.AppendMessages(nil); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"line\nfeed", "quote\"\\", "\u2028 é \x01"} {
		if err := s.Notice(text); err != nil {
			t.Fatal(err)
		}
		if got := events(t, s); got[len(got)-1].Text != text {
			t.Errorf("Notice(%q) is stored as %q", text, got[len(got)-1].Text)
		}
	}
	if got := load(t, s); len(got) != 1 {
		t.Errorf("%d messages, want 1", len(got))
	}
}

// TestLastSettingsModel looks behind and before damage, in a file whose last
// line has no end.
func TestLastSettingsModel(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	check := func(want string) {
		t.Helper()
		if model, err := openSession(t, m, "demo").LastSettingsModel(); err != nil || model != want {
			t.Errorf("LastSettingsModel = %q, %v, want %q", model, err, want)
		}
	}
	check("")
	for _, model := range []string{"one", "two", ""} {
		if err := s.Settings(model, true, nil); err != nil {
			t.Fatal(err)
		}
		say(t, s, strings.Repeat("x", 100_000))
	}
	check("two")
	f, err := os.OpenFile(s.HistoryPath(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct{ text, want string }{
		{"{\"kind\":\"settings\",\"model\":\"torn\n", "two"},
		{`{"kind":"settings","model":"three"}`, "three"},
		{"\n" + `{"ts":"2026-12-01T00:00:00Z","kind":"notice","text":"\"kind\":\"settings\""}` + "\n", "three"},
	} {
		if _, err := f.WriteString(c.text); err != nil {
			t.Fatal(err)
		}
		check(c.want)
	}
}

func TestRollback(t *testing.T) {
	s := openSession(t, newManager(t), "demo")
	if err := s.Rollback(3); err != nil {
		t.Errorf("Rollback of no history = %v", err)
	}
	say(t, s, "1", "2", "3")
	for _, c := range []struct {
		n    int
		want []string
	}{{0, []string{"1", "2", "3"}}, {-1, []string{"1", "2", "3"}}, {1, []string{"1", "2"}}, {50, nil}} {
		if err := s.Rollback(c.n); err != nil {
			t.Fatal(err)
		}
		if got := textsOf(load(t, s)); !cmp.Equal(got, c.want) {
			t.Errorf("after Rollback(%d): %v, want %v", c.n, got, c.want)
		}
	}
	say(t, s, "4")
	if got := textsOf(load(t, s)); !cmp.Equal(got, []string{"4"}) {
		t.Errorf("after it: %v", got)
	}
	if data, err := os.ReadFile(s.HistoryPath()); err != nil || !strings.Contains(string(data), `"text":"3"`) {
		t.Errorf("what was taken back is not in the transcript, %v", err)
	}
}

// TestSaveMeta saves the Meta of two Sessions on one directory.
func TestSaveMeta(t *testing.T) {
	m := newManager(t)
	a := openSession(t, m, "demo")
	a.Meta().FirstPrompt = "add a test"
	a.Meta().Labels = map[string]string{"k": "v"}
	if err := a.SaveMeta(); err != nil { // before there is any history
		t.Fatal(err)
	}
	b := openSession(t, m, "demo")
	if b.Meta().FirstPrompt != "add a test" || b.Meta().Name != "demo" || b.Meta().Created.IsZero() || b.Meta().Updated.IsZero() {
		t.Errorf("Meta = %+v", b.Meta())
	}
	a.Meta().Title = "from a"
	if err := a.SaveMeta(); err != nil {
		t.Fatal(err)
	}
	b.Meta().Cost += 0.5
	if err := b.SaveMeta(); err != nil {
		t.Fatal(err)
	}
	want := &Meta{Name: "demo", FirstPrompt: "add a test", Title: "from a", Cost: 0.5, Labels: map[string]string{"k": "v"}}
	for what, got := range map[string]*Meta{"Meta": b.Meta(), "ReadMeta": m.ReadMeta("demo")} {
		if got == nil {
			t.Fatalf("%s = nil", what)
		}
		c := *got
		c.Created, c.Updated = time.Time{}, time.Time{}
		if diff := cmp.Diff(want, &c); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if m.SessionTitle("demo") != "from a" {
		t.Errorf("SessionTitle = %q", m.SessionTitle("demo"))
	}
	b.Meta().Title = "\xff"
	if err := b.SaveMeta(); !errors.Is(err, session.ErrInvalidOption) {
		t.Errorf("SaveMeta of invalid UTF-8 = %v, want ErrInvalidOption", err)
	}
	if got := load(t, a); len(got) != 0 {
		t.Errorf("%d messages, want none", len(got))
	}
	say(t, a, "hi")
	data, err := os.ReadFile(filepath.Join(a.Dir(), metaName))
	var onDisk Meta
	if err != nil || json.Unmarshal(data, &onDisk) != nil || onDisk.Title != "from a" || onDisk.Name != "demo" {
		t.Errorf("meta.json is %s, %v", data, err)
	}
}

func TestOpenDir(t *testing.T) {
	for _, name := range []string{"run-1", "Run 1", ".hidden", "x.jsonl"} {
		dir := filepath.Join(t.TempDir(), name)
		s, err := OpenDir(dir)
		if err != nil {
			t.Errorf("OpenDir(%q) = %v", name, err)
			continue
		}
		if s.Dir() != dir || s.Name() != name || s.HistoryPath() != filepath.Join(dir, historyName) {
			t.Errorf("Name = %q, Dir = %q, want %q", s.Name(), s.Dir(), dir)
		}
		say(t, s, "hi")
		s.Meta().Title = "t"
		if err := s.SaveMeta(); err != nil {
			t.Error(err)
		}
		again, err := OpenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := load(t, again); len(got) != 1 || again.Meta().Title != "t" {
			t.Errorf("OpenDir again has %v, %+v", got, again.Meta())
		}
		if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
			t.Errorf("beside it there is %v, %v", entries, err)
		}
		fork, err := again.Fork("branch", nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(filepath.Dir(dir), "branch"); fork.Dir() != want || len(load(t, fork)) != 1 || fork.Meta().Parent != name {
			t.Errorf("the fork is in %s, %+v, want %s", fork.Dir(), fork.Meta(), want)
		}
		for _, s := range []*Session{s, again} {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.Load(); !errors.Is(err, session.ErrClosed) {
			t.Errorf("Load after Close = %v, want ErrClosed", err)
		}
		if _, err := s.AcquireLock(); !errors.Is(err, session.ErrClosed) {
			t.Errorf("AcquireLock after Close = %v, want ErrClosed", err)
		}
	}
}

// TestOpenDirOfNamedSessions opens a Manager's sessions by their directories.
func TestOpenDirOfNamedSessions(t *testing.T) {
	m := newManager(t)
	for _, name := range []string{"demo", "Ada", strings.Repeat("Я", 40)} {
		s := openSession(t, m, name)
		s.Meta().Title = "t"
		if err := s.SaveMeta(); err != nil {
			t.Fatal(err)
		}
		say(t, s, "hi")
		d, err := OpenDir(s.Dir())
		if err != nil {
			t.Fatal(err)
		}
		if d.Name() != name || d.Dir() != s.Dir() || d.Meta().Title != "t" || len(load(t, d)) != 1 {
			t.Errorf("OpenDir of %q is %q in %s, %+v", name, d.Name(), d.Dir(), d.Meta())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestLongName has a name that is too long for a directory when escaped.
func TestLongName(t *testing.T) {
	m := newManager(t)
	name := strings.Repeat("é", 100)
	s := openSession(t, m, name)
	if _, err := s.PutInbox("m"); err != nil {
		t.Fatal(err)
	}
	say(t, s, "hi")
	if got := filepath.Base(s.Dir()); !strings.HasPrefix(got, digestMark) {
		t.Errorf("the directory is %q, want a digest", got)
	}
	if err := os.Remove(filepath.Join(s.Dir(), metaName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	m = managerAt(t, m.BaseDir(), nil)
	if list, err := m.ListSessions(); err != nil || len(list) != 1 || list[0].Name != name {
		t.Errorf("ListSessions = %v, %v, want the one session", list, err)
	}
	end, err := openSession(t, m, name).MarkTurnStart()
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if names, err := m.ActiveTurns(); err != nil || !cmp.Equal(names, []string{name}) {
		t.Errorf("ActiveTurns = %q, %v", names, err)
	}
}

// TestDamagedHistory opens a session in the middle of whose history a line is
// damaged.
func TestDamagedHistory(t *testing.T) {
	var damage []Damage
	m := newManagerWith(t, &Options{OnDamage: func(d Damage) { damage = append(damage, d) }})
	s := openSession(t, m, "demo")
	say(t, s, "one", "two", "three")
	say(t, openSession(t, m, "other"), "hi")
	data, err := os.ReadFile(s.HistoryPath())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	lines[1] = strings.Repeat("\x00", len(lines[1])-1) + "\n"
	if err := os.WriteFile(s.HistoryPath(), []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	m = managerAt(t, m.BaseDir(), &Options{OnDamage: func(d Damage) { damage = append(damage, d) }})
	s = openSession(t, m, "demo")
	if got := textsOf(load(t, s)); !cmp.Equal(got, []string{"one", "three"}) {
		t.Errorf("Load = %v, want what is whole", got)
	}
	if !slices.ContainsFunc(damage, func(d Damage) bool {
		return d.File == "demo/history.jsonl" && d.Line == 2 && d.Offset == int64(len(lines[0])) && d.Length == int64(len(lines[1]))
	}) {
		t.Errorf("OnDamage was told of %v, want line 2", damage)
	}
	if _, err := m.Store().Load(t.Context(), "demo"); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Store.Load = %v, want ErrCorrupt", err)
	}
	var seen []string
	for ev, err := range s.Events(t.Context()) {
		var d *Damage
		switch {
		case errors.As(err, &d):
			seen = append(seen, fmt.Sprint("damage in line ", d.Line))
		case err != nil:
			t.Fatal(err)
		case ev.Message != nil:
			seen = append(seen, ev.Message.Text())
		}
	}
	if want := []string{"one", "damage in line 2", "three"}; !cmp.Equal(seen, want) {
		t.Errorf("Events yields %q, want %q", seen, want)
	}
	say(t, s, "four")
	if err := s.Rollback(1); err != nil {
		t.Fatal(err)
	}
	if got, err := m.LoadSession("demo"); err != nil || !cmp.Equal(textsOf(got), []string{"one", "three"}) {
		t.Errorf("LoadSession = %v, %v", got, err)
	}
	if list, err := m.ListSessions(); err != nil || len(list) != 2 {
		t.Errorf("ListSessions = %v, %v, want both", list, err)
	}
	if err := m.DeleteSession("demo"); err != nil {
		t.Fatal(err)
	}
}
