package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorder is a Summarizer that notes what it is given. It answers with a
// summary that has a number, or as fail says.
type recorder struct {
	inputs [][]Message
	fail   func(ctx context.Context) (Message, error)
	errs   []error
}

func (r *recorder) Summarize(ctx context.Context, messages []Message) (Message, error) {
	r.inputs = append(r.inputs, messages)
	if r.fail != nil {
		return r.fail(ctx)
	}
	return AssistantText(fmt.Sprintf(" summary %d ", len(r.inputs))), nil
}

// input returns the texts of the last call's messages.
func (r *recorder) input() []string { return viewTexts(r.inputs[len(r.inputs)-1]) }

func (r *recorder) over(t testing.TB, fallback HistoryPolicy, extendAfter int) *SummarizationManager {
	t.Helper()
	m, err := NewSummarizationManager(SummarizationManagerOptions{Summarizer: r, Fallback: fallback, ExtendAfter: extendAfter,
		OnError: func(err error) { r.errs = append(r.errs, err) }})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// keeper is a SummaryKeeper in memory.
type keeper struct {
	kept              Summary
	readErr, writeErr error
}

func (k *keeper) KeptSummary(context.Context) (Summary, error) { return k.kept, k.readErr }
func (k *keeper) KeepSummary(_ context.Context, s Summary) error {
	if k.writeErr == nil {
		k.kept = s
	}
	return k.writeErr
}

func TestSummaryOptions(t *testing.T) {
	r, w := &recorder{}, windowOf(t, 1, 1)
	for _, opts := range []SummarizationManagerOptions{{}, {Summarizer: r}, {Fallback: w}, {Summarizer: r, Fallback: w, ExtendAfter: -1}} {
		if _, err := NewSummarizationManager(opts); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("NewSummarizationManager(%+v): %v, want ErrInvalidOption", opts, err)
		}
	}
}

const summaryPrefix = "user: [Summary of the conversation so far] "

func TestSummaryStandsForWhatIsDropped(t *testing.T) {
	messages := append([]Message{SystemText("be brief")}, policyTurns(4, 0)...)
	messages[0].ID = "system"
	Pin(&messages[4]) // answer 1
	r := &recorder{}
	m := r.over(t, windowOf(t, 2, 2), 1)
	if view := selected(t, m, messages[:5]); len(view) != 5 || len(r.inputs) != 0 {
		t.Errorf("before anything is dropped: %q, %d calls", viewTexts(view), len(r.inputs))
	}
	want := []string{"system: be brief", summaryPrefix + "summary 1 prompt 1", "assistant: answer 1",
		"user: prompt 2", "assistant: answer 2", "user: prompt 3", "assistant: answer 3"}
	if diff := cmp.Diff(want, viewTexts(selected(t, m, messages))); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"user: prompt 0", "assistant: answer 0"}, r.input()); diff != "" {
		t.Errorf("summarized (-want +got):\n%s", diff)
	}
	more := append(slices.Clip(messages), policyTurn("4", 0)...)
	selected(t, m, more)
	if diff := cmp.Diff([]string{summaryPrefix + "summary 1 prompt 2", "assistant: answer 2"}, r.input()); diff != "" {
		t.Errorf("then summarized (-want +got):\n%s", diff)
	}
	if !IsSummary(r.inputs[1][0]) || IsSummary(messages[1]) {
		t.Error("IsSummary does not tell the summary")
	}
	selected(t, m, more)
	if len(r.inputs) != 2 {
		t.Errorf("%d calls, want 2", len(r.inputs))
	}
}

// A turn that is cut in its middle: the rounds are covered, the prompt is
// shown, and neither is given to the summarizer twice.
func TestSummaryOfRounds(t *testing.T) {
	r := &recorder{}
	m := r.over(t, countedBudget(t, 60, 40), 1)
	messages := policyTurn("long", 5)
	view := selected(t, m, messages[:7])
	want := []string{summaryPrefix + "summary 1 prompt long", `assistant: [long-2 look({"at":"long-2"})]`, "tool: [long-2 -> seen long-2]"}
	if diff := cmp.Diff(want, viewTexts(view)); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	var given []string
	for n := 8; n <= len(messages); n++ {
		if viewProblem(messages[:n]) == "" {
			selected(t, m, messages[:n])
		}
	}
	for _, input := range r.inputs {
		for _, text := range viewTexts(input) {
			if !strings.HasPrefix(text, summaryPrefix) {
				given = append(given, text)
			}
		}
	}
	if diff := cmp.Diff(viewTexts(messages)[:len(given)], given); diff != "" {
		t.Errorf("given to the summarizer in all (-want +got):\n%s", diff)
	}
}

