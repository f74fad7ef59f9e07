package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func windowOf(t testing.TB, size, trimTo int) *SlidingWindowManager {
	t.Helper()
	w, err := NewSlidingWindowManager(SlidingWindowOptions{WindowSize: size, TrimTo: trimTo})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// selected returns the view of a policy, which must be valid.
func selected(t testing.TB, p HistoryPolicy, messages []Message) []Message {
	t.Helper()
	before := CloneMessages(messages)
	view, err := p.Select(t.Context(), messages)
	if err != nil {
		t.Fatalf("Select: %v", err)
	}
	checkView(t, view, messages)
	if !EqualMessages(messages, before) {
		t.Error("Select changed the history")
	}
	return view
}

// prompts returns the names of the turns in a view of policyTurns.
func prompts(view []Message) (names []string) {
	for _, turn := range Turns(view) {
		names = append(names, strings.TrimPrefix(view[turn.First].Text(), "prompt "))
	}
	return names
}

func TestWindowOptions(t *testing.T) {
	for _, opts := range []SlidingWindowOptions{{}, {WindowSize: -1}, {WindowSize: 2, TrimTo: -1}, {WindowSize: 2, TrimTo: 3}} {
		if _, err := NewSlidingWindowManager(opts); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("NewSlidingWindowManager(%+v): %v, want ErrInvalidOption", opts, err)
		}
	}
}

func TestWindowKeepsTheLastTurns(t *testing.T) {
	for _, test := range []struct{ size, trimTo, turns, want int }{
		{3, 3, 0, 0}, {3, 3, 3, 3}, {3, 3, 4, 3}, {3, 3, 10, 3},
		{1, 0, 7, 1}, {2, 0, 7, 2}, {3, 0, 7, 3},
		{10, 6, 10, 10}, {10, 6, 11, 7}, {10, 6, 14, 10}, {10, 6, 15, 7},
		{10, 0, 11, 6}, {10, 0, 15, 10}, {10, 0, 16, 6},
		{20, 1, 20, 20}, {20, 1, 21, 2}, {20, 1, 39, 20},
	} {
		messages := append([]Message{SystemText("be brief")}, policyTurns(test.turns, 1)...)
		messages[0].ID = "system"
		view := selected(t, windowOf(t, test.size, test.trimTo), messages)
		want := append(messages[:1:1], messages[len(messages)-4*test.want:]...)
		if diff := cmp.Diff(viewTexts(want), viewTexts(view)); diff != "" {
			t.Errorf("window of %d trimmed to %d, %d turns (-want +got):\n%s", test.size, test.trimTo, test.turns, diff)
		}
	}
}

func TestWindowOfNoTurns(t *testing.T) {
	w := windowOf(t, 1, 0)
	for _, messages := range [][]Message{nil, {}, {SystemText("a"), SystemText("b")}, {AssistantText("hello")}} {
		if view, err := w.Select(t.Context(), messages); err != nil || !EqualMessages(view, messages) {
			t.Errorf("Select(%v) = %v, %v", messages, view, err)
		}
	}
}

// A view that is part of the history must not be a way to write into it.
func TestWindowViewCannotGrowIntoTheHistory(t *testing.T) {
	messages := policyTurns(3, 0)
	view := selected(t, windowOf(t, 2, 2), messages[:4])
	_ = append(view, UserText("more"))
	if got := messages[4].Text(); got != "prompt 2" {
		t.Errorf("the history goes on with %q", got)
	}
}

// At least 45 of 50 views, a turn apart, begin with the whole view before.
func TestWindowKeepsThePromptCache(t *testing.T) {
	for _, start := range []int{0, 7, 100} {
		for _, size := range []int{20, 40, 100} {
			w, kept := windowOf(t, size, 0), 0
			last := selected(t, w, policyTurns(start, 1))
			for n := start + 1; n <= start+50; n++ {
				view := selected(t, w, policyTurns(n, 1))
				if startsWith(view, last) {
					kept++
				}
				last = view
			}
			if kept < 45 {
				t.Errorf("window of %d from turn %d on: %d of 50 views begin with the one before, want 45", size, start, kept)
			}
		}
	}
}

