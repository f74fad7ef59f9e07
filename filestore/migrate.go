package filestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// Before sessions were directories, one was a file NAME.jsonl in the base
// directory, a message a line. Migrating it makes a history of its messages,
// with the file's time, and renames it to NAME.jsonl.migrated, which is kept until
// the session is deleted. Lines that are no messages are reported to
// Options.OnDamage and stay in that file alone. Until a Manager has opened it, a
// flat file is no session of the Store.
const migratedExt = ".migrated"

// flatFile returns the name of a session's flat file.
func flatFile(name string) string { return name + flatExt }

func (s *Store) hasFlat(name string) bool {
	info, err := s.root.Lstat(flatFile(name))
	return err == nil && info.Mode().IsRegular()
}

// flatOnly reports whether a session is a flat file and nothing else that counts.
func (s *Store) flatOnly(name string) bool {
	if !s.hasFlat(name) {
		return false
	}
	h, err := s.driver.Head(context.Background(), name)
	return err == nil && h.Rev == ""
}

// flatNames returns the names of the sessions that have a flat file.
func (s *Store) flatNames() ([]string, error) {
	entries, err := readDir(s.root, ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), flatExt)
		if ok && e.Type().IsRegular() && checkName(name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// removeFlat removes a session's flat file.
func (s *Store) removeFlat(name string) (found bool, err error) {
	if !s.hasFlat(name) {
		return false, nil
	}
	if err := s.root.Remove(flatFile(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// removeMigrated removes the flat files that a session was migrated from.
func (d *files) removeMigrated(id string) (found bool, err error) {
	if checkName(id) != nil || id == d.only {
		return false, nil // it was no flat file
	}
	for n := 0; ; n++ {
		file := migratedFile(id, n)
		switch info, err := d.root.Lstat(file); {
		case errors.Is(err, fs.ErrNotExist):
			return found, nil
		case err != nil:
			return found, err
		case !info.Mode().IsRegular():
			continue
		}
		if err := d.root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
		found = true
	}
}

// migratedFile returns the name of a flat file that was migrated, of the n-th
// after the first.
func migratedFile(name string, n int) string {
	file := flatFile(name) + migratedExt
	if n > 0 {
		file = fmt.Sprintf("%s-%d", file, n)
	}
	return file
}

// flatMessages returns the messages of a flat file.
func (s *Store) flatMessages(name string) ([]session.Message, error) {
	messages, _, err := s.readFlat(name)
	return messages, err
}

func (s *Store) readFlat(name string) ([]session.Message, time.Time, error) {
	f, err := s.root.Open(flatFile(name))
	if err != nil {
		return nil, time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, time.Time{}, err
	}
	messages := []session.Message{}
	offset, number := int64(0), 0
	for text := range bytes.Lines(data) {
		number++
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 {
			m, err := flatMessage(trimmed)
			if err == nil {
				messages = append(messages, m)
			} else {
				s.damaged(Damage{File: flatFile(name), Line: number, Offset: offset, Length: int64(len(text)), Err: err})
			}
		}
		offset += int64(len(text))
	}
	return messages, info.ModTime().UTC(), nil
}

func (s *Store) damaged(d Damage) {
	if s.opts.OnDamage != nil {
		s.opts.OnDamage(d)
	}
}

// describeFlat describes a session that is still a flat file.
func (m *Manager) describeFlat(name string) SessionInfo {
	messages, modified, err := m.store.readFlat(name)
	if info, failed := m.store.root.Stat(flatFile(name)); err != nil && failed == nil {
		modified = info.ModTime().UTC()
	}
	return SessionInfo{Name: name, ModTime: modified, MessageCount: len(messages)}
}

// migrateFlat migrates a session if it is a flat file. One that has a history
// too, which does not begin with the file's messages, is left with both.
func (s *Store) migrateFlat(name string) error {
	if !s.hasFlat(name) {
		return nil
	}
	dir := mustDir(name)
	if err := s.root.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	lock, err := s.lockName(dir, turnLockName, true) // no other migrates it meanwhile
	if err != nil {
		return err
	}
	defer releaseName(lock)
	messages, modified, err := s.readFlat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another has
	}
	if err != nil {
		return err
	}
	migrated, err := s.migrated(name, messages, modified)
	if err != nil || !migrated {
		return err
	}
	if err := s.keepMigrated(name); err != nil {
		return err
	}
	if s.syncs() {
		return syncDir(s.root, ".")
	}
	return nil
}

// migrated makes the messages of a flat file a history, unless one that was
// interrupted has. It reports false if there is another history.
func (s *Store) migrated(name string, messages []session.Message, at time.Time) (bool, error) {
	if written, err := s.writeMigrated(name, messages, at); written || err != nil {
		return written, err
	}
	there, _, err := s.liveMessages(context.Background(), name)
	if err != nil {
		return false, err
	}
	return len(there) >= len(messages) && session.EqualMessages(there[:len(messages)], messages), nil
}

// writeMigrated begins a history with messages as one batch of the given time,
// so that the session was last updated then. It reports false if there is a
// history already.
func (s *Store) writeMigrated(name string, messages []session.Message, at time.Time) (written bool, err error) {
	var b []byte
	for i := range messages {
		message, err := session.AppendMessage(nil, messages[i])
		if err != nil {
			return false, err
		}
		l := line{ts: at, kind: KindMessage, message: message, more: len(messages) - 1 - i}
		if tool, ok := resultOf(messages[i]); ok {
			l.kind, l.tool = KindToolResult, tool
		}
		if l.more == 0 {
			l.commit = madeRev(message, 0)
		}
		b = l.append(b)
	}
	ctx := context.Background()
	err = s.call("open", name, func() error {
		return s.driver.with(ctx, name, func(l *log) error {
			return l.begin(ctx, func() error {
				if l.history.head.Rev != "" {
					return nil
				}
				written = true
				return l.writeNotes(ctx, b)
			})
		})
	})
	return written && err == nil, err
}

// keepMigrated gives a flat file that was migrated a name that none has.
func (s *Store) keepMigrated(name string) error {
	for n := 0; ; n++ {
		taken, err := s.exists(migratedFile(name, n))
		if err != nil {
			return err
		}
		if !taken {
			return s.root.Rename(flatFile(name), migratedFile(name, n))
		}
	}
}

// flatMessage reads a line of a flat file: a message as session.DecodeMessage
// has it, an event, or a message in the form of chat completion APIs, where
// content is a string, calls stand in tool_calls and a tool message is one result.
// Members of such a message that have no place in session.Message become its
// Metadata.
func flatMessage(line []byte) (session.Message, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return session.Message{}, errNotLine
	}
	if inner, ok := members["message"]; ok && members["role"] == nil {
		return flatMessage(inner)
	}
	if !chatForm(members) {
		m, err := session.DecodeMessage(line)
		if err == nil && m.Role == "" {
			err = errNotLine
		}
		return m, err
	}
	return chatMessage(line, members)
}

// chatForm reports whether a message is in the form of chat completion APIs.
func chatForm(members map[string]json.RawMessage) bool {
	_, calls := members["tool_calls"]
	_, result := members["tool_call_id"]
	return calls || result || bytes.HasPrefix(bytes.TrimSpace(members["content"]), []byte(`"`))
}

// nativeMessage returns a message that others wrote in the form that
// session.AppendMessage gives it, or as it is if it can't be told.
func nativeMessage(b []byte) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil || !chatForm(members) {
		return b
	}
	m, err := chatMessage(b, members)
	if err != nil {
		return b
	}
	native, err := session.AppendMessage(nil, m)
	if err != nil {
		return b
	}
	return native
}

func chatMessage(line []byte, members map[string]json.RawMessage) (session.Message, error) {
	var c struct {
		Role       session.Role
		Content    any
		Name       string
		ToolCallID string `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	if err := json.Unmarshal(line, &c); err != nil || c.Role == "" {
		return session.Message{}, errNotLine
	}
	m := session.Message{Role: c.Role, Metadata: make(map[string]any)}
	used := []string{"role", "content", "tool_calls"}
	var blocks []session.Block
	switch content := c.Content.(type) {
	case nil:
	case string:
		if content != "" || c.ToolCalls == nil {
			blocks = append(blocks, session.Text(content))
		}
	default:
		parts, err := session.DecodeMessage(fmt.Appendf(nil, `{"role":"user","content":%s}`, members["content"]))
		if err != nil {
			return session.Message{}, errNotLine
		}
		blocks = parts.Content
	}
	if c.ToolCallID != "" || c.Role == session.RoleTool {
		blocks = []session.Block{&session.ToolResultBlock{ToolUseID: c.ToolCallID, Name: c.Name, Content: blocks}}
		used = append(used, "tool_call_id", "name")
	}
	for _, call := range c.ToolCalls {
		input := json.RawMessage(call.Function.Arguments)
		if len(input) > 0 && !json.Valid(input) {
			input, _ = json.Marshal(call.Function.Arguments) // a string always can be
		}
		blocks = append(blocks, &session.ToolUseBlock{ID: call.ID, Name: call.Function.Name, Input: input})
	}
	m.Content = blocks
	for name, value := range members {
		if !slices.Contains(used, name) {
			m.Metadata[name] = value
		}
	}
	canonical, err := session.Canonical([]session.Message{m})
	if err != nil {
		return session.Message{}, err
	}
	return canonical[0], nil
}
