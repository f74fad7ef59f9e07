package session

import (
	"context"
	"errors"
	"fmt"
)

// ForkOptions are the options of Fork. nil or all zero: fork the whole history.
type ForkOptions struct {
	// Through is how many messages the new session begins with. 0: all. More
	// than there are is ErrInvalidOption.
	Through int
	// IfVersion is the version that the old session must be at. AnyVersion:
	// any.
	IfVersion Version
}

// Fork begins the session to with the messages of the session from, in the same
// store. Its Meta is from's, but for Parent, which is from, SucceededBy and
// Cost, which are empty, and a Summary that covers more than was taken, which
// is left out. from stays as it is. ErrNotFound if from does not exist,
// ErrConflict if to does or if from is not at IfVersion.
func Fork(ctx context.Context, b Backend, from, to string, opts *ForkOptions) (Info, error) {
	var o ForkOptions
	if opts != nil {
		o = *opts
	}
	info, err := fork(ctx, b, from, to, o)
	return info, wrapError("fork", from, err)
}

func fork(ctx context.Context, b Backend, from, to string, o ForkOptions) (Info, error) {
	if o.Through < 0 {
		return Info{}, fmt.Errorf("%w: Through %d", ErrInvalidOption, o.Through)
	}
	s, info, err := readSession(ctx, b, from, &ReadOptions{Limit: o.Through})
	switch {
	case err != nil:
		return Info{}, err
	case o.IfVersion != AnyVersion && o.IfVersion != s.Version:
		return Info{}, &conflict{s.Version}
	case o.Through > s.Total:
		return Info{}, fmt.Errorf("%w: Through %d of %d messages", ErrInvalidOption, o.Through, s.Total)
	}
	m := info.Meta
	m.Parent, m.SucceededBy, m.Cost = from, "", 0
	if m.SummaryThrough > len(s.Messages) {
		m.Summary, m.SummaryThrough, m.SummaryHash = "", 0, ""
	}
	return createSession(ctx, b, to, s.Messages, m)
}

// Copy begins the session to of dst with the messages and the Meta of the
// session from of src; the stores may be the same or not. ErrNotFound if from
// does not exist, ErrConflict if to does.
func Copy(ctx context.Context, src Backend, from string, dst Backend, to string) (Info, error) {
	s, info, err := readSession(ctx, src, from, nil)
	if err != nil {
		return Info{}, wrapError("copy", from, err)
	}
	info, err = createSession(ctx, dst, to, s.Messages, info.Meta)
	return info, wrapError("copy", from, err)
}

// Rewind removes the last turns of a history (see Turns), all of them if there
// are no more, and returns the messages removed and the new version. The
// preamble stays. If the session was written meanwhile: ErrConflict, and
// nothing is removed.
func Rewind(ctx context.Context, l Log, sessionID string, turns int) ([]Message, Version, error) {
	if turns <= 0 {
		return nil, "", wrapError("rewind", sessionID, fmt.Errorf("%w: %d turns", ErrInvalidOption, turns))
	}
	s, err := l.Read(ctx, sessionID, nil)
	if err != nil {
		return nil, "", err
	}
	keep := withoutTurns(s.Messages, turns)
	v, err := l.Truncate(ctx, sessionID, keep, &WriteOptions{IfVersion: s.Version})
	if err != nil {
		return nil, "", err
	}
	return s.Messages[keep:], v, nil
}

// withoutTurns returns how many messages stay when the last turns are removed.
func withoutTurns(messages []Message, turns int) int {
	all := Turns(messages)
	if len(all) == 0 {
		return len(messages)
	}
	return all[max(0, len(all)-turns)].First
}

// readSession reads messages and Meta of a session that exists. The Meta may be
// a little newer.
func readSession(ctx context.Context, b Backend, id string, opts *ReadOptions) (Snapshot, Info, error) {
	s, err := b.Read(ctx, id, opts)
	if err != nil {
		return Snapshot{}, Info{}, err
	}
	if s.Version == Absent {
		return Snapshot{}, Info{}, ErrNotFound
	}
	info, err := b.Info(ctx, id)
	return s, info, err
}

// createSession creates a session whole or, if it can, not at all.
func createSession(ctx context.Context, b Backend, id string, messages []Message, m Meta) (Info, error) {
	v, err := b.Replace(ctx, id, messages, &WriteOptions{IfVersion: Absent})
	if err != nil {
		return Info{}, err
	}
	info, err := b.Update(ctx, id, func(dst *Meta) error {
		*dst = m
		return nil
	})
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
		defer cancel()
		undo := b.Delete(ctx, id, &WriteOptions{IfVersion: v})
		return Info{}, errors.Join(err, undo)
	}
	return info, nil
}
