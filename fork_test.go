package session_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

func TestForkTakesWhatItIsTold(t *testing.T) {
	ctx := t.Context()
	b := memstore.New(nil)
	save(t, b, "old", "0", "1", "2")
	if _, err := b.Update(ctx, "old", func(m *session.Meta) error {
		*m = session.Meta{Title: "t", Cost: 3, SucceededBy: "x", Summary: "s", SummaryThrough: 2, SummaryHash: "h", Labels: map[string]string{"k": "v"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	info, err := session.Fork(ctx, b, "old", "new", &session.ForkOptions{Through: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := session.Meta{Title: "t", Parent: "old", Summary: "s", SummaryThrough: 2, SummaryHash: "h", Labels: map[string]string{"k": "v"}}
	if diff := cmp.Diff(want, info.Meta); diff != "" {
		t.Errorf("Meta of the fork (-want +got):\n%s", diff)
	}
	if got := texts(t, b, "new"); !slices.Equal(got, []string{"0", "1"}) {
		t.Errorf("fork through 2 has %q", got)
	}
	if info, err = session.Fork(ctx, b, "old", "shorter", &session.ForkOptions{Through: 1}); err != nil || info.Summary != "" {
		t.Errorf("fork of less than the summary covers: summary %q, %v; want none", info.Summary, err)
	}
	if got := texts(t, b, "old"); len(got) != 3 {
		t.Errorf("the forked session has %q, want it as it was", got)
	}
	for _, test := range []struct {
		name, from, to string
		opts           *session.ForkOptions
		want           error
	}{
		{"of nothing", "none", "new2", nil, session.ErrNotFound},
		{"onto a session", "old", "new", nil, session.ErrConflict},
		{"onto itself", "old", "old", nil, session.ErrConflict},
		{"at another version", "old", "new2", &session.ForkOptions{IfVersion: "other"}, session.ErrConflict},
		{"through more than there is", "old", "new2", &session.ForkOptions{Through: 4}, session.ErrInvalidOption},
		{"through less than nothing", "old", "new2", &session.ForkOptions{Through: -1}, session.ErrInvalidOption},
		{"to an invalid ID", "old", "", nil, session.ErrInvalidID},
	} {
		if _, err := session.Fork(ctx, b, test.from, test.to, test.opts); !errors.Is(err, test.want) {
			t.Errorf("Fork %s = %v, want %v", test.name, err, test.want)
		}
		if _, err := b.Info(ctx, "new2"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Fork %s left a session behind", test.name)
		}
	}
}

func TestForkErrorsName(t *testing.T) {
	b := memstore.New(nil)
	save(t, b, "old", "0")
	save(t, b, "new", "0")
	info, err := b.Info(t.Context(), "new")
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.Fork(t.Context(), b, "old", "new", nil)
	var e *session.Error
	if !errors.As(err, &e) || e.Op != "fork" || e.SessionID != "old" || e.Current != info.Version {
		t.Errorf("Fork onto a session = %+v, want the version that it is at", e)
	}
}

func TestCopyBetweenStores(t *testing.T) {
	ctx := t.Context()
	src, dst := memstore.New(nil), session.NewBackend(newMemDriver(), nil)
	save(t, src, "s", "0", "1")
	if _, err := src.Update(ctx, "s", func(m *session.Meta) error { m.Title, m.Cost = "t", 2; return nil }); err != nil {
		t.Fatal(err)
	}
	info, err := session.Copy(ctx, src, "s", dst, "copy")
	if err != nil || info.Title != "t" || info.Cost != 2 || info.Messages != 2 {
		t.Errorf("Copy() = %+v, %v, want the Meta and both messages", info, err)
	}
	if got := texts(t, dst, "copy"); !slices.Equal(got, []string{"0", "1"}) {
		t.Errorf("the copy has %q", got)
	}
	if _, err := session.Copy(ctx, src, "s", dst, "copy"); !errors.Is(err, session.ErrConflict) {
		t.Errorf("Copy onto a session = %v, want ErrConflict", err)
	}
	if _, err := session.Copy(ctx, src, "none", dst, "copy2"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Copy of nothing = %v, want ErrNotFound", err)
	}
}

func turnsHistory() []session.Message {
	return []session.Message{
		session.SystemText("be brief"),
		session.UserText("q1"),
		session.NewMessage(session.RoleAssistant, session.ToolUse("t1", "x", "{}")),
		session.NewMessage(session.RoleUser, session.ToolResult("t1", "x", "r1")), // only results: no turn
		session.AssistantText("a1"),
		session.NewMessage(session.RoleUser, session.ToolResult("t2", "x", "late"), session.Text("q2")),
		session.AssistantText("a2"),
	}
}

func TestTurns(t *testing.T) {
	want := []session.Turn{{First: 1, End: 5}, {First: 5, End: 7}}
	if got := session.Turns(turnsHistory()); !slices.Equal(got, want) {
		t.Errorf("Turns() = %v, want %v", got, want)
	}
	if got := session.Turns(turnsHistory()[:1]); got != nil {
		t.Errorf("Turns() of a preamble = %v, want none", got)
	}
}

func TestRewind(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct{ turns, keep int }{{1, 5}, {2, 1}, {9, 1}} {
		b := memstore.New(nil)
		if err := b.Save(ctx, "s", turnsHistory()); err != nil {
			t.Fatal(err)
		}
		removed, v, err := session.Rewind(ctx, b, "s", test.turns)
		if err != nil {
			t.Fatal(err)
		}
		s, err := b.Read(ctx, "s", nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.Version != v || !session.EqualMessages(append(s.Messages, removed...), turnsHistory()) || s.Total != test.keep {
			t.Errorf("Rewind(%d turns) kept %d and removed %d, want %d kept and the rest removed", test.turns, s.Total, len(removed), test.keep)
		}
	}
	b := memstore.New(nil)
	if removed, v, err := session.Rewind(ctx, b, "none", 1); err != nil || len(removed) > 0 || v != session.Absent {
		t.Errorf("Rewind of nothing = %v, %q, %v", removed, v, err)
	}
	if _, _, err := session.Rewind(ctx, b, "s", 0); !errors.Is(err, session.ErrInvalidOption) {
		t.Errorf("Rewind of 0 turns = %v, want ErrInvalidOption", err)
	}
}
