package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

const (
	maxModelCalls = 8    // in a turn
	maxPrompt     = 1000 // bytes of Meta.FirstPrompt
	maxRecoveries = 3    // from overflows, in a turn
)

var (
	errBusy      = errors.New("another process has this session")
	errLeaseLost = errors.New("the lease of this session was lost; what was said so far is stored")
	errConflict  = errors.New("another process wrote to this session meanwhile")
)

// chat answers prompts in one session.
type chat struct {
	store     session.Backend
	sessionID string
	model     model
	tools     []session.Tool
	policy    session.HistoryPolicy
	clock     func() time.Time
}

// turn stores a prompt, has the model answer it, and returns the answer. Every
// message is stored as soon as it is there. When ctx is done the turn ends, but
// not before what the model and the tools have produced is stored.
func (c *chat) turn(ctx context.Context, prompt string) (answer string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	events := session.Run(ctx, c, session.UserText(prompt), &session.RunOptions{
		Hooks: c.hooks(cancel), Tools: c.tools, MaxModelCalls: maxModelCalls, Clock: c.clock,
	})
	for e, err := range events {
		switch {
		case errors.Is(err, session.ErrLocked):
			return "", fmt.Errorf("%w: %w", errBusy, err)
		case errors.Is(err, session.ErrConflict):
			return "", fmt.Errorf("%w: %w", errConflict, err)
		case err != nil && errors.Is(context.Cause(ctx), errLeaseLost):
			return "", errLeaseLost
		case err != nil:
			return "", err
		case e.Message != nil && e.Message.Role == session.RoleAssistant:
			answer = e.Message.Text()
		}
	}
	return answer, nil
}

// hooks returns what makes a turn remember, fit and end with its lease.
func (c *chat) hooks(cancel context.CancelCauseFunc) *session.HookRegistry {
	sessions := session.NewSessionPlugin(session.SessionPluginOptions{
		Store:        c.store,
		ResolveID:    func(context.Context) (string, error) { return c.sessionID, nil },
		Conversation: &session.ConversationOptions{Lease: true},
	})
	trimming := session.NewTrimmingPlugin(session.TrimmingPluginOptions{
		Policy: c.policy, AutoRecover: true, MaxRetries: maxRecoveries,
	})
	hooks := session.NewHookRegistry(sessions, trimming)
	session.OnBefore(hooks, func(ctx context.Context, e *session.BeforeStreamHook) error {
		lost := sessions.Conversation(e.Stream).Lost()
		go func() {
			select {
			case <-lost:
				cancel(errLeaseLost)
			case <-ctx.Done():
			}
		}()
		if turns := session.Turns(e.Messages); len(turns) == 1 {
			return c.describe(ctx, e.Messages[turns[0].First].Text())
		}
		return nil
	})
	return hooks
}

// describe notes what the session is about, for lists of sessions.
func (c *chat) describe(ctx context.Context, prompt string) error {
	_, err := c.store.Update(context.WithoutCancel(ctx), c.sessionID, func(m *session.Meta) error {
		if m.Title == "" {
			m.Title = session.NormalizeTitle(session.FirstWordsTitle(prompt, 0))
		}
		m.FirstPrompt = strings.ToValidUTF8(prompt[:min(len(prompt), maxPrompt)], "")
		m.Model = "rules"
		return nil
	})
	return err
}

// Invoke implements session.Model by the chat's own.
func (c *chat) Invoke(ctx context.Context, request session.ModelRequest) iter.Seq2[session.ModelEvent, error] {
	return func(yield func(session.ModelEvent, error) bool) {
		reply, err := c.model.Reply(ctx, request.Messages)
		if err == nil {
			yield(session.ModelEvent{Message: &reply}, nil)
			return
		}
		if text := reply.Text(); text == "" || yield(session.ModelEvent{Delta: text}, nil) {
			yield(session.ModelEvent{}, err)
		}
	}
}

// overflowing is a model whose first call fails as if its context window were
// too small.
type overflowing struct {
	model
	failed bool
}

// Reply implements model.
func (m *overflowing) Reply(ctx context.Context, history []session.Message) (session.Message, error) {
	if !m.failed {
		m.failed = true
		return session.Message{}, fmt.Errorf("%w: on purpose, at %d messages", session.ErrContextOverflow, len(history))
	}
	return m.model.Reply(ctx, history)
}
