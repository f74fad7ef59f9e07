package session

import (
	"context"
	"slices"
	"sync"
)

// maxSummaries is how many summaries a process remembers for each
// SummarizationManager.
const maxSummaries = 128

// summaryMemory remembers summaries, whatever session they are of: each is
// found again by the hash of what it covers.
type summaryMemory struct {
	mu      sync.Mutex
	entries []rememberedSummary // the oldest first
}

type rememberedSummary struct {
	Summary
	last string // PrefixHash of the last message that it covers
}

func (c *summaryMemory) add(s Summary, messages []Message) {
	last, err := PrefixHash(messages[s.Through-1 : s.Through])
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = slices.DeleteFunc(c.entries, func(e rememberedSummary) bool { return e.Hash == s.Hash })
	if len(c.entries) == maxSummaries {
		c.entries = slices.Delete(c.entries, 0, 1)
	}
	c.entries = append(c.entries, rememberedSummary{s, last})
}

// find returns the summary that covers most of messages, the zero Summary if
// none does.
func (c *summaryMemory) find(messages []Message) (found Summary) {
	c.mu.Lock()
	entries := slices.Clone(c.entries)
	c.mu.Unlock()
	for _, e := range slices.Backward(entries) {
		if e.Through <= found.Through || e.Through > len(messages) {
			continue
		}
		last, err := PrefixHash(messages[e.Through-1 : e.Through])
		if err == nil && last == e.last && covers(e.Summary, messages) {
			found = e.Summary
		}
	}
	return found
}

// covers reports whether s is of the first messages of messages.
func covers(s Summary, messages []Message) bool {
	if s.Through <= 0 || s.Through > len(messages) {
		return false
	}
	hash, err := PrefixHash(messages[:s.Through])
	return err == nil && hash == s.Hash
}

// Reduce returns a policy that shows less than view: what Fallback drops, at
// once and even if there is no summary of it, and then what its reduction
// drops. If that is not fewer tokens than view, by EstimateTokens:
// ErrCannotShrink.
func (m *SummarizationManager) Reduce(ctx context.Context, messages, view []Message) (HistoryPolicy, error) {
	size := EstimateTokens(view)
	reduced := &SummarizationManager{m.opts, m.memory, true}
	enough := size - size/4
	for range maxReductions {
		shown, err := reduced.Select(ctx, messages)
		if err != nil {
			return nil, err
		}
		if n := EstimateTokens(shown); n < size && n <= enough {
			return reduced, nil
		}
		enough = size
		fallback, err := reduceFallback(ctx, reduced.opts.Fallback, messages)
		if err != nil {
			return nil, err
		}
		reduced = &SummarizationManager{m.opts, m.memory, true}
		reduced.opts.Fallback = fallback
	}
	return nil, errCannotShrink()
}

// reduceFallback returns a policy that shows less of messages than p.
func reduceFallback(ctx context.Context, p HistoryPolicy, messages []Message) (HistoryPolicy, error) {
	view, err := p.Select(ctx, messages)
	if err != nil {
		return nil, err
	}
	if r, ok := p.(Reducer); ok {
		return r.Reduce(ctx, messages, view)
	}
	return reduceByBudget(ctx, p, messages, view)
}
