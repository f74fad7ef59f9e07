package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// SessionInfo describes a session in a list.
type SessionInfo struct {
	Name         string
	ModTime      time.Time // the last write, in UTC
	MessageCount int       // of the conversation
	// Title is "" for a session that has none yet.
	Title string
}

// ListSessions returns all sessions that have a history, newest first. Sessions
// that are still flat files are among them. One whose files can't be read or are
// damaged is listed with what can be told of it.
func (m *Manager) ListSessions() ([]SessionInfo, error) {
	list, err := m.listSessions()
	return list, sessionError("list", "", err)
}

func (m *Manager) listSessions() ([]SessionInfo, error) {
	names, err := m.directories()
	if err != nil {
		return nil, err
	}
	var list []SessionInfo
	listed := make(map[string]bool)
	for _, name := range names {
		if info, ok := m.describe(name); ok {
			list = append(list, info)
			listed[name] = true
		}
	}
	flat, err := m.store.flatNames()
	if err != nil {
		return nil, err
	}
	for _, name := range flat {
		if !listed[name] {
			list = append(list, m.describeFlat(name))
		}
	}
	slices.SortFunc(list, func(a, b SessionInfo) int {
		return cmp.Or(b.ModTime.Compare(a.ModTime), strings.Compare(a.Name, b.Name))
	})
	return list, nil
}

// describe describes a session that has a directory. It reports false if it has
// no history or has expired.
func (m *Manager) describe(name string) (SessionInfo, bool) {
	dir := mustDir(name)
	s := SessionInfo{Name: name}
	info, err := m.store.Info(context.Background(), name)
	switch {
	case err == nil:
		s.ModTime, s.MessageCount, s.Title = info.Updated, info.Messages, info.Title
		return s, true
	case errors.Is(err, session.ErrNotFound) && (!m.store.hasHistory(dir) || m.store.hasFlat(name) || m.store.driverHas(name)):
		return SessionInfo{}, false // none, one that is a flat file, or one that has expired
	case !errors.Is(err, session.ErrNotFound):
		if messages, err := m.loadSession(name); err == nil {
			s.MessageCount = len(messages)
		}
		s.Title = m.SessionTitle(name)
	}
	for _, part := range []string{historyName, metaName} { // without a history it is damaged
		if file, err := m.store.root.Stat(path.Join(dir, part)); err == nil {
			s.ModTime = file.ModTime().UTC()
			break
		}
	}
	return s, true
}

// MostRecent returns the name of the session that was written last, "" if there
// are none.
func (m *Manager) MostRecent() (string, error) {
	list, err := m.ListSessions()
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].Name, nil
}

// shownChars is how many characters of a message ShowSession shows.
const shownChars = 500

// ShowSession returns a session's conversation as text for people: long messages
// are cut, system messages and tool results only named.
func (m *Manager) ShowSession(name string) (string, error) {
	messages, err := m.loadSession(name)
	if err != nil {
		return "", sessionError("show", name, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Session: %s (%d messages)\n", name, len(messages))
	if title := m.SessionTitle(name); title != "" {
		fmt.Fprintf(&b, "Title: %s\n", title)
	}
	b.WriteString(strings.Repeat("─", 50) + "\n")
	for _, message := range messages {
		showMessage(&b, message)
	}
	return b.String(), nil
}

func showMessage(b *strings.Builder, m session.Message) {
	results := m.ToolResults()
	for _, r := range results {
		failed := ""
		if r.IsError {
			failed = ", an error"
		}
		fmt.Fprintf(b, "\n[tool: %s] (result of %d bytes%s)\n", r.Name, len(r.Text()), failed)
	}
	if m.Role == session.RoleSystem {
		fmt.Fprintf(b, "\n[system] (%d bytes)\n", len(m.Text()))
		return
	}
	if len(results) > 0 && len(results) == len(m.Content) {
		return
	}
	fmt.Fprintf(b, "\n[%s]\n", m.Role)
	if text := []rune(m.Text()); len(text) > shownChars {
		fmt.Fprintf(b, "%s…\n", string(text[:shownChars-1]))
	} else if len(text) > 0 {
		fmt.Fprintf(b, "%s\n", string(text))
	}
	for _, block := range m.Content {
		switch block := block.(type) {
		case *session.ToolUseBlock:
			fmt.Fprintf(b, "(calls %s)\n", block.Name)
		case *session.MediaBlock:
			fmt.Fprintf(b, "(%s %s)\n", block.Type, cmp.Or(block.Name, block.MIMEType))
		}
	}
}
