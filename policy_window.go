package session

import (
	"context"
	"fmt"
)

// SlidingWindowOptions configures a SlidingWindowManager.
type SlidingWindowOptions struct {
	// WindowSize is how many turns a view has at most. It must be positive.
	WindowSize int

	// TrimTo is how far the window slides when it is full: turns are dropped
	// WindowSize - TrimTo at a time, so that a view has more than TrimTo turns
	// just after and grows to WindowSize before the next are dropped. The
	// closer it is to WindowSize, the more is shown, and the more often a
	// provider's prompt cache is lost. Default: half of WindowSize, rounded
	// up. With WindowSize it drops single turns.
	TrimTo int
}

// SlidingWindowManager shows the preamble, pinned messages and the last turns
// of a history. See [Turns] for what these are. If the first of these turns
// begins with results, the calls and the prompt of the turn before are shown too.
//
// What stays for a pin is whole: an assistant message with the results of its
// calls, behind the prompt of its turn. Messages of the user's side that come to
// stand side by side, because what was between them is gone, are shown as one,
// with the ID, Time and Metadata of the first; so it is in all policies.
//
// The number of turns in a history alone decides how many of them are dropped:
// the least multiple of WindowSize - TrimTo that leaves WindowSize or fewer. By
// default and from a WindowSize of 20 on, at least 45 of 50 views of a growing
// history that are a turn apart begin with the whole view before.
//
// Select looks at each message once. It needs memory for a view only if there
// is a preamble or a pin.
type SlidingWindowManager struct {
	window, step int
}

// NewSlidingWindowManager returns a SlidingWindowManager. If WindowSize is not
// positive, or TrimTo is negative or more than it: ErrInvalidOption.
func NewSlidingWindowManager(opts SlidingWindowOptions) (*SlidingWindowManager, error) {
	if opts.WindowSize <= 0 {
		return nil, invalidPolicy("window", "WindowSize is %d, not positive", opts.WindowSize)
	}
	if opts.TrimTo < 0 || opts.TrimTo > opts.WindowSize {
		return nil, invalidPolicy("window", "TrimTo is %d, not from 0 to WindowSize, %d", opts.TrimTo, opts.WindowSize)
	}
	if opts.TrimTo == 0 {
		opts.TrimTo = opts.WindowSize - opts.WindowSize/2
	}
	return &SlidingWindowManager{opts.WindowSize, max(opts.WindowSize-opts.TrimTo, 1)}, nil
}

func invalidPolicy(op, format string, args ...any) error {
	return &Error{Op: op, Err: fmt.Errorf("%w: "+format, append([]any{ErrInvalidOption}, args...)...)}
}

// Select returns the view of messages. Its error is nil.
func (m *SlidingWindowManager) Select(_ context.Context, messages []Message) ([]Message, error) {
	return m.cut(messages).view(messages), nil
}

func (m *SlidingWindowManager) locate(_ context.Context, messages []Message) ([]Message, []int, error) {
	view, at := m.cut(messages).locate(messages)
	return view, at, nil
}

func (m *SlidingWindowManager) cut(messages []Message) cut {
	turns, preamble := 0, len(messages)
	for i := range messages {
		if startsTurn(messages, i) {
			if turns == 0 {
				preamble = i
			}
			turns++
		}
	}
	if turns <= m.window {
		return cut{preamble: preamble, from: preamble}
	}
	dropped := (turns - m.window + m.step - 1) / m.step * m.step
	from := len(messages)
	for range turns - dropped {
		for from--; !startsTurn(messages, from); from-- {
		}
	}
	if answersAndAsks(messages, from) {
		for from--; !startsUnit(messages, from); from-- {
		}
	}
	return cutAt(messages, preamble, from)
}

// Reduce returns a policy that shows about half of view: of what Select shows,
// whole turns are dropped first, then tool rounds of the newest turn, oldest
// first. The preamble, pinned messages, the newest prompt and what follows the
// last call or answer after it stay; if these are not fewer tokens than view,
// by EstimateTokens: ErrCannotShrink.
func (m *SlidingWindowManager) Reduce(ctx context.Context, messages, view []Message) (HistoryPolicy, error) {
	return reduceByBudget(ctx, m, messages, view)
}
