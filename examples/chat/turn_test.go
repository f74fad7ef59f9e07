package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-go/session"
)

// ask runs a turn that must succeed.
func ask(t *testing.T, c *chat, prompt string) string {
	t.Helper()
	answer, err := c.turn(t.Context(), prompt)
	if err != nil {
		t.Fatalf("turn(%q): %v", prompt, err)
	}
	return answer
}

// stored returns the stored history, a line a message.
func stored(t *testing.T, c *chat) []string {
	t.Helper()
	messages, err := c.store.Load(t.Context(), c.sessionID)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, m := range messages {
		lines = append(lines, m.String())
	}
	return lines
}

func checkStored(t *testing.T, c *chat, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, stored(t, c), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("stored history (-want +got):\n%s", diff)
	}
}

func TestTurnStoresEachMessage(t *testing.T) {
	c := newChat(t)
	ask(t, c, "What is 12 * (3+4)? What is 1/0?")
	ask(t, c, "Thanks")
	checkStored(t, c,
		"user: What is 12 * (3+4)? What is 1/0?",
		`assistant: [call_1_1 calculator({"expression":"12 * (3+4)"})] [call_1_2 calculator({"expression":"1/0"})]`,
		"tool: [call_1_1 -> 84] [call_1_2 -> error: division by zero]",
		"assistant: 12 * (3+4) = 84. Sorry, I can't work that out: division by zero.",
		"user: Thanks",
		"assistant: You are welcome.",
	)
	messages, err := c.store.Load(t.Context(), c.sessionID)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if !m.Time.Equal(c.clock()) {
			t.Errorf("message %v has the time %v, want %v", m, m.Time, c.clock())
		}
	}
}

func TestTurnDescribesSession(t *testing.T) {
	c := newChat(t)
	prompt := "My name is\nAda. " + strings.Repeat("é", maxPrompt)
	ask(t, c, prompt)
	ask(t, c, "I like tea.")
	info, err := c.store.Info(t.Context(), c.sessionID)
	if err != nil {
		t.Fatal(err)
	}
	if want := "My name is Ada. " + strings.Repeat("é", 22); info.Title != want {
		t.Errorf("Title = %q, want %q", info.Title, want)
	}
	if !strings.HasPrefix(prompt, info.FirstPrompt) || len(info.FirstPrompt) < maxPrompt-1 || len(info.FirstPrompt) > maxPrompt {
		t.Errorf("FirstPrompt = %q, want about the first %d bytes of %q", info.FirstPrompt, maxPrompt, prompt)
	}
}

// A process that was killed between a call and its result leaves a history
// that no model accepts.
func TestTurnCompletesInterruptedCalls(t *testing.T) {
	calls := session.NewMessage(session.RoleAssistant, session.Text("Let me see."),
		session.ToolUse("a", "calculator", `{"expression":"1+1"}`), session.ToolUse("b", "clock", `{}`))
	interrupted := "error: interrupted: the call's result is unknown]"
	tests := []struct {
		name    string
		history []session.Message
		want    []string // what the turn stores before its prompt
	}{
		{"NoResult", []session.Message{session.UserText("hm"), calls}, []string{
			"tool: [a -> " + interrupted + " [b -> " + interrupted,
		}},
		{"OneOfTwo", []session.Message{session.UserText("hm"), calls, session.ToolResults(session.ToolResult("a", "calculator", "2"))}, []string{
			"tool: [b -> " + interrupted,
		}},
		{"UserResult", []session.Message{session.UserText("hm"), calls, session.NewMessage(session.RoleUser, session.ToolResult("a", "calculator", "2"))}, []string{
			"tool: [b -> " + interrupted,
		}},
		{"AllResults", []session.Message{session.UserText("hm"), calls,
			session.ToolResults(session.ToolResult("a", "calculator", "2"), session.ToolResult("b", "clock", "now"))}, nil},
		{"NoAnswer", []session.Message{session.UserText("hm")}, nil},
		{"Absent", nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := newChat(t)
			if _, err := c.store.Append(t.Context(), c.sessionID, test.history, nil); err != nil {
				t.Fatal(err)
			}
			want := append(stored(t, c), test.want...)
			if got := ask(t, c, "Hello"); got != "Hello! What is your name?" {
				t.Errorf("turn = %q, want a greeting", got)
			}
			checkStored(t, c, append(want, "user: Hello", "assistant: Hello! What is your name?")...)
		})
	}
}

