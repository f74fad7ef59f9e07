package filestore

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/holdfast-go/session"
)

// Append writes one event. Without a time it gets the store's, without a kind
// it is a message. A message or a tool result is a write of the conversation
// like AppendMessages, a rollback one like Rollback; a notice or settings only
// stand in the transcript. A rollback's time is always the store's. Other kinds
// are ErrInvalidOption, and a message or a tool result without its Message is
// ErrInvalidMessage.
func (s *Session) Append(ev Event) error { return sessionError("append", s.name, s.append(ev)) }

func (s *Session) append(ev Event) error {
	if ev.Kind == "" {
		ev.Kind = KindMessage
	}
	if ev.Kind == KindToolResult && ev.Tool == "" && ev.Message != nil {
		ev.Tool = toolOf(*ev.Message)
	}
	return s.store.appendEvents(context.Background(), s.id, []Event{ev})
}

// AppendMessages records messages of the conversation, one event each, as one
// write: all of them or none. A message that is a tool's result is recorded as
// such, so that the transcript says which tool it was.
func (s *Session) AppendMessages(messages []session.Message) error {
	if len(messages) == 0 {
		return nil
	}
	events := make([]Event, len(messages))
	for i := range messages {
		events[i] = Event{Kind: KindMessage, Message: &messages[i]}
		if tool, ok := resultOf(messages[i]); ok {
			events[i].Kind, events[i].Tool = KindToolResult, tool
		}
	}
	return sessionError("append", s.name, s.store.appendEvents(context.Background(), s.id, events))
}

// resultOf reports whether a message is a tool's result, and returns the tool of
// the first.
func resultOf(m session.Message) (tool string, ok bool) {
	results := m.ToolResults()
	return toolOf(m), m.Role == session.RoleTool || len(results) > 0 && len(results) == len(m.Content)
}

func toolOf(m session.Message) string {
	if results := m.ToolResults(); len(results) > 0 {
		return results[0].Name
	}
	return ""
}

// Rollback records that the last n messages are no longer part of the
// conversation; all of them if there are not more. They stay in the transcript.
// The last are those that are when it is recorded, whoever wrote them: a caller
// that others write beside holds AcquireLock. Of n <= 0 it does nothing.
func (s *Session) Rollback(n int) error {
	return sessionError("rollback", s.name, s.append(Event{Kind: KindRollback, Dropped: n}))
}

// Notice records something that happened to the turn rather than in the
// conversation.
func (s *Session) Notice(text string) error {
	return s.Append(Event{Kind: KindNotice, Text: text})
}

// Settings records what a turn runs with: the model, whether thinking is merged
// into the text, and the tools that the model is offered.
func (s *Session) Settings(model string, mergeThinking bool, tools []string) error {
	return s.Append(Event{Kind: KindSettings, Model: model, MergeThinking: &mergeThinking, Tools: tools})
}

// Load returns the conversation, oldest message first, never nil. What stands
// in the transcript beside it, such as notices, is left out. Damage costs what
// is damaged and no more: the rest is returned, and Options.OnDamage is told.
// (Store.Load returns an error instead.)
func (s *Session) Load() ([]session.Message, error) {
	messages, _, err := s.store.liveMessages(context.Background(), s.id)
	if messages == nil && err == nil {
		messages = []session.Message{}
	}
	return messages, sessionError("load", s.name, err)
}

// LastSettingsModel returns the model that the most recent settings name, "" if
// none do. It reads the transcript from its end; damaged lines are passed over.
func (s *Session) LastSettingsModel() (string, error) {
	model, err := s.store.lastModel(context.Background(), s.id)
	return model, sessionError("last settings model", s.name, err)
}

func (s *Store) lastModel(ctx context.Context, id string) (model string, err error) {
	err = s.call("read", id, func() error {
		f, size, err := s.driver.transcript(ctx, id)
		if err != nil || f == nil {
			return err
		}
		defer f.Close()
		end := make([]byte, 1)
		if _, err := f.ReadAt(end, size-1); err != nil {
			return err
		}
		if end[0] != '\n' { // the last line has no end to begin from
			return scanLines(ctx, f, 0, size, func(b []byte, _ int64, _ bool) bool {
				model = cmp.Or(modelIn(b), model)
				return true
			})
		}
		return scanBack(ctx, f, size, func(b []byte, _ int64) bool {
			model = modelIn(b)
			return model == ""
		})
	})
	return model, err
}

// modelIn returns the model that a line names, if it is one of settings.
func modelIn(b []byte) string {
	var n note
	if l, ok := parseLine(b); !ok || l.kind != KindSettings || json.Unmarshal(b, &n) != nil {
		return ""
	}
	return n.Model
}
