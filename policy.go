package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
)

// HistoryPolicy chooses what of a history a model is shown: the view. The
// history itself, and what is stored, are never trimmed.
//
// Select returns the view of messages. The view keeps their order, satisfies
// [Validate] for every profile if messages do, and is the same for the same
// messages. As a history grows, views change rarely other than at their end, so
// that a provider's prompt cache stays warm. Select changes nothing that it is
// given; the view shares blocks with messages, and may be messages itself.
//
// A policy may be used by any number of goroutines.
type HistoryPolicy interface {
	Select(ctx context.Context, messages []Message) ([]Message, error)
}

// Reducer is a HistoryPolicy that can do with less.
type Reducer interface {
	HistoryPolicy
	// Reduce returns a policy whose view of messages is smaller than view,
	// which overflowed a model's context window. The receiver stays as it is.
	// If nothing smaller is left: ErrCannotShrink.
	Reduce(ctx context.Context, messages, view []Message) (HistoryPolicy, error)
}

// Summary stands for the first Through messages of a history.
type Summary struct {
	Text    string
	Through int    // how many messages of the history it covers
	Hash    string // PrefixHash of these
}

// SummaryKeeper keeps a session's summary between calls and between processes.
// A [Conversation] keeps it in the session's [Meta].
type SummaryKeeper interface {
	// KeptSummary returns the summary, the zero Summary if there is none.
	KeptSummary(ctx context.Context) (Summary, error)
	// KeepSummary keeps s in place of the one before.
	KeepSummary(ctx context.Context, s Summary) error
}

type summaryKeeperKey struct{}

// WithSummaryKeeper returns a context in which policies that summarize keep
// their summary with k.
func WithSummaryKeeper(ctx context.Context, k SummaryKeeper) context.Context {
	return context.WithValue(ctx, summaryKeeperKey{}, k)
}

// summaryKeeper returns the keeper of a context, or nil.
func summaryKeeper(ctx context.Context) SummaryKeeper {
	k, _ := ctx.Value(summaryKeeperKey{}).(SummaryKeeper)
	return k
}

// PrefixHash returns a hash of messages, in hexadecimal, by which a summary is
// recognised as one of them. It is the start of a SHA-256 over their JSON form.
func PrefixHash(messages []Message) (string, error) {
	h := sha256.New()
	var line []byte
	for _, m := range messages {
		var err error
		if line, err = AppendMessage(line[:0], m); err != nil {
			return "", err
		}
		h.Write(append(line, '\n'))
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// pinnedKey is the metadata that marks a pinned message, and is stored with it.
const pinnedKey = "pinned"

// Pin marks a message as pinned: policies keep it in every view, whole, with the
// calls and results that go with it and the prompt of its turn. The mark is
// stored with the message, in Metadata["pinned"].
func Pin(m *Message) {
	if m.Metadata == nil {
		m.Metadata = make(map[string]any)
	}
	m.Metadata[pinnedKey] = true
}

// Pinned reports whether a message is pinned.
func Pinned(m Message) bool {
	pinned, _ := m.Metadata[pinnedKey].(bool)
	return pinned
}
