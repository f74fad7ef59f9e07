package filestore

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// TestChatFormLines reads a history that another tool wrote, in the form of
// chat completion APIs, bare and as events, and appends to it.
func TestChatFormLines(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "demo"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "demo", historyName)
	written := `{"role":"user","content":"hi <b>"}
{"ts":"2026-01-02T03:04:05Z","kind":"message","message":{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"n\": 1}"}}]}}
{"ts":"2026-01-02T03:04:06Z","kind":"tool_result","tool":"read","ms":3,"message":{"role":"tool","tool_call_id":"c1","content":"one"}}
{"ts":"2026-01-02T03:04:07Z","kind":"message","message":{"role":"assistant","content":"done"}}
`
	if err := os.WriteFile(file, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []session.Message{
		session.UserText("hi <b>"),
		{Role: session.RoleAssistant, Content: []session.Block{&session.ToolUseBlock{ID: "c1", Name: "read", Input: json.RawMessage(`{"n": 1}`)}}},
		{Role: session.RoleTool, Content: []session.Block{&session.ToolResultBlock{ToolUseID: "c1", Content: []session.Block{session.Text("one")}}}},
		{Role: session.RoleAssistant, Content: []session.Block{session.Text("done")}},
	}
	store, err := New(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	check := func(call string, got []session.Message, err error) {
		t.Helper()
		if err != nil || !session.EqualMessages(got, want) {
			t.Errorf("%s = error %v, and differs (-want +got):\n%s", call, err, cmp.Diff(textsOf(want), textsOf(got)))
		}
	}
	got, err := store.Load(t.Context(), "demo")
	check("Store.Load", got, err)
	last, err := store.Read(t.Context(), "demo", &session.ReadOptions{Last: 2})
	want = want[2:]
	check("Store.Read of the last two", last.Messages, err)

	m, err := store.Manager()
	if err != nil {
		t.Fatal(err)
	}
	s, err := m.Open("demo")
	if err != nil {
		t.Fatal(err)
	}
	want = append([]session.Message{}, got...)
	live, err := s.Load()
	check("Session.Load", live, err)
	if err := s.AppendMessages([]session.Message{session.UserText("more")}); err != nil {
		t.Fatal(err)
	}
	want = append(want, session.UserText("more"))
	got, err = store.Load(t.Context(), "demo")
	check("Store.Load after an append", got, err)
	if after, err := os.ReadFile(file); err != nil || string(after[:len(written)]) != written {
		t.Errorf("the lines that were there have changed (error %v)", err)
	}
}

// TestRepairOfLinesThatAreNoMessages takes out lines that are JSON, and stand
// for messages, but can't be read as such, wherever they are.
func TestRepairOfLinesThatAreNoMessages(t *testing.T) {
	const bad = `{"ts":"2026-01-02T03:04:05Z","kind":"message","message":{"role":7}}` + "\n"
	for name, place := range map[string]func(lines []string) string{
		"First":  func(l []string) string { return bad + l[0] + l[1] + l[2] },
		"Middle": func(l []string) string { return l[0] + bad + l[1] + l[2] },
		"Last":   func(l []string) string { return l[0] + l[1] + l[2] + bad },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var told []Damage
			store, err := New(dir, &Options{OnDamage: func(d Damage) { told = append(told, d) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			ctx := t.Context()
			want := []session.Message{session.UserText("a"), session.UserText("b"), session.UserText("c")}
			for i := range want {
				if _, err := store.Append(ctx, "demo", want[i:i+1], nil); err != nil {
					t.Fatal(err)
				}
			}
			file := filepath.Join(dir, "demo", historyName)
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(place(strings.SplitAfter(string(whole), "\n"))), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Load(ctx, "demo"); !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("Load: error = %v, want ErrCorrupt", err)
			}
			before, err := store.Info(ctx, "demo")
			if err != nil {
				t.Fatal(err)
			}
			found, err := store.Repair(ctx, "demo")
			if err != nil || len(found) != 1 {
				t.Fatalf("Repair = %v, %v, want one damaged line", found, err)
			}
			if got, err := store.Load(ctx, "demo"); err != nil || !session.EqualMessages(got, want) {
				t.Errorf("Load after Repair = %q, %v, want %q", textsOf(got), err, textsOf(want))
			}
			if after, err := store.Info(ctx, "demo"); err != nil || after.Version == before.Version {
				t.Errorf("the version is %q as before (error %v)", after.Version, err)
			}
			aside, err := filepath.Glob(filepath.Join(dir, "demo", "history.damaged-*"))
			if err != nil || len(aside) != 1 {
				t.Fatalf("files beside the history: %q, %v, want one", aside, err)
			}
			if b, err := os.ReadFile(aside[0]); err != nil || string(b) != bad {
				t.Errorf("the file beside the history holds %q, %v, want the line", b, err)
			}
			if len(told) == 0 {
				t.Error("OnDamage was not told")
			}
		})
	}
}
