package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestChainAppliesInOrder(t *testing.T) {
	messages := policyTurns(10, 1)
	if view := selected(t, Chain(), messages); len(view) != len(messages) {
		t.Errorf("no policies: %d messages", len(view))
	}
	if view := selected(t, Chain(nil, windowOf(t, 5, 5), nil, countedBudget(t, 80, 80)), messages); len(view) != 8 {
		t.Errorf("window and budget: %q", viewTexts(view))
	}
	fails := policyFunc(func(context.Context, []Message) ([]Message, error) { return nil, errors.ErrUnsupported })
	if _, err := Chain(windowOf(t, 1, 1), fails).Select(t.Context(), messages); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a failing policy: %v", err)
	}
	if _, err := Chain(fails).Reduce(t.Context(), messages, messages); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Reduce of a failing policy: %v", err)
	}
}

type policyFunc func(ctx context.Context, messages []Message) ([]Message, error)

func (f policyFunc) Select(ctx context.Context, messages []Message) ([]Message, error) {
	return f(ctx, messages)
}

// Where no policy can halve the view, the best of them counts.
func TestChainReducesAsFarAsItGoes(t *testing.T) {
	messages := append([]Message{SystemText(strings.Repeat("long ", 1000))}, policyTurns(10, 1)...)
	chain := Chain(windowOf(t, 20, 0), truncatorOf(t, ToolResultTruncatorOptions{MaxBytes: 1 << 20}))
	messages[3].Content[0].(*ToolResultBlock).Content = []Block{Text(strings.Repeat("seen ", 20))}
	reduced, err := chain.Reduce(t.Context(), messages, selected(t, chain, messages))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := viewTexts(selected(t, reduced, messages)[1:]), []string{"user: prompt 9", "assistant: answer 9"}; !slices.Equal(got, want) {
		t.Errorf("view = %q, want %q", got, want)
	}
}

// A chain is joined once, at its end, so that each policy sees whole turns.
func TestChainJoinsAtItsEnd(t *testing.T) {
	messages := policyTurns(6, 0)
	Pin(&messages[0])
	view := selected(t, Chain(windowOf(t, 3, 3), windowOf(t, 2, 2)), messages)
	want := []string{"user: prompt 0 prompt 4", "assistant: answer 4", "user: prompt 5", "assistant: answer 5"}
	if got := viewTexts(view); !slices.Equal(got, want) {
		t.Errorf("view = %q, want %q", got, want)
	}
	if view[0].ID != "0.0" || !Pinned(view[0]) {
		t.Errorf("the joined message is %+v", view[0])
	}
	own := policyFunc(func(context.Context, []Message) ([]Message, error) {
		return []Message{UserText("one"), UserText("two")}, nil
	})
	if view, err := Chain(own).Select(t.Context(), messages); err != nil || len(view) != 2 {
		t.Errorf("another policy's own messages: %q, %v", viewTexts(view), err)
	}
}

func TestChainLocates(t *testing.T) {
	messages := append([]Message{SystemText("be brief")}, policyTurns(10, 1)...)
	Pin(&messages[6])
	last := policyFunc(func(_ context.Context, m []Message) ([]Message, error) {
		return append([]Message{m[0], UserText("in between")}, m[len(m)-2:]...), nil
	})
	for _, test := range []struct {
		policy HistoryPolicy
		want   string
	}{
		{Chain(), fmt.Sprint(seq(0, 41))},
		{windowOf(t, 1, 1), "[0 5 6 7 37 38 39 40]"},
		{Chain(windowOf(t, 2, 2), countedBudget(t, 70, 70)), "[0 5 6 7 37 40]"},
		{Chain(windowOf(t, 2, 2), last), "[0 -1 39 40]"},
		{last, "[0 -1 39 40]"},
	} {
		view, at, err := locate(t.Context(), test.policy, messages)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(at); got != test.want || len(at) != len(view) {
			t.Errorf("%T: view of %d at %v, want %v", test.policy, len(view), got, test.want)
		}
	}
}

func seq(first, end int) (s []int) {
	for i := first; i < end; i++ {
		s = append(s, i)
	}
	return s
}

// overflowing calls a model that overflows when its view has more than so many
// tokens, and reduces the policy each time, as a loop does.
func overflowing(t *testing.T, policy HistoryPolicy, messages []Message, tokens int) (calls int, view []Message, err error) {
	t.Helper()
	view = selected(t, policy, messages)
	for calls = 1; EstimateTokens(view) > tokens; calls++ {
		r, ok := policy.(Reducer)
		if !ok {
			return calls, view, ErrCannotShrink
		}
		if policy, err = r.Reduce(t.Context(), messages, view); err != nil {
			return calls, view, err
		}
		view = selected(t, policy, messages)
	}
	return calls, view, nil
}

// C47: recovery that shrinks nothing, because the mass is in the newest
// messages, and tries without end.
func TestPolicyRecoveryEnds(t *testing.T) {
	long := Text(strings.Repeat("1234567 ", 30_000)) // 60,000 tokens
	newest := policyTurn("newest", 3)[:7]
	for i := 2; i < len(newest); i += 2 {
		newest[i].Content[0].(*ToolResultBlock).Content = []Block{long}
	}
	messages := append(policyTurns(10, 0), newest...)
	summarizer := summarizerFunc(func(context.Context, []Message) (Message, error) { return AssistantText("short"), nil })
	summary, err := NewSummarizationManager(SummarizationManagerOptions{Summarizer: summarizer, Fallback: windowOf(t, 5, 0)})
	if err != nil {
		t.Fatal(err)
	}
	truncator := truncatorOf(t, ToolResultTruncatorOptions{MaxBytes: 1 << 20})
	budget := budgetOf(t, 1_000_000, 0)
	for _, test := range []struct {
		name   string
		policy HistoryPolicy
		rounds int // of the newest turn that are left
	}{
		{"window", windowOf(t, 20, 0), 1},
		{"budget", budget, 1},
		{"summary", summary, 1},
		{"truncated window", Chain(windowOf(t, 20, 0), truncator), 3},
		{"truncated summary", Chain(summary, truncator), 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls, view, err := overflowing(t, test.policy, messages, 100_000)
			if err != nil || calls >= 10 {
				t.Errorf("a window of 100,000 tokens: %d calls, %v", calls, err)
			}
			if got := strings.Count(strings.Join(viewTexts(view), "\n"), "newest-"); got < test.rounds {
				t.Errorf("%d rounds are left, want %d", got, test.rounds)
			}
			calls, view, err = overflowing(t, test.policy, messages, 0)
			if !errors.Is(err, ErrCannotShrink) || calls >= 10 {
				t.Errorf("a model that always overflows: %d calls, %v", calls, err)
			}
			if view[0].Text() == "" {
				t.Errorf("at last the view is %q", viewTexts(view))
			}
		})
	}
}
