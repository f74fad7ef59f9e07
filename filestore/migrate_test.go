package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

const flatText = `{"role":"system","content":[{"type":"text","text":"be brief"}]}
{"role":"user","content":"first"}

{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"shell","arguments":"{\"cmd\": \"ls\"}"}}],"reasoning":"why"}
{"role":"tool","tool_call_id":"c1","name":"shell","content":"a b"}
{"role":"assistant","content":"done"}
`

func flatWant() []session.Message {
	call := session.NewMessage(session.RoleAssistant, session.ToolUse("c1", "shell", `{"cmd": "ls"}`))
	call.Metadata = map[string]any{"reasoning": "why"}
	return []session.Message{
		session.SystemText("be brief"), session.UserText("first"), call,
		session.ToolResults(session.ToolResult("c1", "shell", "a b")), session.AssistantText("done"),
	}
}

func dropFlat(t testing.TB, m *Manager, name, text string) (file string, modified time.Time) {
	t.Helper()
	file = filepath.Join(m.BaseDir(), name+".jsonl")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	modified = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if err := os.Chtimes(file, modified, modified); err != nil {
		t.Fatal(err)
	}
	return file, modified
}

func TestMigrateFlatFile(t *testing.T) {
	m := newManager(t)
	file, modified := dropFlat(t, m, "Legacy", flatText)
	if !m.SessionExists("Legacy") {
		t.Error("SessionExists of a flat file = false")
	}
	if got, err := m.LoadSession("Legacy"); err != nil || !session.EqualMessages(got, flatWant()) {
		t.Errorf("LoadSession of a flat file = %v, %v", got, err)
	}
	list, err := m.ListSessions()
	if want := []SessionInfo{{Name: "Legacy", ModTime: modified, MessageCount: 5}}; err != nil || !cmp.Equal(list, want) {
		t.Errorf("ListSessions = %v, %v, want %v", list, err, want)
	}
	if entries, err := os.ReadDir(m.BaseDir()); err != nil || len(entries) != 1 {
		t.Errorf("looking at it has made %v, %v", entries, err)
	}
	for range 2 { // the second one finds it migrated
		s := openSession(t, m, "Legacy")
		if got := load(t, s); !session.EqualMessages(got, flatWant()) {
			t.Errorf("Load = %v", got)
		}
		all := events(t, s)
		for _, ev := range all {
			if !ev.TS.Equal(modified) {
				t.Errorf("an event is of %v, want %v", ev.TS, modified)
			}
		}
		if len(all) != 5 || all[3].Kind != KindToolResult || all[3].Tool != "shell" {
			t.Errorf("the transcript is %+v", all)
		}
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the flat file is still in its place: %v", err)
	}
	if kept, err := os.ReadFile(file + migratedExt); err != nil || string(kept) != flatText {
		t.Errorf("the flat file was not kept: %q, %v", kept, err)
	}
	if list, err := m.ListSessions(); err != nil || len(list) != 1 || list[0].MessageCount != 5 {
		t.Errorf("ListSessions after it = %v, %v", list, err)
	}
	if err := os.RemoveAll(filepath.Join(m.BaseDir(), mustDir("Legacy"))); err != nil {
		t.Fatal(err)
	}
	if err := m.DeleteSession("Legacy"); err != nil { // of which there is the old file alone
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(m.BaseDir()); err != nil || len(entries) != 0 {
		t.Errorf("DeleteSession has left %v, %v", entries, err)
	}
}

// TestMigrateDamagedFlatFile checks that lines that are no messages cost
// themselves alone.
func TestMigrateDamagedFlatFile(t *testing.T) {
	var damage []Damage
	m := newManagerWith(t, &Options{OnDamage: func(d Damage) { damage = append(damage, d) }})
	first := `{"role":"user","content":"one"}` + "\n"
	bad := "{torn\n"
	dropFlat(t, m, "demo", first+bad+`{"x":1}`+"\n"+`{"ts":"2026-01-01T00:00:00Z","kind":"message","message":{"role":"user","content":"two"}}`)
	if got := textsOf(load(t, openSession(t, m, "demo"))); !cmp.Equal(got, []string{"one", "two"}) {
		t.Errorf("Load = %v", got)
	}
	if len(damage) != 2 || damage[0].File != "demo.jsonl" || damage[0].Line != 2 || damage[0].Offset != int64(len(first)) ||
		damage[0].Length != int64(len(bad)) || !errors.Is(damage[0].Err, session.ErrCorrupt) || damage[1].Line != 3 {
		t.Errorf("damage = %+v", damage)
	}
}

// TestMigrateInterrupted migrates again what was migrated but for the renaming,
// and leaves alone what has a history of its own.
func TestMigrateInterrupted(t *testing.T) {
	m := newManager(t)
	dropFlat(t, m, "demo", flatText)
	s := openSession(t, m, "demo")
	say(t, s, "more")
	file, _ := dropFlat(t, m, "demo", flatText)
	if got := load(t, openSession(t, m, "demo")); len(got) != 6 {
		t.Errorf("%d messages, want 6: it was migrated already", len(got))
	}
	if _, err := os.Stat(file + migratedExt + "-1"); err != nil {
		t.Errorf("the second file was not kept: %v", err)
	}
	file, _ = dropFlat(t, m, "demo", `{"role":"user","content":"other"}`)
	if got := load(t, openSession(t, m, "demo")); len(got) != 6 {
		t.Errorf("%d messages, want 6: the directory has its own history", len(got))
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("another history was taken away: %v", err)
	}
	if list, err := m.ListSessions(); err != nil || len(list) != 1 || list[0].MessageCount != 6 {
		t.Errorf("ListSessions = %v, %v, want the directory's history", list, err)
	}
	if err := m.DeleteSession("demo"); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(m.BaseDir()); err != nil || len(entries) != 0 {
		t.Errorf("DeleteSession has left %v, %v", entries, err)
	}
}

// TestStoreDeleteRemovesMigratedFiles deletes a migrated session through the
// other face.
func TestStoreDeleteRemovesMigratedFiles(t *testing.T) {
	m := newManager(t)
	dropFlat(t, m, "demo", flatText)
	openSession(t, m, "demo")
	dropFlat(t, m, "demo", flatText)
	openSession(t, m, "demo")
	dropFlat(t, m, "other", flatText)
	if err := m.Store().Delete(t.Context(), "demo", nil); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(m.BaseDir())
	if err != nil || len(entries) != 1 || entries[0].Name() != "other.jsonl" {
		t.Errorf("Delete has left %v, %v, want the other session", entries, err)
	}
}

func TestFlatMessage(t *testing.T) {
	for _, text := range []string{"", "null", "[]", `"x"`, "{}", `{"role":1,"content":""}`, `{"content":"x"}`, `{"role":"user","content":5}`, `{"message":null}`} {
		if m, err := flatMessage([]byte(text)); err == nil {
			t.Errorf("flatMessage(%s) = %v, want an error", text, m)
		}
	}
	got, err := flatMessage([]byte(`{"role":"assistant","content":"x","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{broken"}}]}`))
	if want := session.NewMessage(session.RoleAssistant, session.Text("x"), session.ToolUse("c", "f", `"{broken"`)); err != nil || !got.Equal(want) {
		t.Errorf("flatMessage of broken arguments = %v, %v, want %v", got, err, want)
	}
}

// TestMigrateLongName migrates a session whose directory's name doesn't tell
// its own.
func TestMigrateLongName(t *testing.T) {
	m := newManager(t)
	name := strings.Repeat("Я", 40)
	dropFlat(t, m, name, flatText)
	openSession(t, m, name)
	if list, err := m.ListSessions(); err != nil || len(list) != 1 || list[0].Name != name || list[0].MessageCount != 5 {
		t.Errorf("ListSessions = %v, %v, want the session", list, err)
	}
}

// TestMigrateAfterTornWrite migrates again after a write of the history that the
// machine's going down has cut.
func TestMigrateAfterTornWrite(t *testing.T) {
	m := newManager(t)
	dropFlat(t, m, "demo", flatText)
	dir := filepath.Join(m.BaseDir(), "demo")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	torn := `{"ts":"2026-03-04T05:06:07Z","kind":"message","more":4,"message":{"role":"sys`
	if err := os.WriteFile(filepath.Join(dir, historyName), []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := m.LoadSession("demo"); err != nil || len(got) != 5 {
		t.Errorf("LoadSession = %v, %v, want the flat file's messages", got, err)
	}
	if list, err := m.ListSessions(); err != nil || len(list) != 1 || list[0].MessageCount != 5 {
		t.Errorf("ListSessions = %v, %v, want the flat file", list, err)
	}
	for range 2 {
		if got := load(t, openSession(t, m, "demo")); !session.EqualMessages(got, flatWant()) {
			t.Errorf("Load = %v, want the flat file's messages", got)
		}
	}
	if m.store.hasFlat("demo") {
		t.Error("it was not migrated")
	}
}
