package storetest

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-go/session"
)

// caseRules are faults that users of other stores have reported.
var caseRules = []rule{{
	"Cases/LargeIntegerInInput",
	"An integer above 2^53 in a tool call's input is the same number after two stores.",
	nil, caseLargeIntegerInInput,
}, {
	"Cases/SourceCodeInResult",
	"Source code in a tool's result and in a call's input is not escaped for HTML, re-sorted or compacted.",
	nil, caseSourceCodeInResult,
}, {
	"Cases/ThinkingWithSignature",
	"Thinking keeps its text, signature and place, also when the history grows.",
	nil, caseThinkingWithSignature,
}, {
	"Cases/HalfACharacter",
	"A history in which another program left half a character can be loaded and stored, as valid text that stays the same from then on.",
	nil, caseHalfACharacter,
}, {
	"Cases/EmptyToolResult",
	"Empty text, as a tool leaves that returned nothing, is recorded as it is.",
	nil, caseEmptyToolResult,
}}

func caseLargeIntegerInInput(tb testing.TB, s *subject) {
	const input = `{"account_id":9007199254740993,"limit":10}`
	got := s.hops(tb, []session.Message{
		session.UserText("close that account"),
		session.NewMessage(session.RoleAssistant, session.ToolUse("tu_1", "close_account", input)),
	}, []session.Message{
		session.UserText("close that account"),
		session.NewMessage(session.RoleAssistant, session.ToolUse("tu_1", "close_account", input)),
	}, "a large integer")
	for _, use := range lastOf(got).ToolUses() {
		want(tb, string(use.Input), input, "input after two stores")
	}
}

func caseSourceCodeInResult(tb testing.TB, s *subject) {
	const input = `{"expr": "a<b && c>d", "z":1, "a":2}`
	const text = "ch <- x // R&D <b>"
	messages := []session.Message{
		session.NewMessage(session.RoleAssistant, session.ToolUse("tu_1", "run", input)),
		session.NewMessage(session.RoleUser, session.ToolResult("tu_1", "run", text)),
	}
	got := s.hops(tb, session.CloneMessages(messages), messages, "source code")
	for _, result := range lastOf(got).ToolResults() {
		want(tb, result.Text(), text, "text of the result after two stores")
	}
}

func caseThinkingWithSignature(tb testing.TB, s *subject) {
	turn := []session.Message{
		session.UserText("plan it"),
		session.NewMessage(session.RoleAssistant,
			&session.ThinkingBlock{Text: "First weigh A.\n\nThen B.", Signature: "c2lnLUEvKz0="},
			session.ToolUse("tu_1", "grep", `{"q":"A"}`)),
		session.NewMessage(session.RoleUser, session.ToolResult("tu_1", "grep", "hit")),
		session.NewMessage(session.RoleAssistant,
			&session.ThinkingBlock{Text: "Result fits A.", Signature: "c2lnLUIvKz0="}, session.Text("A it is.")),
	}
	must(tb, s.store.Save(s.ctx, id, turn), "Save")
	got := s.load(tb, id)
	wantHistory(tb, got, turn, "Load after the first turn")
	longer := append(got, session.UserText("next"))
	must(tb, s.store.Save(s.ctx, id, longer), "Save of the next turn")
	wantHistory(tb, s.load(tb, id), append(turn[:4:4], session.UserText("next")), "Load after the next turn")
}

func caseHalfACharacter(tb testing.TB, s *subject) {
	var messages []session.Message
	for _, line := range []string{
		`{"role":"user","content":[{"type":"text","text":"one"}]}`,
		`{"role":"assistant","content":[{"type":"text","text":"ls docs/\ud83d\u2026 failed"}]}`,
		`{"role":"user","content":[{"type":"text","text":"three"}]}`,
	} {
		m, err := session.DecodeMessage([]byte(line))
		must(tb, err, "DecodeMessage(%s)", line)
		messages = append(messages, m)
	}
	got := s.hops(tb, messages, messages, "half a character")
	want(tb, len(got), 3, "messages")
	for i, m := range got {
		if text := m.Text(); !utf8.ValidString(text) {
			tb.Errorf("text of message %d = %q, want valid UTF-8", i+1, text)
		}
		if line := render(m); strings.Contains(line, `\ud83d`) {
			tb.Errorf("encoded message %d = %s, want no half of a surrogate pair", i+1, line)
		}
	}
}

func caseEmptyToolResult(tb testing.TB, s *subject) {
	messages := []session.Message{
		session.UserText("fetch page 9"),
		session.NewMessage(session.RoleAssistant, session.Text(""), session.ToolUse("tu_1", "fetch", `{"start":9000}`)),
		session.NewMessage(session.RoleUser, session.ToolResult("tu_1", "fetch", "")),
		session.UserText("and now?"),
	}
	s.hops(tb, session.CloneMessages(messages), messages, "an empty result")
}

// lastOf returns the last message, or a zero one.
func lastOf(messages []session.Message) session.Message {
	if len(messages) == 0 {
		return session.Message{}
	}
	return messages[len(messages)-1]
}
