package session

import (
	"context"
	"fmt"
)

// TokenBudgetOptions configures a TokenBudgetManager.
type TokenBudgetOptions struct {
	// MaxTokens is how many tokens a view has at most. It must be positive.
	MaxTokens int

	// TrimTo is how many tokens at most are left when something is dropped,
	// as far as whole turns make up the difference. The smaller it is, the
	// less often a provider's prompt cache is lost. Default: three quarters
	// of MaxTokens.
	TrimTo int

	// Counter counts tokens. It is required; EstimateTokens will do. Each
	// Select counts every message once, by itself, and once more what is left
	// of one that is shown in part.
	Counter TokenCounter
}

// TokenBudgetManager shows as much of the end of a history as fits a number of
// tokens, behind the preamble.
//
// Whole turns are dropped first, the oldest first. When the newest turn alone
// is too long, its prompt stays and what follows is dropped, the oldest first:
// a tool round, which is an assistant message and the results of its calls, or
// an answer, always as a whole. The last of these, the newest prompt, the
// preamble and pinned messages are never dropped.
//
// What is dropped follows from the history alone, as if every message of it
// had been the last one once: only when a view would have had more than
// MaxTokens is anything dropped, and then so much that TrimTo is left. So views
// of a growing history differ only at their end for many turns.
type TokenBudgetManager struct {
	max, trimTo int
	hard        int // more than that is an error; 0: nothing is
	counter     TokenCounter
}

// NewTokenBudgetManager returns a TokenBudgetManager. If MaxTokens is not
// positive, TrimTo is negative or more than it, or Counter is nil:
// ErrInvalidOption.
func NewTokenBudgetManager(opts TokenBudgetOptions) (*TokenBudgetManager, error) {
	if opts.MaxTokens <= 0 {
		return nil, invalidPolicy("budget", "MaxTokens is %d, not positive", opts.MaxTokens)
	}
	if opts.TrimTo < 0 || opts.TrimTo > opts.MaxTokens {
		return nil, invalidPolicy("budget", "TrimTo is %d, not from 0 to MaxTokens, %d", opts.TrimTo, opts.MaxTokens)
	}
	if opts.Counter == nil {
		return nil, invalidPolicy("budget", "Counter is nil")
	}
	if opts.TrimTo == 0 {
		opts.TrimTo = trimTo(opts.MaxTokens)
	}
	return &TokenBudgetManager{opts.MaxTokens, opts.TrimTo, opts.MaxTokens, opts.Counter}, nil
}

func trimTo(limit int) int { return limit - limit/4 }

// Select returns the view of messages. If what is never dropped has more than
// MaxTokens, the error is an *Error that wraps ErrContextOverflow and
// ErrCannotShrink.
func (m *TokenBudgetManager) Select(_ context.Context, messages []Message) ([]Message, error) {
	c, err := m.cut(messages)
	if err != nil {
		return nil, err
	}
	return c.view(messages), nil
}

func (m *TokenBudgetManager) locate(_ context.Context, messages []Message) ([]Message, []int, error) {
	c, err := m.cut(messages)
	if err != nil {
		return nil, nil, err
	}
	view, at := c.locate(messages)
	return view, at, nil
}

func (m *TokenBudgetManager) cut(messages []Message) (cut, error) {
	w := m.walk(messages)
	if m.hard > 0 && w.total > m.hard {
		return cut{}, &Error{Op: "select", Err: fmt.Errorf("%w: what is never dropped has %d tokens, of %d: %w",
			ErrContextOverflow, w.total, m.hard, ErrCannotShrink)}
	}
	return w.cut(), nil
}

func (m *TokenBudgetManager) walk(messages []Message) *budgetWalk {
	w := &budgetWalk{messages: messages, counter: m.counter, counts: make([]int, len(messages)), preamble: -1}
	for i := range messages {
		w.add(i, max(m.counter(messages[i:i+1]), 0))
		if w.total > m.max && w.preamble >= 0 {
			w.trim(m.max, m.trimTo)
		}
	}
	return w
}

func (m *TokenBudgetManager) count(messages []Message) (total int) {
	for i := range messages {
		total += max(m.counter(messages[i:i+1]), 0)
	}
	return total
}

func (m *TokenBudgetManager) fits(view []Message) bool {
	return m.hard == 0 || m.count(view) <= m.hard
}

// Reduce returns a policy that does with half the tokens of view, or with what
// is never dropped if that is more; it goes on to report as an error only what
// has more than MaxTokens. If its view is not fewer tokens than view:
// ErrCannotShrink.
func (m *TokenBudgetManager) Reduce(_ context.Context, messages, view []Message) (HistoryPolicy, error) {
	size := m.count(view)
	limit := min(size/2, m.max)
	reduced := &TokenBudgetManager{limit, trimTo(limit), m.hard, m.counter}
	c, err := reduced.cut(messages)
	if err != nil {
		return nil, err
	}
	if m.count(c.view(messages)) >= size {
		return nil, errCannotShrink()
	}
	return reduced, nil
}

// reduceByBudget returns a policy that makes less of what p shows of messages
// than view is.
func reduceByBudget(ctx context.Context, p HistoryPolicy, messages, view []Message) (HistoryPolicy, error) {
	budget := &TokenBudgetManager{max: EstimateTokens(view), counter: EstimateTokens}
	return (&budgeted{chain{[]HistoryPolicy{p, budget}}}).Reduce(ctx, messages, view)
}

// budgeted is a policy with a TokenBudgetManager behind it, which alone is
// reduced.
type budgeted struct{ chain }

func (b *budgeted) Reduce(ctx context.Context, messages, view []Message) (HistoryPolicy, error) {
	shown, _, err := locate(ctx, b.policies[0], messages)
	if err != nil {
		return nil, err
	}
	budget, err := b.policies[1].(*TokenBudgetManager).Reduce(ctx, shown, view)
	if err != nil {
		return nil, err
	}
	return &budgeted{chain{[]HistoryPolicy{b.policies[0], budget}}}, nil
}

func errCannotShrink() error { return &Error{Op: "reduce", Err: ErrCannotShrink} }
