package filestore

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

func TestCompact(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "old")
	turn := []session.Message{
		session.UserText("list"),
		session.NewMessage(session.RoleAssistant, session.ToolUse("c1", "ls", "{}")),
		session.ToolResults(session.ToolResult("c1", "ls", "a b")),
		session.AssistantText("two files"),
	}
	system := session.SystemText("be brief")
	history := append([]session.Message{system, session.UserText("hi"), session.AssistantText("hello")}, turn...)
	if err := s.AppendMessages(history); err != nil {
		t.Fatal(err)
	}
	s.Meta().Title, s.Meta().Workspace, s.Meta().Cost, s.Meta().Summary = "t", "/w", 2, "kept by a policy"
	if err := s.SaveMeta(); err != nil {
		t.Fatal(err)
	}
	next, err := s.Compact("They greeted.", &CompactOptions{Name: "new", KeepTurns: 1})
	if err != nil {
		t.Fatal(err)
	}
	got := load(t, next)
	if len(got) != 2+len(turn) || !got[0].Equal(system) || !session.EqualMessages(got[2:], turn) {
		t.Fatalf("the new history is %v", got)
	}
	if opening := got[1]; !session.IsSummary(opening) || opening.Role != session.RoleUser || !session.Pinned(opening) {
		t.Errorf("the summary is %v with %v", opening, opening.Metadata)
	}
	if meta := next.Meta(); next.Name() != "new" || meta.Parent != "old" || meta.Title != "t" || meta.Workspace != "/w" || meta.Cost != 0 || meta.Summary != "" || meta.SucceededBy != "" {
		t.Errorf("the new Meta is %+v", meta)
	}
	if s.Meta().SucceededBy != "new" || m.ReadMeta("old").SucceededBy != "new" {
		t.Errorf("SucceededBy = %q", s.Meta().SucceededBy)
	}
	if old, err := m.LoadSession("old"); err != nil || !session.EqualMessages(old, history) {
		t.Errorf("the old history is %v, %v", old, err)
	}
	if again := openSession(t, m, "old"); again.Name() != "new" {
		t.Errorf("Open of the old name = %q, want the new one", again.Name())
	}
	if _, err := s.Compact("Again.", nil); !errors.Is(err, session.ErrConflict) {
		t.Errorf("a second Compact = %v, want ErrConflict", err)
	}
	third, err := next.Compact("All of it.", nil)
	if err != nil {
		t.Fatal(err)
	}
	if again := openSession(t, m, "old"); again.Name() != third.Name() || len(load(t, again)) != 2 {
		t.Errorf("Open of the oldest name = %q, want %q", again.Name(), third.Name())
	}
	list, err := m.ListSessions()
	if err != nil || len(list) != 3 {
		t.Errorf("there are %v, %v, want three sessions", list, err)
	}
}

func TestCompactRefuses(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	if _, err := s.Compact("x", nil); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Compact without history = %v, want ErrNotFound", err)
	}
	say(t, s, "hi")
	say(t, openSession(t, m, "other"), "hi")
	for what, c := range map[string]struct {
		summary string
		opts    CompactOptions
		want    error
	}{
		"no summary":   {" \n", CompactOptions{}, session.ErrInvalidMessage},
		"bad text":     {"\xff", CompactOptions{}, session.ErrInvalidMessage},
		"a bad name":   {"x", CompactOptions{Name: "../x"}, session.ErrInvalidID},
		"a taken name": {"x", CompactOptions{Name: "other"}, session.ErrConflict},
		"its own name": {"x", CompactOptions{Name: "demo"}, session.ErrConflict},
		"minus turns":  {"x", CompactOptions{KeepTurns: -1}, session.ErrInvalidOption},
	} {
		if _, err := s.Compact(c.summary, &c.opts); !errors.Is(err, c.want) {
			t.Errorf("Compact with %s = %v, want %v", what, err, c.want)
		}
	}
	if list, err := m.ListSessions(); err != nil || len(list) != 2 {
		t.Errorf("there are %v, %v, want no new session", list, err)
	}
	if got := openSession(t, m, "demo"); got.Name() != "demo" || got.Meta().SucceededBy != "" {
		t.Errorf("the session is succeeded by %q", got.Meta().SucceededBy)
	}
}

