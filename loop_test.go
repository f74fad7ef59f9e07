package session_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

// streaming is a model that sends pieces and then waits for the context.
type streaming struct {
	pieces []string
	sent   chan struct{} // closed when all pieces are out
}

func (s *streaming) Invoke(ctx context.Context, _ session.ModelRequest) iter.Seq2[session.ModelEvent, error] {
	return func(yield func(session.ModelEvent, error) bool) {
		for _, p := range s.pieces {
			if !yield(session.ModelEvent{Delta: p}, nil) {
				return
			}
		}
		close(s.sent)
		<-ctx.Done()
		yield(session.ModelEvent{}, ctx.Err())
	}
}

// What was produced before a cancellation is stored: C35.
func TestCancelledRunKeepsWhatCame(t *testing.T) {
	store := memstore.New(nil)
	ctx, cancel := context.WithCancel(withSession(t.Context(), "s"))
	model := &streaming{pieces: []string{"par", "tial"}, sent: make(chan struct{})}
	go func() {
		<-model.sent
		cancel()
	}()
	err := drain(session.Run(ctx, model, session.UserText("q"), &session.RunOptions{Hooks: session.NewHookRegistry(plugin(store, nil))}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want the context's error", err)
	}
	got, err := store.Load(t.Context(), "s")
	if err != nil || len(got) != 2 || got[1].Text() != "partial" || got[1].Metadata[session.InterruptedKey] != true {
		t.Errorf("the store has %v, %v, want the prompt and the text that came", got, err)
	}
}

func TestCallerMayStopEarly(t *testing.T) {
	store := memstore.New(nil)
	model := &streaming{pieces: []string{"par", "tial"}, sent: make(chan struct{})}
	for range session.Run(withSession(t.Context(), "s"), model, session.UserText("q"),
		&session.RunOptions{Hooks: session.NewHookRegistry(plugin(store, nil))}) {
		break
	}
	if got := loaded(t, store, "s"); !slices.Equal(got, []string{"user: q", "assistant: par"}) {
		t.Errorf("the store has %q", got)
	}
}

func TestCallsAreAnsweredWhenTheRunIsCancelled(t *testing.T) {
	store := memstore.New(nil)
	ctx, cancel := context.WithCancel(withSession(t.Context(), "s"))
	release := make(chan struct{})
	defer close(release)
	deaf := session.Tool{Name: "deaf", Call: func(context.Context, *session.ToolUseBlock) ([]session.Block, error) {
		cancel()
		<-release // whatever the context says
		return nil, nil
	}}
	model := &script{answers: []session.Message{session.NewMessage(session.RoleAssistant, session.ToolUse("t1", "deaf", "{}"))}}
	err := drain(session.Run(ctx, model, session.UserText("q"),
		&session.RunOptions{Hooks: session.NewHookRegistry(plugin(store, nil)), Tools: []session.Tool{deaf}}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want the context's error", err)
	}
	got, _ := store.Load(t.Context(), "s")
	if len(got) != 3 || len(got[2].ToolResults()) != 1 || !got[2].ToolResults()[0].IsError {
		t.Errorf("the store has %v, want t1 answered by an error result", got)
	}
}

// blockingStore never answers a write.
type blockingStore struct{ session.Backend }

func (s *blockingStore) Append(ctx context.Context, id string, m []session.Message, o *session.WriteOptions) (session.Version, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestAStoreThatHangsDoesNotHoldTheRun(t *testing.T) {
	store := &blockingStore{memstore.New(nil)}
	err := drain(session.Run(withSession(t.Context(), "s"), &script{}, session.UserText("q"), &session.RunOptions{
		Hooks: session.NewHookRegistry(plugin(store, &session.ConversationOptions{WriteTimeout: 20 * time.Millisecond}))}))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run = %v, want the time limit of the write", err)
	}
}

func TestToolsThatGoWrong(t *testing.T) {
	panics := session.Tool{Name: "panics", Call: func(context.Context, *session.ToolUseBlock) ([]session.Block, error) { panic("oh") }}
	fails := session.Tool{Name: "fails", Call: func(context.Context, *session.ToolUseBlock) ([]session.Block, error) {
		return nil, errors.New("no luck")
	}}
	garbage := session.Tool{Name: "garbage", Call: func(context.Context, *session.ToolUseBlock) ([]session.Block, error) {
		return []session.Block{session.Text("a\xffb")}, nil
	}}
	store := memstore.New(nil)
	model := &script{answers: []session.Message{session.NewMessage(session.RoleAssistant,
		session.ToolUse("1", "panics", "{}"), session.ToolUse("2", "fails", "{}"), session.ToolUse("3", "unknown", "{}"),
		session.ToolUse("4", "garbage", "{}"), session.ToolUse("5", "echo", `{"cut`), session.ToolUse("6", "refused", "{}"),
	), session.AssistantText("done")}}
	hooks := session.NewHookRegistry(plugin(store, nil))
	session.OnBefore(hooks, func(_ context.Context, e *session.BeforeToolCallHook) error {
		if e.Use.Name == "refused" {
			return errors.New("not allowed")
		}
		return nil
	})
	if err := drain(session.Run(withSession(t.Context(), "s"), model, session.UserText("q"),
		&session.RunOptions{Hooks: hooks, Tools: []session.Tool{panics, fails, garbage, echoTool()}})); err != nil {
		t.Fatal(err)
	}
	got, _ := store.Load(t.Context(), "s")
	if len(got) != 4 {
		t.Fatalf("%d messages, want 4", len(got))
	}
	results := got[2].ToolResults()
	for i, want := range []struct {
		text  string
		error bool
	}{{"oh", true}, {"no luck", true}, {"no tool", true}, {"a\uFFFDb", false}, {`"{\"cut"`, false}, {"not allowed", true}} {
		if r := results[i]; r.IsError != want.error || !strings.Contains(r.Text(), want.text) {
			t.Errorf("result %d: %q, error %v; want %q, error %v", i+1, r.Text(), r.IsError, want.text, want.error)
		}
	}
}

func TestModelCallLimit(t *testing.T) {
	calls := 0
	model := modelFunc(func(context.Context, session.ModelRequest) (session.Message, error) {
		calls++
		return session.NewMessage(session.RoleAssistant, session.ToolUse("t", "echo", "1")), nil
	})
	err := drain(session.Run(t.Context(), model, session.UserText("q"), &session.RunOptions{Tools: []session.Tool{echoTool()}, MaxModelCalls: 3}))
	if !errors.Is(err, session.ErrTurnLimit) || calls != 3 {
		t.Errorf("Run = %v after %d calls, want ErrTurnLimit after 3", err, calls)
	}
}

func TestBeforeHooksReachTheModelAndTheHistory(t *testing.T) {
	store := memstore.New(nil)
	hooks := session.NewHookRegistry(plugin(store, nil))
	session.OnBefore(hooks, func(_ context.Context, e *session.BeforeStreamHook) error {
		e.Messages = append([]session.Message{session.SystemText("be brief")}, e.Messages...)
		return nil
	})
	session.OnBefore(hooks, func(_ context.Context, e *session.BeforeModelInvokeHook) error {
		e.Messages = append(slices.Clone(e.Messages), session.UserText("for this call alone"))
		return nil
	})
	model := &script{answers: []session.Message{session.AssistantText("ok")}}
	if err := drain(session.Run(withSession(t.Context(), "s"), model, session.UserText("q"), &session.RunOptions{Hooks: hooks})); err != nil {
		t.Fatal(err)
	}
	if want := []string{"system: be brief", "user: q", "assistant: ok"}; !slices.Equal(loaded(t, store, "s"), want) {
		t.Errorf("the store has %q, want %q", loaded(t, store, "s"), want)
	}
	var sent []string
	for _, m := range model.sent[0] {
		sent = append(sent, m.Text())
	}
	if want := []string{"be brief", "q", "for this call alone"}; !slices.Equal(sent, want) {
		t.Errorf("the model saw %q, want %q", sent, want)
	}
}