func TestSummaryIsKept(t *testing.T) {
	messages := policyTurns(6, 1)
	k := &keeper{}
	ctx := WithSummaryKeeper(t.Context(), k)
	first, again := &recorder{}, &recorder{}
	if _, err := first.over(t, windowOf(t, 2, 2), 1).Select(ctx, messages); err != nil {
		t.Fatal(err)
	}
	hash, err := PrefixHash(messages[:16])
	if err != nil {
		t.Fatal(err)
	}
	if want := (Summary{"summary 1", 16, hash}); k.kept != want {
		t.Errorf("kept %+v, want %+v", k.kept, want)
	}
	other := again.over(t, windowOf(t, 2, 2), 1) // another process
	view, err := other.Select(ctx, messages)
	if err != nil || len(again.inputs) != 0 || !strings.Contains(view[0].Text(), "summary 1") {
		t.Errorf("after a restart: %q, %v, %d calls", viewTexts(view), err, len(again.inputs))
	}
	changed := CloneMessages(messages)
	changed[3].Content = []Block{Text("another answer")}
	if _, err := other.Select(ctx, changed); err != nil || len(again.inputs) != 1 || len(again.inputs[0]) != 16 {
		t.Errorf("of another history: %v, %d calls", err, len(again.inputs))
	}
}

// A keeper that fails costs no summary, and is reported.
func TestSummaryKeeperFails(t *testing.T) {
	for name, fail := range map[string]func(k *keeper){
		"reading": func(k *keeper) { k.readErr = errors.ErrUnsupported },
		"writing": func(k *keeper) { k.writeErr = errors.ErrUnsupported },
	} {
		r, k := &recorder{}, &keeper{}
		m := r.over(t, windowOf(t, 2, 2), 1)
		ctx := WithSummaryKeeper(t.Context(), k)
		if _, err := m.Select(ctx, policyTurns(6, 1)); err != nil {
			t.Fatal(err)
		}
		fail(k)
		for range 3 {
			view, err := m.Select(ctx, policyTurns(7, 1))
			if err != nil || !strings.Contains(view[0].Text(), "summary 2") {
				t.Errorf("%s: view = %q, %v", name, viewTexts(view), err)
			}
		}
		if len(r.inputs) != 2 || len(r.errs) == 0 || !errors.Is(r.errs[0], errors.ErrUnsupported) {
			t.Errorf("%s: %d calls, errors %v", name, len(r.inputs), r.errs)
		}
	}
}

// C48: a summarizer that fails, and one that is called for each turn.
func TestPolicyFailingSummarizer(t *testing.T) {
	failed := errors.New("Error generating summary")
	for name, fail := range map[string]func(ctx context.Context) (Message, error){
		"an error":             func(context.Context) (Message, error) { return AssistantText(failed.Error()), failed },
		"no text":              func(context.Context) (Message, error) { return AssistantText(" \n"), nil },
		"nothing":              func(context.Context) (Message, error) { return Message{}, nil },
		"invalid text":         func(context.Context) (Message, error) { return AssistantText("half a \xf0\x9f"), nil },
		"after the deadline":   func(ctx context.Context) (Message, error) { <-ctx.Done(); return AssistantText("late"), nil },
		"the deadline's error": func(ctx context.Context) (Message, error) { <-ctx.Done(); return Message{}, ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{fail: fail}
			m := r.over(t, windowOf(t, 10, 0), 0)
			k := &keeper{}
			messages := policyTurns(20, 0)
			before := CloneMessages(messages)
			ctx, cancel := context.WithTimeout(WithSummaryKeeper(t.Context(), k), time.Millisecond)
			defer cancel()
			for n := range 2 {
				view, err := m.Select(ctx, messages)
				if err != nil || !EqualMessages(view, messages) {
					t.Errorf("view = %q, %v, want all messages", viewTexts(view), err)
				}
				if len(r.inputs) != n+1 || len(r.errs) != n+1 {
					t.Errorf("%d calls, %d errors reported, want %d", len(r.inputs), len(r.errs), n+1)
				}
			}
			var e *Error
			if !errors.As(r.errs[0], &e) || e.Op != "summarize" {
				t.Errorf("reported %v", r.errs[0])
			}
			if k.kept != (Summary{}) || !EqualMessages(messages, before) {
				t.Errorf("kept %+v", k.kept)
			}
			r.fail = nil
			view, err := m.Select(WithSummaryKeeper(t.Context(), k), messages)
			if err != nil || len(view) != 20 || !IsSummary(view[0]) || k.kept.Through != 20 {
				t.Errorf("afterwards: %q, %v, kept %+v", viewTexts(view), err, k.kept)
			}
		})
	}
}