// TestCompactKeepsWhatComesMeanwhile appends between the reading and the link,
// and replaces the history then.
func TestCompactKeepsWhatComesMeanwhile(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	say(t, s, "1", "2")
	old, err := s.store.Read(t.Context(), "demo", nil)
	if err != nil {
		t.Fatal(err)
	}
	begun, err := s.store.Append(t.Context(), "next", []session.Message{session.UserText("summary")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	say(t, s, "3")
	if err := s.succeed(t.Context(), "next", old, begun); err != nil {
		t.Fatal(err)
	}
	if got := textsOf(load(t, openSession(t, m, "demo"))); !cmp.Equal(got, []string{"summary", "3"}) {
		t.Errorf("the new history is %v, want what came meanwhile in it", got)
	}

	other := openSession(t, m, "other")
	say(t, other, "1")
	if old, err = s.store.Read(t.Context(), "other", nil); err != nil {
		t.Fatal(err)
	}
	if err := other.Rollback(1); err != nil {
		t.Fatal(err)
	}
	if err := other.succeed(t.Context(), "next", old, begun); !errors.Is(err, session.ErrConflict) {
		t.Errorf("Compact while the history was replaced = %v, want ErrConflict", err)
	}
	if got := m.ReadMeta("other").SucceededBy; got != "" {
		t.Errorf("SucceededBy after that = %q, want none", got)
	}
}

func TestOpenFollowsTheChain(t *testing.T) {
	m := newManager(t)
	link := func(from, to string) {
		t.Helper()
		s, err := m.openOne(from)
		if err != nil {
			t.Fatal(err)
		}
		s.Meta().SucceededBy = to
		if err := s.SaveMeta(); err != nil {
			t.Fatal(err)
		}
	}
	link("a", "b")
	if got := openSession(t, m, "a"); got.Name() != "a" || m.SessionExists("b") {
		t.Errorf("Open of one whose successor is gone = %q, want it", got.Name())
	}
	link("b", "c")
	link("c", "")
	say(t, openSession(t, m, "c"), "hi")
	if got := openSession(t, m, "a"); got.Name() != "c" {
		t.Errorf("Open = %q, want c", got.Name())
	}
	link("c", "a")
	for _, name := range []string{"a", "b", "c"} {
		if s, err := m.Open(name); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("Open(%s) in a loop = %v, %v, want ErrCorrupt", name, s, err)
		}
	}
	if got, err := m.LoadSession("c"); err != nil || len(got) != 1 {
		t.Errorf("LoadSession in a loop = %v, %v", got, err)
	}
	link("c", "../x")
	if s, err := m.Open("a"); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Open of one that is succeeded by no name = %v, %v, want ErrCorrupt", s, err)
	}
}

func TestFork(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	say(t, s, "1", "2", "3")
	s.Meta().Title = "t"
	if err := s.SaveMeta(); err != nil {
		t.Fatal(err)
	}
	f, err := s.Fork("branch", &session.ForkOptions{Through: 2})
	if err != nil {
		t.Fatal(err)
	}
	say(t, f, "other")
	if got := textsOf(load(t, f)); !cmp.Equal(got, []string{"1", "2", "other"}) || f.Meta().Parent != "demo" || f.Meta().Title != "t" {
		t.Errorf("the fork is %v, %+v", got, f.Meta())
	}
	if got := textsOf(load(t, s)); !cmp.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("the origin is %v", got)
	}
	if _, err := s.Fork("branch", nil); !errors.Is(err, session.ErrConflict) {
		t.Errorf("Fork to what exists = %v, want ErrConflict", err)
	}
	if _, err := s.Fork("../x", nil); !errors.Is(err, session.ErrInvalidID) {
		t.Errorf("Fork to a bad name = %v, want ErrInvalidID", err)
	}
}
