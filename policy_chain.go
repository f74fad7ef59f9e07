package session

import (
	"context"
	"errors"
	"slices"
)

// Chain returns a policy that applies policies one after the other, each to the
// view of the one before. Of none, the view is the history. Nil policies are
// left out.
//
// A policy that shortens messages stands before a budget, so that the budget
// is spent on shortened ones, and behind a window, where it has less to do:
//
//	Chain(truncator, budget)
//	Chain(window, truncator)
//
// Reduce tries the policies that are Reducers from the last to the first, and
// takes the first whose reduction makes the view of the chain half of what it
// was, by EstimateTokens; if none does, the one that makes it smallest. If none
// makes it smaller: ErrCannotShrink.
func Chain(policies ...HistoryPolicy) Reducer {
	return &chain{slices.DeleteFunc(slices.Clone(policies), func(p HistoryPolicy) bool { return p == nil })}
}

type chain struct{ policies []HistoryPolicy }

func (c *chain) Select(ctx context.Context, messages []Message) ([]Message, error) {
	view, at, err := c.locate(ctx, messages)
	if err != nil {
		return nil, err
	}
	return join(view, at), nil
}

func (c *chain) locate(ctx context.Context, messages []Message) ([]Message, []int, error) {
	view, at := messages[:len(messages):len(messages)], positions(0, len(messages))
	for _, p := range c.policies {
		shown, in, err := locate(ctx, p, view)
		if err != nil {
			return nil, nil, err
		}
		for k, i := range in {
			if i >= 0 {
				in[k] = at[i]
			}
		}
		view, at = shown, in
	}
	return view, at, nil
}

func (c *chain) fits(view []Message) bool {
	return !slices.ContainsFunc(c.policies, func(p HistoryPolicy) bool { return !fits(p, view) })
}

func (c *chain) reshape(view []Message) []Message {
	for _, p := range c.policies {
		view = reshape(p, view)
	}
	return view
}

// Reduce is described at [Chain].
func (c *chain) Reduce(ctx context.Context, messages, view []Message) (HistoryPolicy, error) {
	inputs := [][]Message{messages}
	for i, p := range c.policies {
		out, _, err := locate(ctx, p, inputs[i])
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, out)
	}
	size := EstimateTokens(view)
	var smallest *chain
	least := size
	for i, p := range slices.Backward(c.policies) {
		r, ok := p.(Reducer)
		if !ok {
			continue
		}
		reduced, n, err := c.reduceOne(ctx, i, r, inputs[i], inputs[i+1], size)
		switch {
		case errors.Is(err, ErrCannotShrink):
		case err != nil:
			return nil, err
		case n <= size/2:
			return reduced, nil
		case n < least:
			smallest, least = reduced, n
		}
	}
	if smallest == nil {
		return nil, errCannotShrink()
	}
	return smallest, nil
}

// reduceOne returns the chain with policy i, which is r and shows out of in,
// reduced so far that the view of the chain is half of size tokens, or as far
// as it goes in a few steps; and how many tokens that view is.
func (c *chain) reduceOne(ctx context.Context, i int, r Reducer, in, out []Message, size int) (*chain, int, error) {
	var (
		best  *chain
		least int
	)
	for range maxReductions {
		p, err := r.Reduce(ctx, in, out)
		if err != nil && best != nil && errors.Is(err, ErrCannotShrink) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		reduced := &chain{slices.Clone(c.policies)}
		reduced.policies[i] = p
		if out, _, err = locate(ctx, p, in); err != nil {
			return nil, 0, err
		}
		view, err := (&chain{c.policies[i+1:]}).Select(ctx, out)
		if err != nil {
			return nil, 0, err
		}
		if n := EstimateTokens(view); best == nil || n < least {
			best, least = reduced, n
		}
		next, ok := p.(Reducer)
		if !ok || least <= size/2 {
			break
		}
		r = next
	}
	return best, least, nil
}

// maxReductions is how often one Reduce makes a policy smaller at most. Each
// step about halves what the policy shows.
const maxReductions = 8