func TestPolicyOneSummaryInTenTurns(t *testing.T) {
	for _, size := range []int{1, 2, 3, 5, 6, 10, 15} {
		r := &recorder{}
		m := r.over(t, windowOf(t, size, 0), 0)
		last := selected(t, m, policyTurns(20, 0))
		for n := 21; n <= 40; n++ {
			view := selected(t, m, policyTurns(n, 0))
			if calls := len(r.inputs); calls > 1+(n-11)/10 {
				t.Errorf("window of %d: %d calls after %d turns", size, calls, n-20)
			}
			if strings.Count(strings.Join(viewTexts(view), ""), "Summary of") != 1 {
				t.Errorf("window of %d: view = %q", size, viewTexts(view))
			}
			if !startsWith(view, last) && len(r.inputs) == 1 {
				t.Errorf("window of %d: the view changed without a new summary", size)
			}
			last = view
		}
		if len(r.inputs) < 2 {
			t.Errorf("window of %d: the summary was never extended", size)
		}
	}
}

// Messages that are long do not wait for others.
func TestSummaryOfLongMessagesIsExtendedAtOnce(t *testing.T) {
	r := &recorder{}
	m := r.over(t, windowOf(t, 2, 2), 0)
	messages := policyTurns(5, 0)
	messages[6].Content = []Block{Text("prompt 3 " + strings.Repeat("long ", 2000))}
	selected(t, m, messages[:8])
	selected(t, m, append(messages[:10:10], policyTurn("5", 0)...))
	if len(r.inputs) != 2 {
		t.Errorf("%d calls, want 2", len(r.inputs))
	}
}

func TestSummaryOfARangeWithoutUserText(t *testing.T) {
	r := &recorder{}
	m := r.over(t, windowOf(t, 1, 1), 1)
	messages := policyTurns(2, 1)
	messages[0].Content = []Block{image(9)}
	if view := selected(t, m, messages); !IsSummary(view[0]) || len(r.inputs[0]) != 4 {
		t.Errorf("view = %q", viewTexts(view))
	}
}

// With a budget that has no room for what no summary covers, the view is the
// budget's own.
func TestSummaryFailsWithinABudget(t *testing.T) {
	r := &recorder{}
	b := countedBudget(t, 200, 200)
	m := r.over(t, b, 1)
	selected(t, m, policyTurns(6, 1))
	r.fail = func(context.Context) (Message, error) { return Message{}, errors.ErrUnsupported }
	messages := policyTurns(7, 1)
	view := selected(t, m, messages)
	own := selected(t, b, messages)
	want := append([]Message{joinMessages(summaryMessage(Summary{Text: "summary 1"}), own[0])}, own[1:]...)
	if diff := cmp.Diff(viewTexts(want), viewTexts(view)); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
}

func TestSummaryShowsWhatWaitsAsTheFallbackWould(t *testing.T) {
	r := &recorder{}
	m := r.over(t, Chain(windowOf(t, 2, 2), truncatorOf(t, ToolResultTruncatorOptions{MaxBytes: 64})), 0)
	messages := policyTurns(6, 1)
	for i := 2; i < len(messages); i += 4 {
		messages[i].Content[0].(*ToolResultBlock).Content = []Block{Text(strings.Repeat("seen ", 50))}
	}
	last := selected(t, m, messages[:16])
	for n := 20; n <= 24; n += 4 {
		view := selected(t, m, messages[:n])
		if !startsWith(view, last) || len(view) != 8+n-16 {
			t.Errorf("view = %q", viewTexts(view))
		}
		last = view
	}
}