func TestWindowKeepsPins(t *testing.T) {
	for _, test := range []struct {
		name string
		pin  []int // of 6 turns of 4 messages
		want []string
	}{
		{"a prompt", []int{4}, []string{"prompt 1", "prompt 5"}},
		{"an answer, with its prompt", []int{7}, []string{"prompt 1", "answer 1", "prompt 5"}},
		{"a call, with its result", []int{5}, []string{"prompt 1", "look", "seen", "prompt 5"}},
		{"a result, with its call", []int{6}, []string{"prompt 1", "look", "seen", "prompt 5"}},
		{"two of a turn", []int{0, 3}, []string{"prompt 0", "answer 0", "prompt 5"}},
		{"two turns", []int{3, 8}, []string{"prompt 0", "answer 0", "prompt 2", "prompt 5"}},
		{"what is shown anyway", []int{21}, []string{"prompt 5"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			messages := policyTurns(6, 1)
			for _, i := range test.pin {
				Pin(&messages[i])
			}
			view := selected(t, windowOf(t, 1, 1), messages)
			got := strings.Join(viewTexts(view), " ")
			for _, want := range test.want {
				var found bool
				if _, got, found = strings.Cut(got, want); !found {
					t.Errorf("view = %q, want %q in this order", viewTexts(view), test.want)
				}
			}
			if n := strings.Count(strings.Join(viewTexts(view), " "), "prompt"); n != strings.Count(strings.Join(test.want, " "), "prompt") {
				t.Errorf("view = %q, want only the prompts of %q", viewTexts(view), test.want)
			}
		})
	}
}

// mixedHistory has turns of a prompt and a call; the prompt of the next answers
// the call and asks something new.
func mixedHistory(turns int) (messages []Message) {
	for i := range turns {
		prompt := UserText(fmt.Sprint("prompt ", i))
		if i > 0 {
			prompt.Content = append([]Block{ToolResult(fmt.Sprint("t", i-1), "look", "seen")}, prompt.Content...)
		}
		messages = append(messages, prompt, NewMessage(RoleAssistant, ToolUse(fmt.Sprint("t", i), "look", "{}")))
	}
	messages[len(messages)-1].Content = []Block{Text("done")}
	for i := range messages {
		messages[i].ID = fmt.Sprint(i)
	}
	return messages
}

// A message that answers calls and asks something new begins a turn. It keeps
// the calls where there is room; without them, its results are left out. A pin
// on either keeps both.
func TestPolicyCutsBetweenACallAndAPrompt(t *testing.T) {
	const call0, call1, call2 = "assistant: [t0 look({})]", "assistant: [t1 look({})]", "assistant: [t2 look({})]"
	last := []string{call2, "user: [t2 -> seen] prompt 3", "assistant: done"}
	for _, test := range []struct {
		pin   int // none if negative
		want  []string
		least []string
	}{
		{-1, []string{"user: prompt 2"}, []string{"user: prompt 3"}},
		{1, []string{"user: prompt 0", call0, "user: [t0 -> seen] prompt 1 prompt 2"}, []string{"user: prompt 0", call0, "user: [t0 -> seen] prompt 1 prompt 3"}},
		{2, []string{"user: prompt 0", call0, "user: [t0 -> seen] prompt 1 prompt 2"}, []string{"user: prompt 0", call0, "user: [t0 -> seen] prompt 1 prompt 3"}},
		{3, []string{"user: prompt 1", call1, "user: [t1 -> seen] prompt 2"}, []string{"user: prompt 1", call1, "user: [t1 -> seen] prompt 2 prompt 3"}},
	} {
		test.want, test.least = append(test.want, last...), append(test.least, last[2])
		var least []string
		messages := mixedHistory(4)
		if test.pin >= 0 {
			Pin(&messages[test.pin])
		}
		view := selected(t, windowOf(t, 1, 1), messages)
		if diff := cmp.Diff(test.want, viewTexts(view)); diff != "" {
			t.Errorf("window with a pin on %d (-want +got):\n%s", test.pin, diff)
		}
		for tokens := 80; ; tokens-- {
			view, err := countedBudget(t, tokens, tokens).Select(t.Context(), messages)
			if err != nil {
				break
			}
			checkView(t, view, messages)
			least = viewTexts(view)
		}
		if diff := cmp.Diff(test.least, least); diff != "" {
			t.Errorf("the least with a pin on %d (-want +got):\n%s", test.pin, diff)
		}
	}
}

// A preamble that calls keeps what answers it.
func TestPolicyKeepsWhatAnswersThePreamble(t *testing.T) {
	messages := mixedHistory(4)[1:]
	for i := 2; i < 5; i += 2 { // no calls after the first
		messages[i].Content, messages[i+1].Content = []Block{Text("done")}, messages[i+1].Content[1:]
	}
	want := []string{"assistant: [t0 look({})]", "user: [t0 -> seen] prompt 1 prompt 3", "assistant: done"}
	for _, p := range []HistoryPolicy{windowOf(t, 1, 1), countedBudget(t, 40, 40)} { // counted before they are joined
		view, err := p.Select(t.Context(), messages)
		if diff := cmp.Diff(want, viewTexts(view)); err != nil || diff != "" {
			t.Errorf("%T: %v (-want +got):\n%s", p, err, diff)
		}
	}
}

