package session

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// policyTurn returns a turn of a prompt, n tool rounds and an answer.
func policyTurn(name string, n int) []Message {
	messages := []Message{UserText("prompt " + name)}
	for i := range n {
		id := fmt.Sprintf("%s-%d", name, i)
		messages = append(messages,
			NewMessage(RoleAssistant, ToolUse(id, "look", `{"at":"`+id+`"}`)),
			ToolResults(ToolResult(id, "look", "seen "+id)))
	}
	messages = append(messages, AssistantText("answer "+name))
	for i := range messages {
		messages[i].ID = fmt.Sprintf("%s.%d", name, i)
	}
	return messages
}

// policyTurns returns n turns of so many tool rounds each.
func policyTurns(n, rounds int) (messages []Message) {
	for i := range n {
		messages = append(messages, policyTurn(fmt.Sprint(i), rounds)...)
	}
	return messages
}

// checkView fails if a view of messages is not valid, in order, with the
// preamble and all pinned messages of messages and the newest one.
func checkView(t rapid.TB, view, messages []Message) {
	t.Helper()
	if problem := viewProblem(view); problem != "" {
		t.Fatalf("%s in the view\n%s\nof\n%s", problem, viewLines(view), viewLines(messages))
	}
	at, preamble := 0, preambleOf(messages)
	for k, m := range view {
		if IsSummary(m) {
			continue
		}
		next := slices.IndexFunc(messages[at:], func(o Message) bool { return m.ID == o.ID })
		if next < 0 {
			t.Fatalf("message %d of the view is out of order or not of the history:\n%s\nof\n%s", k, viewLines(view), viewLines(messages))
		}
		at += next + 1
	}
	for i, m := range messages {
		if i < preamble || i == len(messages)-1 || Pinned(m) {
			if !slices.ContainsFunc(view, func(o Message) bool { return o.ID == m.ID }) {
				t.Fatalf("message %d, %v, is not in the view\n%s\nof\n%s", i, m, viewLines(view), viewLines(messages))
			}
		}
	}
}

// viewProblem says what is wrong with the order of calls, results and prompts
// of a view, independently of Validate.
func viewProblem(view []Message) string {
	open := map[string]bool{}
	started := false
	for i, m := range view {
		for _, r := range m.ToolResults() {
			if !open[r.ToolUseID] {
				return fmt.Sprintf("message %d: a result without its call", i)
			}
			delete(open, r.ToolUseID)
		}
		begins := beginsTurn(m)
		if len(open) > 0 && (begins || m.Role == RoleAssistant) {
			return fmt.Sprintf("message %d: calls before it without results", i)
		}
		if !started && !begins && m.Role != RoleSystem {
			return fmt.Sprintf("message %d: not a prompt first", i)
		}
		started = started || begins
		for _, u := range m.ToolUses() {
			open[u.ID] = true
		}
	}
	if len(open) > 0 {
		return "calls at the end without results"
	}
	return ""
}

func viewLines(messages []Message) string {
	s := ""
	for _, m := range messages {
		pin := ""
		if Pinned(m) {
			pin = "pinned "
		}
		s += fmt.Sprintf("  %s%s %v\n", pin, m.ID, m)
	}
	return s
}

// policyHistoryGen generates valid histories that end where a model is called or a
// turn is over. Each message has an ID of its own.
func policyHistoryGen() *rapid.Generator[[]Message] {
	return rapid.Custom(func(t *rapid.T) []Message {
		h := policyHistory{T: t, pins: rapid.SampledFrom([]int{0, 0, 12, 4}).Draw(t, "pins")}
		for range rapid.IntRange(0, 2).Draw(t, "preamble") {
			h.add(SystemText("be brief"))
		}
		for range rapid.IntRange(0, 9).Draw(t, "turns") {
			h.turn()
		}
		return h.messages
	})
}

type policyHistory struct {
	*rapid.T
	messages []Message
	pins     int     // one message in so many is pinned, none if 0
	calls    int     // made so far
	results  []Block // to be part of the next prompt
}

func (h *policyHistory) add(m Message) {
	m.ID = fmt.Sprintf("m%d", len(h.messages))
	if h.pins > 0 && rapid.IntRange(1, h.pins).Draw(h.T, "pin") == 1 {
		Pin(&m)
	}
	h.messages = append(h.messages, m)
}

func (h *policyHistory) text() *TextBlock {
	return Text(rapid.SampledFrom([]string{"a", "some words", "漢字", "a text that is rather longer than the others, " +
		"so that a budget is used up by it much sooner than by the words before"}).Draw(h.T, "text"))
}

func (h *policyHistory) turn() {
	prompt := NewMessage(RoleUser, append(h.results, h.text())...)
	h.results = nil
	if rapid.IntRange(0, 9).Draw(h.T, "media") == 0 {
		prompt.Content = append(prompt.Content, &MediaBlock{Type: MediaImage, MIMEType: "image/png", Data: []byte{1}})
	}
	h.add(prompt)
	for range rapid.IntRange(0, 3).Draw(h.T, "rounds") {
		h.round()
	}
	if len(h.results) == 0 && rapid.IntRange(0, 9).Draw(h.T, "answered") > 0 {
		h.add(NewMessage(RoleAssistant, h.text()))
	}
}

func (h *policyHistory) round() {
	if len(h.results) > 0 {
		return // the results come with the next prompt
	}
	var call Message
	call.Role = RoleAssistant
	if rapid.Bool().Draw(h.T, "thinks") {
		call.Content = append(call.Content, &ThinkingBlock{Text: "hm", Signature: "s"})
	}
	var results []Block
	for range rapid.IntRange(1, 3).Draw(h.T, "calls") {
		id := fmt.Sprintf("t%d", h.calls)
		h.calls++
		call.Content = append(call.Content, ToolUse(id, "look", `{}`))
		result := &ToolResultBlock{ToolUseID: id, Name: "look", Content: []Block{h.text()}}
		results = append(results, result)
	}
	h.add(call)
	switch rapid.IntRange(0, 4).Draw(h.T, "results") {
	case 0:
		h.add(NewMessage(RoleUser, results...))
	case 1:
		for _, r := range results {
			h.add(NewMessage(RoleTool, r))
		}
	case 2:
		h.results = results
	default:
		h.add(NewMessage(RoleTool, results...))
	}
}

// complete returns a history that doesn't end with calls.
func complete(messages []Message) []Message {
	for len(messages) > 0 && viewProblem(messages) != "" {
		messages = messages[:len(messages)-1]
	}
	return messages
}

func viewTexts(messages []Message) (texts []string) {
	for _, m := range messages {
		texts = append(texts, m.String())
	}
	return texts
}
