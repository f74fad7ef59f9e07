package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

// tightModel overflows on views of more than so many tokens, and notes the size
// of each that it was sent.
type tightModel struct {
	limit int
	calls []int
}

func (m *tightModel) model() session.Model {
	return modelFunc(func(_ context.Context, r session.ModelRequest) (session.Message, error) {
		size := session.EstimateTokens(r.Messages)
		m.calls = append(m.calls, size)
		if size > m.limit {
			return session.Message{}, fmt.Errorf("provider: %w", session.ErrContextOverflow)
		}
		return session.AssistantText("ok"), nil
	})
}

// heavyHistory is ten small turns and one with three tool results of so many
// tokens each.
func heavyHistory(tokens int) []session.Message {
	var h []session.Message
	for i := range 10 {
		h = append(h, session.UserText(fmt.Sprint("q", i)), session.AssistantText(fmt.Sprint("a", i)))
	}
	h = append(h, session.UserText("read these"))
	for i := range 3 {
		id := fmt.Sprint("big", i)
		h = append(h, session.NewMessage(session.RoleAssistant, session.ToolUse(id, "read", "{}")),
			session.ToolResults(session.ToolResult(id, "read", strings.Repeat("some text of ours\n", tokens*4/18))))
	}
	return append(h, session.AssistantText("read"))
}

// Recovery is bounded, shrinks each time or stops, and ends with the provider's
// own error: C47.
func TestOverflowRecovery(t *testing.T) {
	truncator, err := session.NewToolResultTruncator(session.ToolResultTruncatorOptions{MaxBytes: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		policy  session.HistoryPolicy
		limit   int
		retries int
		fits    bool
	}{
		"the window shrinks":            {mustWindow(t, 20), 100_000, 6, true},
		"results are cut":               {session.Chain(mustWindow(t, 20), truncator), 50_000, 6, true},
		"a model that always overflows": {session.Chain(mustWindow(t, 20), truncator), 0, 6, false},
		"a policy that can't do less":   {onlySelect{mustWindow(t, 20)}, 100_000, 6, false},
		"no retries left":               {mustWindow(t, 20), 1, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New(nil)
			history := heavyHistory(60_000)
			if err := store.Save(t.Context(), "s", history); err != nil {
				t.Fatal(err)
			}
			m := &tightModel{limit: test.limit}
			hooks := session.NewHookRegistry(plugin(store, nil),
				session.NewTrimmingPlugin(session.TrimmingPluginOptions{Policy: test.policy, AutoRecover: true, MaxRetries: test.retries}))
			err := drain(session.Run(withSession(t.Context(), "s"), m.model(), session.UserText("and now?"), &session.RunOptions{Hooks: hooks}))
			if test.fits && err != nil || !test.fits && !errors.Is(err, session.ErrContextOverflow) {
				t.Errorf("Run = %v, want it to fit: %v, and else the provider's overflow", err, test.fits)
			}
			if len(m.calls) > 9 {
				t.Errorf("%d model calls, want fewer than 10", len(m.calls))
			}
			for i := 1; i < len(m.calls); i++ {
				if m.calls[i] >= m.calls[i-1] {
					t.Errorf("view sizes %v: the one at %d is not smaller", m.calls, i)
				}
			}
			got, err := store.Load(t.Context(), "s")
			if err != nil || !session.EqualMessages(got[:len(history)], history) {
				t.Errorf("the stored history was changed (%v)", err)
			}
		})
	}
}

// onlySelect hides a policy's Reduce.
type onlySelect struct{ session.HistoryPolicy }