func TestSummaryOverAnotherPolicy(t *testing.T) {
	lastOnes := policyFunc(func(_ context.Context, messages []Message) ([]Message, error) {
		return append(messages[:1:1], messages[max(1, len(messages)-2):]...), nil
	})
	r := &recorder{}
	messages := append([]Message{SystemText("be brief")}, policyTurns(3, 0)...)
	messages[0].ID = "system"
	view := selected(t, r.over(t, lastOnes, 1), messages)
	want := []string{"system: be brief", summaryPrefix + "summary 1 prompt 2", "assistant: answer 2"}
	if diff := cmp.Diff(want, viewTexts(view)); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	if got := len(r.inputs[0]); got != 4 {
		t.Errorf("%d messages were summarized, want 4", got)
	}
}

// A policy that cuts inside a tool round: the summary ends before it.
func TestSummaryEndsAtAUnit(t *testing.T) {
	lastOnes := policyFunc(func(_ context.Context, messages []Message) ([]Message, error) {
		return messages[len(messages)-2:], nil
	})
	k := &keeper{}
	if _, err := (&recorder{}).over(t, lastOnes, 1).Select(WithSummaryKeeper(t.Context(), k), policyTurns(2, 1)); err != nil {
		t.Fatal(err)
	}
	if k.kept.Through != 5 {
		t.Errorf("the summary covers %d messages, want those before the round, 5", k.kept.Through)
	}
}

// Policies behind a summary keep it.
func TestSummaryStaysInAChain(t *testing.T) {
	messages := policyTurns(10, 1)
	chain := Chain((&recorder{}).over(t, windowOf(t, 5, 5), 0), countedBudget(t, 100, 100))
	view := selected(t, chain, messages)
	if !IsSummary(view[0]) || len(view) > 10 || len(view) < 5 {
		t.Errorf("view = %q", viewTexts(view))
	}
}

func TestSummaryReduceIsWorthACall(t *testing.T) {
	m := (&recorder{}).over(t, windowOf(t, 10, 10), 0)
	selected(t, m, policyTurns(20, 0))
	messages := policyTurns(21, 0)
	view := selected(t, m, messages)
	reduced, err := m.Reduce(t.Context(), messages, view)
	if err != nil {
		t.Fatal(err)
	}
	if got, before := EstimateTokens(selected(t, reduced, messages)), EstimateTokens(view); got > before*3/4 {
		t.Errorf("%d tokens after %d", got, before)
	}
}

func TestSummaryIsRememberedForEachSession(t *testing.T) {
	r := &recorder{}
	m := r.over(t, windowOf(t, 1, 1), 1)
	sessions := make([][]Message, 2*maxSummaries)
	for i := range sessions {
		sessions[i] = append([]Message{UserText(fmt.Sprint("session ", i))}, policyTurns(3, 0)...)
		if _, err := m.Select(t.Context(), sessions[i]); err != nil {
			t.Fatal(err)
		}
	}
	calls := len(r.inputs)
	view, err := m.Select(t.Context(), sessions[len(sessions)-1])
	if err != nil || len(r.inputs) != calls || !strings.Contains(view[0].Text(), fmt.Sprint("summary ", calls)) {
		t.Errorf("view = %q, %v, %d calls more", viewTexts(view), err, len(r.inputs)-calls)
	}
	if got := len(m.memory.entries); got != maxSummaries {
		t.Errorf("%d summaries are remembered, want %d", got, maxSummaries)
	}
}

// Reduced, nothing is shown any more that Fallback drops, summary or not.
func TestSummaryReduceWithoutASummary(t *testing.T) {
	r := &recorder{fail: func(context.Context) (Message, error) { return Message{}, errors.ErrUnsupported }}
	m := r.over(t, windowOf(t, 5, 5), 0)
	messages := policyTurns(20, 0)
	view := selected(t, m, messages)
	if len(view) != len(messages) {
		t.Errorf("at first the view has %d messages", len(view))
	}
	reduced, err := m.Reduce(t.Context(), messages, view)
	if err != nil {
		t.Fatal(err)
	}
	view = selected(t, reduced, messages)
	if diff := cmp.Diff(viewTexts(messages[30:]), viewTexts(view)); diff != "" {
		t.Errorf("reduced (-want +got):\n%s", diff)
	}
	if reduced, err = reduced.(Reducer).Reduce(t.Context(), messages, view); err != nil {
		t.Fatal(err)
	}
	if got := len(selected(t, reduced, messages)); got >= 10 {
		t.Errorf("reduced again, %d messages are left", got)
	}
}