// Reasoning in a message of its own goes with its call.
func TestPolicyKeepsAssistantMessagesInARowTogether(t *testing.T) {
	messages := []Message{UserText("look")}
	for i := range 3 {
		id := fmt.Sprint("t", i)
		messages = append(messages, NewMessage(RoleAssistant, &ThinkingBlock{Text: id, Signature: "s"}),
			NewMessage(RoleAssistant, ToolUse(id, "look", "{}")), ToolResults(ToolResult(id, "look", "seen")))
	}
	for i := range messages {
		messages[i].ID = fmt.Sprint(i)
	}
	for tokens := 40; tokens <= 100; tokens += 10 {
		view := selected(t, countedBudget(t, tokens, tokens), messages)
		if want := 1 + (tokens-10)/30*3; len(view) != want {
			t.Errorf("budget of %d: %q, want %d messages", tokens, viewTexts(view), want)
		}
	}
	Pin(&messages[1])
	if view := selected(t, countedBudget(t, 90, 70), messages); len(view) != 7 || view[2].ID != "2" {
		t.Errorf("with a pinned thought: %q", viewTexts(view))
	}
}

// caseHistory is that of the case C39: t1 stands in the middle of its turn.
func caseHistory() []Message {
	messages := []Message{
		UserText("u1"), AssistantText("a1"), UserText("u2"), NewMessage(RoleAssistant, ToolUse("t1", "x", "{}")),
		NewMessage(RoleUser, ToolResult("t1", "", "r1")), AssistantText("a3"), UserText("u4"), AssistantText("a4"),
	}
	for i := range messages {
		messages[i].ID = fmt.Sprint(i)
	}
	return messages
}

// C39: a window that starts with an assistant message.
func TestPolicyStartsWithAPrompt(t *testing.T) {
	messages := caseHistory()
	for size := 1; size <= 5; size++ {
		selected(t, windowOf(t, size, 0), messages)
	}
	for first := range messages[:7] {
		tokens := EstimateTokens(messages[first:])
		view := selected(t, budgetOf(t, tokens, tokens), messages)
		if got := EstimateTokens(view); got > tokens {
			t.Errorf("budget of %d: %d tokens", tokens, got)
		}
		if len(view) == 0 || view[0].Role != RoleUser || view[0].Text() == "" {
			t.Errorf("budget of %d: %q", tokens, viewTexts(view))
		}
	}
}

// C41: a limit between a call and its result.
func TestPolicyCallsKeepTheirResults(t *testing.T) {
	messages := []Message{
		UserText("q"), NewMessage(RoleAssistant, ToolUse("call_1", "x", "{}")),
		NewMessage(RoleUser, ToolResult("call_1", "", "r")), AssistantText("done"),
	}
	for _, head := range [][]Message{nil, {SystemText("be brief")}} {
		messages := append(head, messages...)
		for i := range messages {
			messages[i].ID = fmt.Sprint(i)
		}
		all := EstimateTokens(messages)
		for tokens := 1; tokens <= all; tokens++ {
			b := budgetOf(t, tokens, 0)
			if _, err := b.Select(t.Context(), messages); err != nil {
				if floor := EstimateTokens(head) + EstimateTokens(messages[len(head):len(head)+1]) + EstimateTokens(messages[len(messages)-1:]); tokens >= floor {
					t.Errorf("budget of %d, of which %d are needed: %v", tokens, floor, err)
				}
				continue
			}
			if n := len(selected(t, b, messages)); n != len(messages) && n != len(head)+2 {
				t.Errorf("budget of %d of %d: %d messages", tokens, all, n)
			}
		}
		for size := range 3 {
			selected(t, windowOf(t, size+1, 0), messages)
		}
	}
}

func TestWindowReduce(t *testing.T) {
	messages := append([]Message{SystemText("be brief")}, policyTurns(16, 3)...)
	messages[0].ID = "system"
	var policy HistoryPolicy = windowOf(t, 10, 10)
	view := selected(t, policy, messages)
	var sizes []int
	for {
		reduced, err := policy.(Reducer).Reduce(t.Context(), messages, view)
		if errors.Is(err, ErrCannotShrink) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		policy, view = reduced, selected(t, reduced, messages)
		sizes = append(sizes, len(view))
	}
	// Of ten turns of eight messages: four, one, and of that the prompt and the
	// answer with one tool round and without.
	if want := []int{33, 9, 5, 3}; !slices.Equal(sizes, want) {
		t.Errorf("sizes of the views = %d, want %d", sizes, want)
	}
	if got := prompts(view); !slices.Equal(got, []string{"15"}) {
		t.Errorf("at last the turns are %q", got)
	}
}

func TestWindowIsFast(t *testing.T) {
	w, messages := windowOf(t, 20, 0), policyTurns(2500, 1)
	small := testing.AllocsPerRun(10, func() { w.cut(messages[:400]).view(messages[:400]) })
	if got := testing.AllocsPerRun(10, func() { w.cut(messages).view(messages) }); got > small || got > 3 {
		t.Errorf("%v allocations for 10,000 messages, %v for 400", got, small)
	}
}