func TestAStreamKeepsTheLowerLimitAndOthersDont(t *testing.T) {
	hooks := session.NewHookRegistry(session.NewTrimmingPlugin(session.TrimmingPluginOptions{
		Policy: mustWindow(t, 20), AutoRecover: true, MaxRetries: 2}))
	session.OnBefore(hooks, func(_ context.Context, e *session.BeforeStreamHook) error {
		e.Messages = append(heavyHistory(10), e.Messages...)
		return nil
	})
	for range 2 { // the second stream begins at the plugin's limit again
		var turns []int
		model := modelFunc(func(_ context.Context, r session.ModelRequest) (session.Message, error) {
			n := len(session.Turns(r.Messages))
			turns = append(turns, n)
			if n > 8 {
				return session.Message{}, session.ErrContextOverflow
			}
			if len(turns) < 6 {
				return session.NewMessage(session.RoleAssistant, session.ToolUse(fmt.Sprint("c", len(turns)), "echo", "{}")), nil
			}
			return session.AssistantText("ok"), nil
		})
		if err := drain(session.Run(t.Context(), model, session.UserText("q"), &session.RunOptions{Hooks: hooks, Tools: []session.Tool{echoTool()}})); err != nil {
			t.Fatal(err)
		}
		if turns[0] <= 8 || turns[1] > 8 {
			t.Errorf("turns in the views: %v, want an overflow first and then fewer", turns)
		}
		for _, n := range turns[1:] {
			if n > 8 {
				t.Errorf("turns in the views: %v, want the lower limit kept", turns)
			}
		}
	}
}

func TestSummariesAreKeptWithTheSession(t *testing.T) {
	store := memstore.New(nil)
	calls := 0
	summarize := func() *session.SummarizationManager {
		s, err := session.NewSummarizationManager(session.SummarizationManagerOptions{
			Fallback: mustWindow(t, 4),
			Summarizer: summarizerFunc(func(_ context.Context, m []session.Message) (session.Message, error) {
				calls++
				return session.AssistantText(fmt.Sprintf("what was said in %d messages", len(m))), nil
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	seen := 0
	for n := range 20 {
		// A new process each time: nothing but the store remembers.
		hooks := session.NewHookRegistry(plugin(store, nil), session.NewTrimmingPlugin(session.TrimmingPluginOptions{Policy: summarize()}))
		model := &script{answers: []session.Message{session.AssistantText(fmt.Sprint("a", n))}}
		if err := drain(session.Run(withSession(t.Context(), "s"), model, session.UserText(fmt.Sprint("q", n)), &session.RunOptions{Hooks: hooks})); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(model.sent[0]), "what was said in") {
			seen++
		}
	}
	info, err := store.Info(t.Context(), "s")
	if err != nil || info.Summary == "" || info.SummaryThrough == 0 || info.Messages != 40 {
		t.Errorf("Info = %+v, %v, want a summary and all 40 messages", info, err)
	}
	if seen < 10 || calls == 0 || calls > 17 {
		t.Errorf("%d of 20 views had a summary, by %d calls of the summarizer; want most views, and calls only when something was left out", seen, calls)
	}
}

type summarizerFunc func(ctx context.Context, messages []session.Message) (session.Message, error)

func (f summarizerFunc) Summarize(ctx context.Context, messages []session.Message) (session.Message, error) {
	return f(ctx, messages)
}

func TestTrimmingPluginWithoutAPolicy(t *testing.T) {
	hooks := session.NewHookRegistry(session.NewTrimmingPlugin(session.TrimmingPluginOptions{}))
	err := drain(session.Run(t.Context(), &script{}, session.UserText("q"), &session.RunOptions{Hooks: hooks}))
	if !errors.Is(err, session.ErrInvalidOption) {
		t.Errorf("Run = %v, want ErrInvalidOption", err)
	}
}

func TestSessionPluginWithoutWhatItNeeds(t *testing.T) {
	failing := errors.New("no user")
	for name, test := range map[string]struct {
		opts session.SessionPluginOptions
		want error
	}{
		"no store":    {session.SessionPluginOptions{ResolveID: resolve}, session.ErrInvalidOption},
		"no resolver": {session.SessionPluginOptions{Store: memstore.New(nil)}, session.ErrInvalidOption},
		"a resolver that fails": {session.SessionPluginOptions{Store: memstore.New(nil),
			ResolveID: func(context.Context) (string, error) { return "", failing }}, failing},
		"an invalid ID": {session.SessionPluginOptions{Store: memstore.New(nil),
			ResolveID: func(context.Context) (string, error) { return "", nil }}, session.ErrInvalidID},
	} {
		hooks := session.NewHookRegistry(session.NewSessionPlugin(test.opts))
		if err := drain(session.Run(t.Context(), &script{}, session.UserText("q"), &session.RunOptions{Hooks: hooks})); !errors.Is(err, test.want) {
			t.Errorf("%s: Run = %v, want %v", name, err, test.want)
		}
	}
}
