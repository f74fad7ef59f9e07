package session

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"
)

// Summarizer makes a summary of messages, usually by asking a model.
type Summarizer interface {
	// Summarize returns a message whose text says in short what messages say.
	// These are what a history lost, [Repair]ed so that a model can be shown
	// them as they are; it must not change them. The first may begin with an
	// earlier summary, see [IsSummary]; the new one must say what that does
	// too. Of the returned message, only the text counts.
	Summarize(ctx context.Context, messages []Message) (Message, error)
}

// SummarizationManagerOptions configures a SummarizationManager.
type SummarizationManagerOptions struct {
	// Summarizer makes the summaries. It is required.
	Summarizer Summarizer

	// Fallback decides what is dropped, and so summarized. It is required. The
	// summary comes on top of what it shows: leave room for it.
	Fallback HistoryPolicy

	// ExtendAfter is how many turns Fallback must drop beyond those that the
	// summary covers for the summary to be extended. Until then they are shown,
	// as long as they are short (2,000 tokens together, by EstimateTokens) and
	// a TokenBudgetManager in Fallback has room for them. Default: 10. With 1
	// the summary follows Fallback at once.
	ExtendAfter int

	// OnError is told what went wrong with a summary or its keeper, an *Error
	// of Op "summarize". Default: a warning of the default logger of log/slog.
	OnError func(error)
}

// SummarizationManager shows a summary in place of the messages that another
// policy drops: behind the preamble, as the first text block of the user
// message there. See [IsSummary]. Nothing else stands for what was dropped.
//
// A summary is made when Fallback first drops something. It is kept, and later
// extended: the summarizer is given the summary and the messages dropped since,
// never again those that it covers. The summary is kept with the [SummaryKeeper]
// of the context; one whose hash is not that of the history's own messages is
// not used. The last 128 summaries are also remembered in this process.
//
// If there is no summary to be had, because the summarizer returned an error or
// no text, or the context ended, OnError is told, the error is not returned, and
// the next Select tries again. What no summary covers is shown meanwhile: the
// view is what it would be had Fallback not dropped more. Only where that is
// more than a TokenBudgetManager in Fallback allows, or in a reduced policy, is
// it Fallback's own view, behind the earlier summary if there is one.
type SummarizationManager struct {
	opts    SummarizationManagerOptions
	memory  *summaryMemory
	reduced bool // what Fallback drops is never shown
}

// shortTokens is what messages that wait for a summary have at most.
const shortTokens = 2000

// NewSummarizationManager returns a SummarizationManager. If Summarizer or
// Fallback is nil, or ExtendAfter is negative: ErrInvalidOption.
func NewSummarizationManager(opts SummarizationManagerOptions) (*SummarizationManager, error) {
	if opts.Summarizer == nil {
		return nil, invalidPolicy("summarize", "Summarizer is nil")
	}
	if opts.Fallback == nil {
		return nil, invalidPolicy("summarize", "Fallback is nil")
	}
	if opts.ExtendAfter < 0 {
		return nil, invalidPolicy("summarize", "ExtendAfter is %d, negative", opts.ExtendAfter)
	}
	if opts.ExtendAfter == 0 {
		opts.ExtendAfter = 10
	}
	if opts.OnError == nil {
		opts.OnError = func(err error) { slog.Warn("session: no summary", "error", err) }
	}
	return &SummarizationManager{opts: opts, memory: &summaryMemory{}}, nil
}

// summaryMark is the metadata of a message in a view that begins with a summary.
const summaryMark = "summary"

// IsSummary reports whether a message of a view begins with a summary, in a
// text block of its own. If it has more, that is the prompt after it.
func IsSummary(m Message) bool {
	mark, _ := m.Metadata[summaryMark].(bool)
	return mark
}

func summaryMessage(s Summary) Message {
	m := UserText("[Summary of the conversation so far]\n" + s.Text)
	m.Metadata = map[string]any{summaryMark: true}
	Pin(&m) // for policies behind this one
	return m
}

// Select returns the view of messages. Its error is Fallback's.
func (m *SummarizationManager) Select(ctx context.Context, messages []Message) ([]Message, error) {
	view, at, err := locate(ctx, m.opts.Fallback, messages)
	if err != nil {
		return nil, err
	}
	preamble := preambleOf(messages)
	from := shownFrom(messages, at)
	if from <= preamble {
		return join(view, at), nil
	}
	kept := m.recall(ctx, messages)
	if kept.Through < from {
		held := m.held(messages, preamble, kept)
		if kept.Through > 0 && !m.reduced && m.waits(messages, kept.Through, from) && fits(m.opts.Fallback, held) {
			return held, nil
		}
		extended, err := m.extend(ctx, messages, preamble, kept, from)
		if err != nil {
			m.report(err)
			if !m.reduced && fits(m.opts.Fallback, held) {
				return held, nil
			}
		} else {
			kept = extended
		}
	}
	return withSummary(view, at, preambleShown(at, preamble), kept), nil
}

