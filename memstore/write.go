package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/session"
)

// Save implements session.Store.
func (s *Store) Save(ctx context.Context, sessionID string, messages []session.Message) error {
	_, err := s.replace(ctx, "save", sessionID, messages, nil)
	return err
}

// Replace implements session.Log.
func (s *Store) Replace(ctx context.Context, sessionID string, messages []session.Message, opts *session.WriteOptions) (session.Version, error) {
	return s.replace(ctx, "replace", sessionID, messages, opts)
}

func (s *Store) replace(ctx context.Context, op, id string, messages []session.Message, opts *session.WriteOptions) (session.Version, error) {
	stored, err := s.accept(ctx, messages)
	if err != nil {
		return "", fail(op, id, err)
	}
	return s.write(ctx, op, id, opts, func([]session.Message) plan {
		return plan{history: stored, rebased: true, changes: true}
	})
}

// Append implements session.Log.
func (s *Store) Append(ctx context.Context, sessionID string, messages []session.Message, opts *session.WriteOptions) (session.Version, error) {
	stored, err := s.accept(ctx, messages)
	if err != nil {
		return "", fail("append", sessionID, err)
	}
	return s.write(ctx, "append", sessionID, opts, func(old []session.Message) plan {
		return plan{history: append(old, stored...), changes: len(stored) > 0}
	})
}

// Truncate implements session.Log.
func (s *Store) Truncate(ctx context.Context, sessionID string, keep int, opts *session.WriteOptions) (session.Version, error) {
	if keep < 0 && ctx.Err() == nil {
		return "", fail("truncate", sessionID, fmt.Errorf("%w: keep %d", session.ErrInvalidOption, keep))
	}
	return s.write(ctx, "truncate", sessionID, opts, func(old []session.Message) plan {
		if keep >= len(old) {
			return plan{}
		}
		// A new slice: readers still look at the old one, and what was
		// removed shall not stay in memory behind it.
		return plan{history: slices.Clone(old[:keep]), rebased: true, changes: true}
	})
}

// accept checks and copies the messages of a write.
func (s *Store) accept(ctx context.Context, messages []session.Message) ([]session.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if most := s.opts.MaxBatchBytes; most > 0 {
		var line []byte
		n := 0
		for _, m := range messages {
			var err error
			if line, err = session.AppendMessage(line[:0], m); err != nil {
				return nil, err
			}
			n += len(line)
		}
		if n > most {
			return nil, fmt.Errorf("%w: %d bytes in one write, at most %d", session.ErrTooLarge, n, most)
		}
	}
	return session.Canonical(messages)
}

// plan is what a write makes of a history.
type plan struct {
	history []session.Message
	rebased bool // more than the end changes
	changes bool // anything changes at all
}

// write makes one write of messages. Of what it gets, makePlan may only change
// what is behind the end.
func (s *Store) write(ctx context.Context, op, id string, opts *session.WriteOptions, makePlan func(old []session.Message) plan) (session.Version, error) {
	var o session.WriteOptions
	if opts != nil {
		o = *opts
	}
	if err := s.begin(ctx, id); err != nil {
		return "", fail(op, id, err)
	}
	defer s.gate.Leave()
	if err := o.Check(); err != nil {
		return "", fail(op, id, err)
	}
	sh := s.shard(id)
	now := s.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.get(id, now)
	var old []session.Message
	if e != nil {
		if v, found := e.keyed(o.Key, s.hash(o.Key)); found {
			return v, nil
		}
		old = e.messages
	}
	if err := checkVersion(op, id, o.IfVersion, e); err != nil {
		return "", err
	}
	p := makePlan(old)
	if !p.changes {
		return e.current(), nil
	}
	if e == nil {
		e, p.rebased = sh.create(id, now), true
	}
	e.messages = p.history
	e.writes++
	e.version = version(e.life, e.writes)
	if p.rebased {
		e.base = e.version
	}
	if o.Key != "" {
		e.keys = append(e.keys[max(0, len(e.keys)+1-keptKeys):], keyedWrite{s.hash(o.Key), o.Key, e.version})
	}
	s.touch(sh, e, now)
	return e.version, nil
}

// keyed returns what the write with a key has led to.
func (e *entry) keyed(key string, hash uint64) (session.Version, bool) {
	if key == "" {
		return "", false
	}
	for i := range e.keys {
		if k := &e.keys[i]; k.hash == hash && k.key == key {
			return k.version, true
		}
	}
	return "", false
}

// checkVersion returns ErrConflict if a session is not at the required version.
func checkVersion(op, id string, required session.Version, e *entry) error {
	if current := e.current(); required != session.AnyVersion && required != current {
		return &session.Error{Op: op, SessionID: id, Err: session.ErrConflict, Current: current}
	}
	return nil
}
