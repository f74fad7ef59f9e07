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
			got := viewTexts(view[:len(view)-3])
			if !slices.EqualFunc(got, test.want, strings.Contains) {
				t.Errorf("view = %q, want %q", got, test.want)
			}
		})
	}
}

// A message that answers calls and asks something new begins a turn; without
// the calls, its results are left out.
func TestWindowCutsBetweenACallAndAPrompt(t *testing.T) {
	both := NewMessage(RoleUser, ToolResult("t1", "look", "seen"), Text("and now?"))
	messages := []Message{UserText("look"), NewMessage(RoleAssistant, ToolUse("t1", "look", "{}")), both, AssistantText("done")}
	for i := range messages {
		messages[i].ID = fmt.Sprint(i)
	}
	view := selected(t, windowOf(t, 1, 1), messages)
	if got, want := viewTexts(view), []string{"user: and now?", "assistant: done"}; !slices.Equal(got, want) {
		t.Errorf("view = %q, want %q", got, want)
	}
	Pin(&messages[1])
	if view := selected(t, windowOf(t, 1, 1), messages); len(view) != 4 {
		t.Errorf("with the call pinned: %q", viewTexts(view))
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
func TestPolicyC39StartsWithAPrompt(t *testing.T) {
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
func TestPolicyC41CallsKeepTheirResults(t *testing.T) {
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
