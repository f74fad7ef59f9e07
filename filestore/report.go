package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/session"
)

// ReportToolName is the tool whose arguments are a report: the link between the
// agent that submits one and the front end that shows it.
const ReportToolName = "Report"

// Report is a structured report, as an agent submitted it: the arguments of a
// call of the tool ReportToolName. Nothing of it is stored beside the call.
type Report struct {
	Headline string            `json:"headline"`
	Blocks   []json.RawMessage `json:"blocks"` // JSON values as they were written
	// Arguments is the whole input of the call, byte for byte.
	Arguments json.RawMessage `json:"-"`
}

// LastReport returns the most recent report of the session, nil if there is
// none, and whether it is the conversation's last message: whether nothing
// stands behind it but results of the message that made it. A call whose
// arguments are no report is passed over, and so are damaged lines. It reads the
// history from its end and does not need AcquireLock.
func (s *Session) LastReport() (rep *Report, current bool, err error) {
	rep, current, err = s.store.lastReport(context.Background(), s.id)
	return rep, current, sessionError("last report", s.name, err)
}

// LastReport is Session.LastReport without opening the session. One that does
// not exist has no report.
func (m *Manager) LastReport(name string) (*Report, bool, error) {
	if err := checkName(name); err != nil {
		return nil, false, sessionError("last report", name, err)
	}
	if m.store.flatOnly(name) {
		messages, err := m.store.flatMessages(name)
		rep, current := lastReportIn(messages)
		return rep, current, sessionError("last report", name, err)
	}
	rep, current, err := m.store.lastReport(context.Background(), name)
	return rep, current, sessionError("last report", name, err)
}

// reportWindow is how many messages are looked at first. It doubles until a
// report is found.
const reportWindow = 16

func (s *Store) lastReport(ctx context.Context, id string) (*Report, bool, error) {
	for last := reportWindow; ; last *= 2 {
		snap, err := s.Read(ctx, id, &session.ReadOptions{Last: last})
		if errors.Is(err, session.ErrCorrupt) {
			messages, _, err := s.liveMessages(ctx, id)
			rep, current := lastReportIn(messages)
			return rep, current, err
		}
		if err != nil {
			return nil, false, err
		}
		if rep, current := lastReportIn(snap.Messages); rep != nil || snap.First <= 1 {
			return rep, current, nil
		}
	}
}

func lastReportIn(messages []session.Message) (rep *Report, current bool) {
	for i, m := range slices.Backward(messages) {
		calls := m.ToolUses()
		for _, c := range slices.Backward(calls) {
			if rep, err := parseReport(c); err == nil {
				return rep, onlyResults(messages[i+1:], calls)
			}
		}
	}
	return nil, false
}

// parseReport returns the report that a call submits.
func parseReport(c *session.ToolUseBlock) (*Report, error) {
	if c.Name != ReportToolName {
		return nil, fmt.Errorf("filestore: a call of another tool")
	}
	var rep *Report
	if err := json.Unmarshal(c.Input, &rep); err != nil {
		return nil, err
	}
	if rep == nil {
		return nil, fmt.Errorf("filestore: a report without arguments")
	}
	rep.Arguments = slices.Clone(c.Input)
	return rep, nil
}

// onlyResults reports whether messages are nothing but results of calls.
func onlyResults(messages []session.Message, calls []*session.ToolUseBlock) bool {
	for _, m := range messages {
		results := m.ToolResults()
		if len(results) == 0 || len(results) != len(m.Content) {
			return false
		}
		for _, r := range results {
			if !slices.ContainsFunc(calls, func(c *session.ToolUseBlock) bool { return c.ID == r.ToolUseID }) {
				return false
			}
		}
	}
	return true
}