func TestTurnOfLockedSession(t *testing.T) {
	c := newChat(t)
	lease, err := c.store.Lock(t.Context(), c.sessionID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.turn(t.Context(), "Hello"); !errors.Is(err, errBusy) || !errors.Is(err, session.ErrLocked) {
		t.Errorf("turn of a locked session = %v, want errBusy and ErrLocked", err)
	}
	checkStored(t, c)
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(t, c, "Hello") // releases its own lease too:
	ask(t, c, "Hello")
}

// modelFunc is a model made of a function.
type modelFunc func(ctx context.Context, history []session.Message) (session.Message, error)

func (f modelFunc) Reply(ctx context.Context, history []session.Message) (session.Message, error) {
	return f(ctx, history)
}

func TestTurnStoresPromptBeforeModel(t *testing.T) {
	c := newChat(t)
	broken := errors.New("broken")
	c.model = modelFunc(func(_ context.Context, history []session.Message) (session.Message, error) {
		checkStored(t, c, "user: Hello")
		if len(history) != 1 {
			t.Errorf("the model got %v, want the prompt", history)
		}
		return session.Message{}, broken
	})
	if _, err := c.turn(t.Context(), "Hello"); !errors.Is(err, broken) {
		t.Errorf("turn = %v, want the model's error", err)
	}
	checkStored(t, c, "user: Hello")
}

func TestTurnNoticesSecondWriter(t *testing.T) {
	c := newChat(t)
	c.model = modelFunc(func(ctx context.Context, _ []session.Message) (session.Message, error) {
		_, err := c.store.Append(ctx, c.sessionID, []session.Message{session.UserText("Me too")}, nil)
		return session.AssistantText("Hi"), err
	})
	if _, err := c.turn(t.Context(), "Hello"); !errors.Is(err, errConflict) || !errors.Is(err, session.ErrConflict) {
		t.Errorf("turn = %v, want errConflict and ErrConflict", err)
	}
	checkStored(t, c, "user: Hello", "user: Me too")
}

func TestTurnStoresWhatACancelledModelSaid(t *testing.T) {
	c := newChat(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.model = modelFunc(func(ctx context.Context, _ []session.Message) (session.Message, error) {
		cancel()
		<-ctx.Done()
		return session.AssistantText("Once upon a"), ctx.Err()
	})
	if _, err := c.turn(ctx, "Tell me a story"); !errors.Is(err, context.Canceled) {
		t.Errorf("turn = %v, want context.Canceled", err)
	}
	checkStored(t, c, "user: Tell me a story", "assistant: Once upon a")
	c.model = rules{}
	ask(t, c, "Hello")
}

func TestTurnStoresResultOfCancelledTool(t *testing.T) {
	c := newChat(t)
	ctx, cancel := context.WithCancel(t.Context())
	c.model = modelFunc(func(context.Context, []session.Message) (session.Message, error) {
		cancel()
		return session.NewMessage(session.RoleAssistant, session.ToolUse("a", "clock", "{}")), nil
	})
	if _, err := c.turn(ctx, "Hello"); !errors.Is(err, context.Canceled) {
		t.Errorf("turn = %v, want context.Canceled", err)
	}
	checkStored(t, c, "user: Hello", "assistant: [a clock({})]", "tool: [a -> error: not run: context canceled]")
}

func TestTurnEndsWithItsLease(t *testing.T) {
	c := newChat(t)
	store := &losingStore{Backend: c.store}
	c.store = store
	c.model = modelFunc(func(ctx context.Context, _ []session.Message) (session.Message, error) {
		if err := store.lease.Release(ctx); err != nil {
			return session.Message{}, err
		}
		<-ctx.Done()
		return session.AssistantText("Once upon a"), context.Cause(ctx)
	})
	if _, err := c.turn(t.Context(), "Hello"); !errors.Is(err, errLeaseLost) {
		t.Errorf("turn = %v, want errLeaseLost", err)
	}
	checkStored(t, c, "user: Hello", "assistant: Once upon a")
}

// losingStore shows the lease that it gave out.
type losingStore struct {
	session.Backend
	lease session.Lease
}

func (s *losingStore) Lock(ctx context.Context, id string, opts *session.LockOptions) (session.Lease, error) {
	lease, err := s.Backend.Lock(ctx, id, opts)
	s.lease = lease
	return lease, err
}

func TestTurnEndsEndlessCalls(t *testing.T) {
	c := newChat(t)
	calls := 0
	c.model = modelFunc(func(context.Context, []session.Message) (session.Message, error) {
		calls++
		return session.NewMessage(session.RoleAssistant, session.ToolUse(fmt.Sprint(calls), "clock", "{}")), nil
	})
	if _, err := c.turn(t.Context(), "Hello"); err == nil || calls != maxRounds {
		t.Errorf("turn = %v after %d calls of the model, want an error after %d", err, calls, maxRounds)
	}
	if got, want := len(stored(t, c)), 1+2*maxRounds; got != want {
		t.Errorf("%d messages are stored, want %d: each call with its result", got, want)
	}
}