// shownFrom returns where the last part of messages begins that is shown
// without a gap, or 0 if that can't be told. It begins a unit.
func shownFrom(messages []Message, at []int) int {
	from := len(messages)
	for k := len(at) - 1; k >= 0 && at[k] == from-1; k-- {
		from--
	}
	if from == len(messages) {
		return 0
	}
	for from > 0 && !startsUnit(messages, from) {
		from--
	}
	return from
}

// preambleShown returns how many messages of the preamble a view begins with.
func preambleShown(at []int, preamble int) int {
	n := 0
	for n < len(at) && n < preamble && at[n] == n {
		n++
	}
	return n
}

// withSummary returns a view with a summary, if there is one, behind its first
// n messages.
func withSummary(view []Message, at []int, n int, s Summary) []Message {
	if s.Text != "" {
		view = slices.Concat(view[:n], []Message{summaryMessage(s)}, view[n:])
		at = slices.Concat(at[:n], []int{inserted}, at[n:])
	}
	return join(view, at)
}

// held returns the view of messages that has all that s doesn't cover.
func (m *SummarizationManager) held(messages []Message, preamble int, s Summary) []Message {
	view, at := cutAt(messages, preamble, s.Through).locate(messages)
	return withSummary(reshape(m.opts.Fallback, view), at, preamble, s)
}

// waits reports whether the messages from first to end are too little for a
// summary to be extended by them.
func (m *SummarizationManager) waits(messages []Message, first, end int) bool {
	turns := 0
	for i := first; i < end; i++ {
		if startsTurn(messages, i) {
			turns++
		}
	}
	return turns < m.opts.ExtendAfter && EstimateTokens(messages[first:end]) <= shortTokens
}

// extend returns a summary of the messages up to from, made of the earlier one
// and of what that doesn't cover.
func (m *SummarizationManager) extend(ctx context.Context, messages []Message, preamble int, earlier Summary, from int) (Summary, error) {
	input := unpinned(messages, max(earlier.Through, preamble), from)
	if len(input) == 0 {
		return earlier, nil
	}
	if earlier.Text != "" {
		input = slices.Insert(input, 0, summaryMessage(earlier))
	}
	hash, err := PrefixHash(messages[:from])
	if err != nil {
		return Summary{}, err
	}
	reply, err := m.opts.Summarizer.Summarize(ctx, Repair(input))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Summary{}, err
	}
	text := strings.TrimSpace(reply.Text())
	if text == "" || !utf8.ValidString(text) {
		return Summary{}, fmt.Errorf("%w: a summary without text or of invalid UTF-8", ErrInvalidMessage)
	}
	s := Summary{Text: text, Through: from, Hash: hash}
	m.memory.add(s, messages)
	if keeper := summaryKeeper(ctx); keeper != nil {
		if err := keeper.KeepSummary(ctx, s); err != nil {
			m.report(err)
		}
	}
	return s, nil
}

// unpinned returns the messages from first to end, both of which begin units,
// that do not stay for a pin, as a new slice.
func unpinned(messages []Message, first, end int) (rest []Message) {
	d := dropper{messages: messages, next: first}
	for d.next < end {
		d.drop()
	}
	for _, s := range append(d.kept, span{end, end}) {
		if s.first > first {
			rest = append(rest, messages[first:s.first]...)
		}
		first = max(first, s.end)
	}
	return rest
}

// recall returns the summary that covers most of messages, the zero Summary if
// none does.
func (m *SummarizationManager) recall(ctx context.Context, messages []Message) Summary {
	found := m.memory.find(messages)
	keeper := summaryKeeper(ctx)
	if keeper == nil {
		return found
	}
	s, err := keeper.KeptSummary(ctx)
	if err != nil {
		m.report(err)
		return found
	}
	if s.Through > found.Through && s.Text != "" && covers(s, messages) {
		return s
	}
	return found
}

func (m *SummarizationManager) report(err error) {
	m.opts.OnError(&Error{Op: "summarize", Err: err})
}
