package session

import (
	"fmt"

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

// checkView fails if a view of messages is not valid where messages are, or
// not in order, or without the preamble, a pinned message or the newest one.
func checkView(t rapid.TB, view, messages []Message) {
	t.Helper()
	for _, p := range []*Profile{Anthropic, OpenAI, BedrockConverse, Gemini, AnyProvider} {
		if err := Validate(view, p); err != nil && Validate(messages, p) == nil {
			t.Fatalf("%v: %v in the view\n%s\nof\n%s", p, err, viewLines(view), viewLines(messages))
		}
	}
	if problem := viewProblem(view); problem != "" {
		t.Fatalf("%s in the view\n%s\nof\n%s", problem, viewLines(view), viewLines(messages))
	}
	at := places(messages)
	last, shown := -1, map[int]bool{}
	for _, m := range view {
		for j, b := range m.Content {
			place, ok := at[blockKey(b)]
			if !ok && IsSummary(m) && j == 0 {
				continue
			}
			if !ok || place <= last {
				t.Fatalf("%v is out of order or not of the history in the view\n%s\nof\n%s", b, viewLines(view), viewLines(messages))
			}
			last = place
			shown[place] = true
		}
	}
	preamble := preambleOf(messages)
	for i, m := range messages {
		for _, b := range m.Content {
			if isToolResult(b) && !Pinned(m) && isMixed(m) {
				continue // its calls may be gone
			}
			if (i < preamble || i == len(messages)-1 || Pinned(m)) && !shown[at[blockKey(b)]] {
				t.Fatalf("%v of message %d is not in the view\n%s\nof\n%s", b, i, viewLines(view), viewLines(messages))
			}
		}
	}
}

// places numbers the blocks of a history.
func places(messages []Message) map[any]int {
	at := map[any]int{}
	for _, m := range messages {
		for _, b := range m.Content {
			at[blockKey(b)] = len(at)
		}
	}
	return at
}

// blockKey identifies a block: itself, or a result, which may be cut, by its
// call.
func blockKey(b Block) any {
	if r, ok := b.(*ToolResultBlock); ok {
		return r.ToolUseID
	}
	return b
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

// policyHistoryGen generates histories of turns that OpenAI takes, and half of
// them every provider. Each message has an ID of its own.
func policyHistoryGen() *rapid.Generator[[]Message] {
	return rapid.Custom(func(t *rapid.T) []Message {
		h := policyHistory{T: t, pins: rapid.SampledFrom([]int{0, 0, 12, 4}).Draw(t, "pins")}
		for range rapid.IntRange(0, 2).Draw(t, "preamble") {
			h.add(SystemText("be brief"))
		}
		for range rapid.IntRange(0, 9).Draw(t, "turns") {
			h.turn()
		}
		if messages := complete(h.messages); rapid.Bool().Draw(t, "any provider") {
			return Repair(messages)
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
