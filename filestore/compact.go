package filestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/session"
)

// CompactOptions are the options of Compact. nil or all zero: defaults.
type CompactOptions struct {
	// Name is the new session's name; one that exists is ErrConflict. "": one
	// that GenerateSessionName gives.
	Name string
	// KeepTurns is how many of the last turns (see session.Turns) the new
	// session has too, behind the summary. 0: none.
	KeepTurns int
}

// Compact begins a new session with a summary of this one, and opens it. Its
// history is this one's system messages in front, a user message with the
// summary, which policies see as one (session.IsSummary) and keep in every view,
// and the last turns if KeepTurns asks for them. Its Meta is this session's, but
// for Parent, which is this session, and Cost, Summary and SucceededBy, which are
// empty.
//
// This session gets the new one's name as SucceededBy, so that opening it opens
// the new one, and stays as it is otherwise: LoadSession reads it. What others
// append to it until it has got that name is appended to the new one too; what they
// append later, through a Session that they have opened before, is not. Meta is
// read anew: save it first. The new Session ends with this one's Manager, or with
// Close of this one.
//
// ErrInvalidMessage for an empty summary, ErrNotFound if there is no history,
// ErrConflict if this session was compacted before or its history was replaced
// meanwhile. After an error there is no new session, unless taking it back
// failed too.
func (s *Session) Compact(summary string, opts *CompactOptions) (*Session, error) {
	next, err := s.compact(context.Background(), summary, opts)
	return next, sessionError("compact", s.name, err)
}

func (s *Session) compact(ctx context.Context, summary string, opts *CompactOptions) (*Session, error) {
	var o CompactOptions
	if opts != nil {
		o = *opts
	}
	m, err := s.store.Manager()
	if err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = m.GenerateSessionName()
	}
	switch err := checkName(o.Name); {
	case err != nil:
		return nil, err
	case o.KeepTurns < 0:
		return nil, fmt.Errorf("%w: KeepTurns %d", session.ErrInvalidOption, o.KeepTurns)
	case strings.TrimSpace(summary) == "":
		return nil, fmt.Errorf("%w: an empty summary", session.ErrInvalidMessage)
	case m.SessionExists(o.Name):
		return nil, fmt.Errorf("%w: session %q exists", session.ErrConflict, o.Name)
	}
	old, err := s.store.Read(ctx, s.id, nil)
	if err != nil {
		return nil, err
	}
	if old.Version == session.Absent {
		return nil, session.ErrNotFound
	}
	begun, err := s.store.Append(ctx, o.Name, compacted(old.Messages, summary, o.KeepTurns), &session.WriteOptions{IfVersion: session.Absent})
	if err != nil {
		return nil, err
	}
	if err := s.succeed(ctx, o.Name, old, begun); err != nil {
		return nil, errors.Join(err, s.store.Delete(ctx, o.Name, nil))
	}
	if err := s.loadMeta(); err != nil {
		return nil, err
	}
	return m.openOne(o.Name)
}

// compacted returns the history of a session that continues another.
func compacted(messages []session.Message, summary string, keepTurns int) []session.Message {
	turns := session.Turns(messages)
	preamble, kept := len(messages), len(messages)
	if len(turns) > 0 {
		preamble = turns[0].First
	}
	if n := min(keepTurns, len(turns)); n > 0 {
		kept = turns[len(turns)-n].First
	}
	next := slices.DeleteFunc(slices.Clone(messages[:preamble]), func(m session.Message) bool { return m.Role != session.RoleSystem })
	opening := session.UserText("[Summary of the conversation so far]\n" + summary)
	opening.Metadata = map[string]any{"summary": true}
	session.Pin(&opening)
	return append(append(next, opening), messages[kept:]...)
}

// succeed links this session to the one that continues it, and appends to that
// one what was appended here since old was read.
func (s *Session) succeed(ctx context.Context, name string, old session.Snapshot, begun session.Version) error {
	var before session.Meta
	_, err := s.store.Update(ctx, s.id, func(m *session.Meta) error {
		if m.SucceededBy != "" {
			return fmt.Errorf("%w: session %q was compacted into %q", session.ErrConflict, s.name, m.SucceededBy)
		}
		before = *m
		m.SucceededBy = name
		return nil
	})
	if err != nil {
		return err
	}
	if err = s.carryOver(ctx, name, before, old, begun); err == nil {
		return nil
	}
	_, undo := s.store.Update(ctx, s.id, func(m *session.Meta) error {
		if m.SucceededBy == name {
			m.SucceededBy = ""
		}
		return nil
	})
	return errors.Join(err, undo)
}

func (s *Session) carryOver(ctx context.Context, name string, meta session.Meta, old session.Snapshot, begun session.Version) error {
	_, err := s.store.Update(ctx, name, func(m *session.Meta) error {
		*m = meta
		m.Parent, m.SucceededBy, m.Cost = s.name, "", 0
		m.Summary, m.SummaryThrough, m.SummaryHash = "", 0, ""
		return nil
	})
	if err != nil {
		return err
	}
	since, err := s.store.Read(ctx, s.id, &session.ReadOptions{After: len(old.Messages)})
	switch {
	case err != nil:
		return err
	case since.Base != old.Base:
		return fmt.Errorf("%w: the history was replaced meanwhile", session.ErrConflict)
	case len(since.Messages) == 0:
		return nil
	}
	_, err = s.store.Append(ctx, name, since.Messages, &session.WriteOptions{IfVersion: begun})
	return err
}

// Fork begins the named session with the messages of this one, or with the first
// of them, and opens it; see session.Fork, whose errors it has. Files beside the
// history, such as spilled output, are not copied: paths in messages lead to this
// session's. The new Session ends as that of Compact does.
func (s *Session) Fork(name string, opts *session.ForkOptions) (*Session, error) {
	next, err := s.fork(context.Background(), name, opts)
	return next, sessionError("fork", s.name, err)
}

func (s *Session) fork(ctx context.Context, name string, opts *session.ForkOptions) (*Session, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	m, err := s.store.Manager()
	if err != nil {
		return nil, err
	}
	if m.store.hasFlat(name) {
		return nil, fmt.Errorf("%w: session %q exists", session.ErrConflict, name)
	}
	if _, err := session.Fork(ctx, s.store, s.id, name, opts); err != nil {
		return nil, err
	}
	return m.openOne(name)
}
