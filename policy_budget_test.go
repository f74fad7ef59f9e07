package session

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func budgetOf(t testing.TB, tokens, trimTo int) *TokenBudgetManager {
	t.Helper()
	b, err := NewTokenBudgetManager(TokenBudgetOptions{MaxTokens: tokens, TrimTo: trimTo, Counter: EstimateTokens})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// perMessage counts ten tokens a message.
func perMessage(messages []Message) int { return 10 * len(messages) }

func countedBudget(t testing.TB, tokens, trimTo int) *TokenBudgetManager {
	t.Helper()
	b, err := NewTokenBudgetManager(TokenBudgetOptions{MaxTokens: tokens, TrimTo: trimTo, Counter: perMessage})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBudgetOptions(t *testing.T) {
	for _, opts := range []TokenBudgetOptions{
		{}, {MaxTokens: 1}, {MaxTokens: -1, Counter: perMessage}, {Counter: perMessage},
		{MaxTokens: 2, TrimTo: -1, Counter: perMessage}, {MaxTokens: 2, TrimTo: 3, Counter: perMessage},
	} {
		if _, err := NewTokenBudgetManager(opts); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("NewTokenBudgetManager(%+v): %v, want ErrInvalidOption", opts, err)
		}
	}
}

// Turns are of four messages, so of forty tokens.
func TestBudgetDropsWholeTurns(t *testing.T) {
	for _, test := range []struct{ tokens, trimTo, turns, want int }{
		{400, 400, 10, 10}, {400, 400, 11, 10}, {399, 399, 10, 9}, {400, 200, 11, 5}, {400, 200, 15, 9}, {400, 200, 16, 10},
		{400, 0, 11, 8}, {40, 40, 5, 1}, {79, 1, 5, 1},
	} {
		messages := policyTurns(test.turns, 1)
		view := selected(t, countedBudget(t, test.tokens, test.trimTo), messages)
		if got := len(prompts(view)); got != test.want || len(view) != 4*got {
			t.Errorf("%d turns in %d tokens, trimmed to %d: %d turns, %d messages, want %d turns",
				test.turns, test.tokens, test.trimTo, got, len(view), test.want)
		}
	}
}

func TestBudgetDropsRoundsOfOneTurn(t *testing.T) {
	messages := append([]Message{SystemText("be brief")}, append(policyTurns(2, 1), policyTurn("long", 20)[:41]...)...)
	messages[0].ID = "system"
	for _, test := range []struct{ tokens, trimTo, want int }{{420, 420, 42}, {410, 410, 40}, {100, 50, 6}, {40, 40, 4}} {
		view := selected(t, countedBudget(t, test.tokens, test.trimTo), messages)
		if len(view) != test.want || view[1].Text() != "prompt long" {
			t.Errorf("budget of %d: %d messages, want %d: %q", test.tokens, len(view), test.want, viewTexts(view))
		}
	}
}

func TestBudgetTooSmall(t *testing.T) {
	messages := append([]Message{SystemText("be brief")}, policyTurn("0", 3)...)
	Pin(&messages[3])
	_, err := countedBudget(t, 49, 0).Select(t.Context(), messages)
	var e *Error
	if !errors.Is(err, ErrContextOverflow) || !errors.Is(err, ErrCannotShrink) || !errors.As(err, &e) {
		t.Errorf("preamble, prompt, pinned round and answer in 49 tokens: %v", err)
	}
	if strings.Contains(err.Error(), "prompt 0") {
		t.Errorf("the error shows content: %v", err)
	}
	if view, err := countedBudget(t, 50, 0).Select(t.Context(), messages); err != nil || len(view) != 5 {
		t.Errorf("the same in 50 tokens: %q, %v", viewTexts(view), err)
	}
}

// What was too much once is forgotten when it is no longer shown.
func TestBudgetRecoversFromALongTurn(t *testing.T) {
	messages := policyTurn("0", 1)
	messages[2].Content = ToolResult("0-0", "look", strings.Repeat("long ", 1000)).Content
	messages[2] = ToolResults(&ToolResultBlock{ToolUseID: "0-0", Name: "look", Content: messages[2].Content})
	messages[2].ID = "0.2"
	if _, err := budgetOf(t, 100, 0).Select(t.Context(), messages[:3]); !errors.Is(err, ErrContextOverflow) {
		t.Fatalf("the long result: %v", err)
	}
	messages = append(messages, policyTurn("1", 0)...)
	view := selected(t, budgetOf(t, 100, 0), messages)
	if got, want := viewTexts(view), []string{"user: prompt 0", "assistant: answer 0", "user: prompt 1", "assistant: answer 1"}; !slices.Equal(got, want) {
		t.Errorf("view = %q, want %q", got, want)
	}
}

// At least 45 of 50 views, a turn apart, begin with the whole view before.
func TestBudgetKeepsThePromptCache(t *testing.T) {
	messages := policyTurns(150, 1)
	b, kept := countedBudget(t, 40*40, 0), 0
	last := selected(t, b, messages[:400])
	for n := 101; n <= 150; n++ {
		view := selected(t, b, messages[:4*n])
		if startsWith(view, last) {
			kept++
		}
		last = view
	}
	if kept < 45 {
		t.Errorf("%d of 50 views begin with the one before, want 45", kept)
	}
}

func TestBudgetCountsEachMessageOnce(t *testing.T) {
	messages, calls := policyTurns(100, 2), 0
	b, err := NewTokenBudgetManager(TokenBudgetOptions{MaxTokens: 300, Counter: func(m []Message) int {
		calls++
		return perMessage(m)
	}})
	if err != nil {
		t.Fatal(err)
	}
	selected(t, b, messages)
	if calls != len(messages) {
		t.Errorf("%d calls of the counter for %d messages", calls, len(messages))
	}
}

func TestBudgetReduceKeepsTheHardLimit(t *testing.T) {
	messages := policyTurns(10, 1)
	b := countedBudget(t, 300, 0)
	view := selected(t, b, messages)
	reduced, err := b.Reduce(t.Context(), messages, view)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(selected(t, reduced, messages)); got > len(view)/2 {
		t.Errorf("%d messages after %d", got, len(view))
	}
	// One round that is more than the lower limit, not more than the first.
	long := append(messages, policyTurn("long", 20)[:1]...)
	for i := range 20 {
		m := ToolResults(ToolResult("x", "look", "seen"))
		if i == 0 {
			m = NewMessage(RoleAssistant, ToolUse("x", "look", "{}"))
		}
		m.ID = string(rune('a' + i))
		long = append(long, m)
	}
	if _, err := reduced.Select(t.Context(), long); err != nil {
		t.Errorf("a round of 200 tokens under a lower limit: %v", err)
	}
}

// A prompt that also holds results is shown with the calls that they answer,
// unless there is no room for these.
func TestBudgetKeepsCallsThatAPromptAnswers(t *testing.T) {
	messages := mixedHistory(6)
	for tokens := 40; tokens <= 120; tokens += 10 {
		view := selected(t, countedBudget(t, tokens, tokens), messages)
		if want := tokens / 20 * 2; len(view) != want || len(view[1].ToolUses()) != 1 || len(view[2].ToolResults()) != 1 {
			t.Errorf("budget of %d: %q, want %d messages", tokens, viewTexts(view), want)
		}
	}
	for n := 3; n <= len(messages); n += 2 {
		view := selected(t, countedBudget(t, 40, 1), messages[:n])
		if last := view[len(view)-1]; len(last.ToolResults()) != 1 {
			t.Errorf("the newest message is shown as %v", last)
		}
	}
	// Without room for the calls, the turn of the prompt goes.
	messages = append(mixedHistory(2), policyTurn("2", 0)...)
	if got := prompts(selected(t, countedBudget(t, 50, 50), messages)); !slices.Equal(got, []string{"2"}) {
		t.Errorf("turns = %q", got)
	}
}
