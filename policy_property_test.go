package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// checkOften checks a property a hundred times as often as the flags of rapid
// say: ten thousand times by default, in a few seconds.
func checkOften(t *testing.T, property func(*rapid.T)) {
	for range 100 {
		if rapid.Check(t, property); t.Failed() {
			return
		}
		if testing.Short() {
			return
		}
	}
}

// TestPolicyViews checks, on any valid history, what every policy owes: views
// that are valid and in order, with the preamble, the pins and the newest
// message, within the limit, the same each time, and nothing changed.
func TestPolicyViews(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		messages := complete(policyHistoryGen().Draw(t, "history"))
		before := CloneMessages(messages)
		name, policy, check := drawPolicy(t)
		view, err := policy.Select(t.Context(), messages)
		if errors.Is(err, ErrCannotShrink) {
			if !errors.Is(err, ErrContextOverflow) || name != "budget" && name != "truncated budget" {
				t.Fatalf("%s: %v", name, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !EqualMessages(messages, before) {
			t.Fatalf("%s changed the history", name)
		}
		checkView(t, view, messages)
		check(t, view, messages)
		again, err := policy.Select(t.Context(), messages)
		if err != nil || !EqualMessages(again, view) {
			t.Fatalf("%s: the second view is another (%v):\n%s\nand\n%s", name, err, viewLines(view), viewLines(again))
		}
		reduceAll(t, policy, messages, view)
		if !EqualMessages(messages, before) {
			t.Fatalf("%s: Reduce changed the history", name)
		}
	})
}

// drawPolicy returns a policy and what its views must have beside what those
// of all have.
func drawPolicy(t *rapid.T) (string, HistoryPolicy, func(t rapid.TB, view, messages []Message)) {
	size := rapid.IntRange(1, 8).Draw(t, "window")
	window, err := NewSlidingWindowManager(SlidingWindowOptions{WindowSize: size, TrimTo: rapid.IntRange(0, size).Draw(t, "trim to")})
	if err != nil {
		t.Fatal(err)
	}
	tokens := rapid.IntRange(1, 400).Draw(t, "tokens")
	budget, err := NewTokenBudgetManager(TokenBudgetOptions{MaxTokens: tokens, Counter: EstimateTokens})
	if err != nil {
		t.Fatal(err)
	}
	truncator, err := NewToolResultTruncator(ToolResultTruncatorOptions{MaxBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	inWindow := func(t rapid.TB, view, messages []Message) {
		if n := len(Turns(view)); n > size && !slices.ContainsFunc(messages, Pinned) && !slices.ContainsFunc(messages, isMixed) {
			t.Fatalf("%d turns in a window of %d", n, size)
		}
	}
	inBudget := func(t rapid.TB, view, _ []Message) {
		if n := EstimateTokens(view); n > tokens {
			t.Fatalf("%d tokens in a budget of %d", n, tokens)
		}
	}
	free := func(rapid.TB, []Message, []Message) {}
	failing := rapid.Bool().Draw(t, "failing")
	summarize := func(p HistoryPolicy) HistoryPolicy {
		s, err := NewSummarizationManager(SummarizationManagerOptions{
			Summarizer: summarizerFunc(func(_ context.Context, messages []Message) (Message, error) {
				if failing {
					return Message{}, errors.New("no model")
				}
				return AssistantText(fmt.Sprintf("%d messages", len(messages))), nil
			}), Fallback: p, OnError: func(error) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	switch rapid.IntRange(0, 5).Draw(t, "policy") {
	case 0:
		return "window", window, inWindow
	case 1:
		return "budget", budget, inBudget
	case 2:
		return "truncated budget", Chain(truncator, budget), inBudget
	case 3:
		return "truncated window", Chain(window, truncator), inWindow
	case 4:
		return "summarized window", summarize(window), free
	}
	return "summarized truncated window", summarize(Chain(window, truncator)), free
}

// reduceAll reduces a policy until it can't shrink, which must be soon, with
// each view valid and smaller than the one before.
func reduceAll(t *rapid.T, policy HistoryPolicy, messages, view []Message) {
	t.Helper()
	for step := 0; ; step++ {
		r, ok := policy.(Reducer)
		if !ok {
			t.Fatalf("%T can't be reduced", policy)
		}
		reduced, err := r.Reduce(t.Context(), messages, view)
		if errors.Is(err, ErrCannotShrink) {
			return
		}
		if err != nil {
			t.Fatalf("step %d: Reduce: %v", step, err)
		}
		smaller, err := reduced.Select(t.Context(), messages)
		if err != nil {
			t.Fatalf("step %d: Select: %v", step, err)
		}
		checkView(t, smaller, messages)
		if got, want := EstimateTokens(smaller), EstimateTokens(view); got >= want {
			t.Fatalf("step %d: %d tokens after %d:\n%s\nafter\n%s", step, got, want, viewLines(smaller), viewLines(view))
		}
		if step > 10 {
			t.Fatalf("no end after %d steps", step)
		}
		policy, view = reduced, smaller
	}
}

// TestPolicyViewsKeepTheirStart checks that a view begins with the whole view
// before, unless a limit was passed.
func TestPolicyViewsKeepTheirStart(t *testing.T) {
	checkOften(t, func(t *rapid.T) {
		messages := policyHistoryGen().Draw(t, "history")
		tokens := rapid.IntRange(40, 400).Draw(t, "tokens")
		budget, err := NewTokenBudgetManager(TokenBudgetOptions{MaxTokens: tokens, Counter: EstimateTokens})
		if err != nil {
			t.Fatal(err)
		}
		var last []Message
		tokensOfLast := 0 // as the budget counts: before messages are joined
		for i := range messages {
			view, err := budget.Select(t.Context(), messages[:i+1])
			if err != nil {
				return
			}
			full := tokensOfLast+EstimateTokens(messages[i:i+1]) > tokens
			if !full && !startsWith(view, last) {
				t.Fatalf("message %d: the view\n%s\ndoes not begin with\n%s", i, viewLines(view), viewLines(last))
			}
			last, tokensOfLast = view, budget.walk(messages[:i+1]).total
			parts, _, _ := budget.locate(t.Context(), messages[:i+1])
			if n := EstimateTokens(parts); n != tokensOfLast {
				t.Fatalf("message %d: the view has %d tokens, counted were %d", i, n, tokensOfLast)
			}
		}
	})
}

func isMixed(m Message) bool { return answersAndAsks([]Message{m}, 0) }

func startsWith(view, start []Message) bool {
	return len(view) >= len(start) && EqualMessages(view[:len(start)], start)
}

type summarizerFunc func(ctx context.Context, messages []Message) (Message, error)

func (f summarizerFunc) Summarize(ctx context.Context, messages []Message) (Message, error) {
	return f(ctx, messages)
}
