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
	prompt := session.UserText("What is 12 * (3+4)? What is 1/0?")
	prompt.Time = c.clock()
	call := callPrefix(prompt)
	ask(t, c, prompt.Text())
	ask(t, c, "Thanks")
	checkStored(t, c,
		"user: What is 12 * (3+4)? What is 1/0?",
		fmt.Sprintf(`assistant: [%s_1 calculator({"expression":"12 * (3+4)"})] [%s_2 calculator({"expression":"1/0"})]`, call, call),
		fmt.Sprintf("tool: [%s_1 -> 84] [%s_2 -> error: division by zero]", call, call),
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
	if want := "My name is Ada. " + strings.Repeat("é", 64); info.Title != want {
		t.Errorf("Title = %q, want %q", info.Title, want)
	}
	if !strings.HasPrefix(prompt, info.FirstPrompt) || len(info.FirstPrompt) < maxPrompt-1 || len(info.FirstPrompt) > maxPrompt {
		t.Errorf("FirstPrompt = %q, want about the first %d bytes of %q", info.FirstPrompt, maxPrompt, prompt)
	}
}

// A process that was killed between a call and its result leaves a history
// that no model accepts. What the model is sent is valid all the same, and what
// is stored stays as it is.
func TestTurnAfterInterruptedCalls(t *testing.T) {
	calls := session.NewMessage(session.RoleAssistant, session.Text("Let me see."),
		session.ToolUse("a", "calculator", `{"expression":"1+1"}`), session.ToolUse("b", "clock", `{}`))
	for name, history := range map[string][]session.Message{
		"NoResult":   {session.UserText("hm"), calls},
		"OneOfTwo":   {session.UserText("hm"), calls, session.ToolResults(session.ToolResult("a", "calculator", "2"))},
		"UserResult": {session.UserText("hm"), calls, session.NewMessage(session.RoleUser, session.ToolResult("a", "calculator", "2"))},
		"NoAnswer":   {session.UserText("hm")},
		"Absent":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			c := newChat(t)
			if _, err := c.store.Append(t.Context(), c.sessionID, history, nil); err != nil {
				t.Fatal(err)
			}
			before := stored(t, c)
			c.model = modelFunc(func(ctx context.Context, view []session.Message) (session.Message, error) {
				for _, p := range []*session.Profile{session.Anthropic, session.OpenAI, session.BedrockConverse, session.Gemini} {
					if err := session.Validate(view, p); err != nil {
						t.Errorf("the model is sent what %s refuses: %v", p.Name(), err)
					}
				}
				return rules{}.Reply(ctx, view)
			})
			ask(t, c, "Hello")
			after := stored(t, c)
			if diff := cmp.Diff(append(before, "user: Hello"), after[:len(after)-1]); diff != "" {
				t.Errorf("stored history (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTurnShowsTheModelItsWindow(t *testing.T) {
	c := newChat(t)
	ask(t, c, "My name is Ada.")
	c.policy = mustWindow(t, 1)
	if got := ask(t, c, "What is my name?"); strings.Contains(got, "Ada") {
		t.Errorf("with a window of one turn the answer is %q, want none from before it", got)
	}
	c.policy = mustWindow(t, 100)
	if got := ask(t, c, "What is my name?"); !strings.Contains(got, "Ada") {
		t.Errorf("with a large window the answer is %q, want the name: it is still stored", got)
	}
}

func TestTurnRecoversFromAnOverflow(t *testing.T) {
	c := newChat(t)
	ask(t, c, "My name is Ada.")
	ask(t, c, "I like tea.")
	m := &overflowing{model: rules{}}
	c.model = m
	if got := ask(t, c, "What do I like?"); !m.failed || got == "" {
		t.Errorf("the answer after an overflow is %q", got)
	}
}

func mustWindow(t *testing.T, turns int) session.HistoryPolicy {
	t.Helper()
	policy, err := session.NewSlidingWindowManager(session.SlidingWindowOptions{WindowSize: turns})
	if err != nil {
		t.Fatal(err)
	}
	return policy
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
	checkStored(t, c, "user: Hello", "assistant: [a clock({})]", "tool: [a -> error: The call was not made.]")
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
	if _, err := c.turn(t.Context(), "Hello"); err == nil || calls != maxModelCalls {
		t.Errorf("turn = %v after %d calls of the model, want an error after %d", err, calls, maxModelCalls)
	}
	if got, want := len(stored(t, c)), 1+2*maxModelCalls; got != want {
		t.Errorf("%d messages are stored, want %d: each call with its result", got, want)
	}
}
