package session

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// The cases C01 to C07 are made from public bug reports of programs that store
// agent sessions; these are the ones that concern the JSON form.

// hop is what a message goes through from one session to another.
func hop(t *testing.T, messages []Message) []Message {
	t.Helper()
	lines, err := encodeMessages(messages)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	got, _, err := decodeMessages(lines)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return got
}

// C01: an integer above 2^53 in a call's arguments.
func TestC01LargeIntegerInArguments(t *testing.T) {
	const input = `{"account_id":9007199254740993,"limit":10}`
	messages := []Message{UserText("close that account"), NewMessage(RoleAssistant, ToolUse("tu_1", "close_account", input))}
	for i := range 2 {
		messages = hop(t, messages)
		if got := string(messages[1].ToolUses()[0].Input); got != input {
			t.Errorf("hop %d: input = %s, want %s", i+1, got, input)
		}
	}
}

// C03: HTML escapes, sorted keys and compacted white space.
func TestC03SourceCodeUnchanged(t *testing.T) {
	const input, text = `{"expr": "a<b && c>d", "z":1, "a":2}`, "ch <- x // R&D <b>"
	messages := []Message{
		NewMessage(RoleAssistant, ToolUse("tu_1", "run", input)),
		NewMessage(RoleUser, ToolResult("tu_1", "", text)),
	}
	for _, m := range messages {
		if line := encode(t, m); strings.Contains(line, `\u00`) {
			t.Errorf("escaped: %s", line)
		}
	}
	got := hop(t, hop(t, messages))
	if in := string(got[0].ToolUses()[0].Input); in != input {
		t.Errorf("input = %s, want %s", in, input)
	}
	if flat := got[1].ToolResults()[0].Text(); flat != text {
		t.Errorf("text = %s, want %s", flat, text)
	}
	if shown := got[1].String(); !strings.Contains(shown, text) {
		t.Errorf("String() = %s, want %s in it", shown, text)
	}
}

// C04: thinking text emptied, its signature kept.
func TestC04ThinkingKeptWhole(t *testing.T) {
	messages := []Message{
		UserText("plan it"),
		NewMessage(RoleAssistant, &ThinkingBlock{Text: "First weigh A.\n\nThen B.", Signature: "c2lnLUEvKz0="}, ToolUse("tu_1", "grep", `{"q":"A"}`)),
		NewMessage(RoleUser, ToolResult("tu_1", "", "hit")),
		NewMessage(RoleAssistant, &ThinkingBlock{Text: "Result fits A.", Signature: "c2lnLUIvKz0="}, Text("A it is.")),
	}
	got := hop(t, messages)
	got = hop(t, append(got, UserText("go on")))
	if diff := cmp.Diff(messages, got[:4], show); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// C06: half a character in the transcript.
func TestC06HalfACharacter(t *testing.T) {
	lines := []string{
		`{"role":"user","content":[{"type":"text","text":"one"}]}`,
		`{"role":"assistant","content":[{"type":"text","text":"ls docs/\ud83d\u2026 failed"}]}`,
		`{"role":"user","content":[{"type":"text","text":"three"}]}`,
	}
	var messages []Message
	for _, line := range lines {
		messages = append(messages, decode(t, line))
	}
	if got, want := messages[1].Text(), "ls docs/\uFFFD… failed"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	second := encode(t, messages[1])
	third := encode(t, decode(t, second))
	if second != third || !utf8.ValidString(second) || strings.Contains(second, `\ud83d`) || !json.Valid([]byte(second)) {
		t.Errorf("written twice:\n%s\n%s", second, third)
	}
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{strings.Repeat("\u754c", 40), 80, strings.Repeat("\u754c", 26)},
		{"ab\U0001f389", 4, "ab"},
		{"ab\U0001f389", 6, "ab\U0001f389"},
		{"ab\U0001f389", 0, ""},
		{"\U0001f389", -1, ""},
	} {
		if got := truncateText(test.text, test.limit); got != test.want {
			t.Errorf("truncateText(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

// C07: an empty text block is part of the record.
func TestC07EmptyTextIsRecorded(t *testing.T) {
	messages := []Message{
		UserText("fetch page 9"),
		NewMessage(RoleAssistant, Text(""), ToolUse("tu_1", "fetch", `{"start":9000}`)),
		NewMessage(RoleUser, ToolResult("tu_1", "", "")),
		UserText("and now?"),
	}
	if got := hop(t, messages); !reflect.DeepEqual(got, messages) {
		t.Errorf("the record changed (-want +got):\n%s", cmp.Diff(messages, got, show))
	}
}
