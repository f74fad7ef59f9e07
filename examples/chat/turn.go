package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/session"
)

const (
	maxRounds    = 8                // of tool calls in a turn
	writeTimeout = 10 * time.Second // of a write that outlives a cancelled turn
	maxTitle     = 60               // bytes
	maxPrompt    = 1000             // bytes of Meta.FirstPrompt
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
	tools     map[string]tool
	clock     func() time.Time
}

// turn stores a prompt, has the model answer it, and returns the answer. Every
// message is stored as soon as it is there. When ctx is done the turn ends, but
// not before what the model and the tools have produced is stored.
func (c *chat) turn(ctx context.Context, prompt string) (answer string, err error) {
	lease, err := c.store.Lock(ctx, c.sessionID, &session.LockOptions{NoWait: true})
	if errors.Is(err, session.ErrLocked) {
		return "", fmt.Errorf("%w: %w", errBusy, err)
	}
	if err != nil {
		return "", err
	}
	defer func() {
		ctx, cancel := outlive(ctx)
		defer cancel()
		err = errors.Join(err, lease.Release(ctx))
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-lease.Done():
			cancel(errLeaseLost)
		case <-ctx.Done():
		}
	}()

	h := history{chat: c}
	if err := h.load(ctx); err != nil {
		return "", err
	}
	if m, missing := missingResults(h.messages); missing {
		if err := h.append(ctx, m); err != nil {
			return "", err
		}
	}
	first := len(session.Turns(h.messages)) == 0
	if err := h.append(ctx, session.UserText(prompt)); err != nil {
		return "", err
	}
	if first {
		if err := c.describe(ctx, prompt); err != nil {
			return "", err
		}
	}
	return h.answer(ctx)
}

// outlive returns a context for what is to be done even if ctx is done.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

// describe notes what the session is about, for lists of sessions.
func (c *chat) describe(ctx context.Context, prompt string) error {
	ctx, cancel := outlive(ctx)
	defer cancel()
	_, err := c.store.Update(ctx, c.sessionID, func(m *session.Meta) error {
		if m.Title == "" {
			m.Title = prefix(strings.Join(strings.Fields(prompt), " "), maxTitle)
		}
		m.FirstPrompt = prefix(prompt, maxPrompt)
		m.Model = "rules"
		return nil
	})
	return err
}

// prefix returns the first bytes of a text, without cutting a character.
func prefix(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// history is a stored history during a turn.
type history struct {
	chat     *chat
	messages []session.Message
	version  session.Version
}

func (h *history) load(ctx context.Context) error {
	s, err := h.chat.store.Read(ctx, h.chat.sessionID, nil)
	h.messages, h.version = s.Messages, s.Version
	return err
}

// append stores a message, unless the stored history is no longer the one that
// this turn goes on from.
func (h *history) append(ctx context.Context, m session.Message) error {
	ctx, cancel := outlive(ctx)
	defer cancel()
	m.Time = h.chat.clock()
	v, err := h.chat.store.Append(ctx, h.chat.sessionID, []session.Message{m}, &session.WriteOptions{IfVersion: h.version})
	if errors.Is(err, session.ErrConflict) {
		return fmt.Errorf("%w: %w", errConflict, err)
	}
	if err != nil {
		return err
	}
	h.messages, h.version = append(h.messages, m), v
	return nil
}

// answer has the model go on until it calls no more tools.
func (h *history) answer(ctx context.Context) (string, error) {
	for range maxRounds {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		reply, err := h.chat.model.Reply(ctx, h.messages)
		if len(reply.Content) > 0 {
			err = errors.Join(err, h.append(ctx, reply))
		}
		if err != nil {
			return "", err
		}
		uses := reply.ToolUses()
		if len(uses) == 0 {
			return reply.Text(), nil
		}
		results := make([]*session.ToolResultBlock, len(uses))
		for i, use := range uses {
			results[i] = runTool(ctx, h.chat.tools, use)
		}
		if err := h.append(ctx, session.ToolResults(results...)); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("no answer after %d rounds of tool calls", maxRounds)
}

// missingResults returns error results for the calls at the end of a history
// that have none, because the process died before the tools had finished.
// Models refuse a call without a result.
func missingResults(messages []session.Message) (session.Message, bool) {
	have := make(map[string]bool)
	for i := len(messages) - 1; i >= 0; i-- {
		results := messages[i].ToolResults()
		for _, r := range results {
			have[r.ToolUseID] = true
		}
		if len(results) > 0 && len(results) == len(messages[i].Content) {
			continue
		}
		var missing []*session.ToolResultBlock
		for _, use := range messages[i].ToolUses() {
			if !have[use.ID] {
				missing = append(missing, session.ToolError(use.ID, use.Name, "interrupted: the call's result is unknown"))
			}
		}
		return session.ToolResults(missing...), len(missing) > 0
	}
	return session.Message{}, false
}
