package memstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// Info implements session.Catalog.
func (s *Store) Info(ctx context.Context, sessionID string) (session.Info, error) {
	info, err := s.info(ctx, sessionID)
	return info, fail("info", sessionID, err)
}

func (s *Store) info(ctx context.Context, id string) (session.Info, error) {
	if err := s.begin(ctx, id); err != nil {
		return session.Info{}, err
	}
	defer s.gate.Leave()
	sh := s.shard(id)
	now := s.now()
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	e := sh.get(id, now)
	if e == nil {
		return session.Info{}, session.ErrNotFound
	}
	return e.info(id), nil
}

func (e *entry) info(id string) session.Info {
	return session.Info{
		ID: id, Version: e.version, Messages: len(e.messages),
		Created: e.created, Updated: e.updated, Expires: e.expires, Meta: cloneMeta(e.meta),
	}
}

// List implements session.Catalog.
func (s *Store) List(ctx context.Context, opts *session.ListOptions) iter.Seq2[session.Info, error] {
	var o session.ListOptions
	if opts != nil {
		o = *opts
	}
	return func(yield func(session.Info, error) bool) {
		infos, err := s.list(ctx, o)
		for _, info := range infos {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(info, nil) {
				return
			}
		}
		if err != nil {
			yield(session.Info{}, fail("list", "", err))
		}
	}
}

func (s *Store) list(ctx context.Context, o session.ListOptions) ([]session.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.gate.Leave()
	if err := o.Check(); err != nil {
		return nil, err
	}
	var infos []session.Info
	now := s.now()
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.RLock()
		within := sh.sessions
		if f := o.Prefix[:strings.LastIndexByte(o.Prefix, '/')+1]; f != "" {
			within = sh.folders[f]
		}
		for id, e := range within {
			if strings.HasPrefix(id, o.Prefix) && !e.expired(now) && !e.updated.Before(o.UpdatedSince) {
				infos = append(infos, e.info(id))
			}
		}
		sh.mu.RUnlock()
	}
	slices.SortFunc(infos, newestFirst)
	if o.After != nil && !o.After.Updated.IsZero() {
		i, found := slices.BinarySearchFunc(infos, *o.After, newestFirst)
		if found {
			i++
		}
		infos = infos[i:]
	}
	if o.Limit > 0 && o.Limit < len(infos) {
		infos = infos[:o.Limit]
	}
	return infos, nil
}

func newestFirst(a, b session.Info) int {
	return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(a.ID, b.ID))
}

// Update implements session.Catalog.
func (s *Store) Update(ctx context.Context, sessionID string, change func(*session.Meta) error) (session.Info, error) {
	info, err := s.update(ctx, sessionID, change)
	return info, fail("update", sessionID, err)
}

func (s *Store) update(ctx context.Context, id string, change func(*session.Meta) error) (session.Info, error) {
	if err := s.begin(ctx, id); err != nil {
		return session.Info{}, err
	}
	defer s.gate.Leave()
	for {
		sh := s.shard(id)
		e, edits, meta := sh.lookMeta(id, s.now())
		if e == nil {
			return session.Info{}, session.ErrNotFound
		}
		if err := change(&meta); err != nil {
			return session.Info{}, err
		}
		if _, err := session.EncodeMeta(meta); err != nil {
			return session.Info{}, err
		}
		if info, done := s.edit(sh, id, e, edits, cloneMeta(meta)); done {
			return info, nil
		}
		if err := ctx.Err(); err != nil {
			return session.Info{}, err
		}
	}
}

// lookMeta returns a session, nil if it does not exist, and its Meta as edited
// so many times.
func (sh *shard) lookMeta(id string, now time.Time) (e *entry, edits uint64, meta session.Meta) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if e = sh.get(id, now); e != nil {
		edits, meta = e.edits, cloneMeta(e.meta)
	}
	return e, edits, meta
}

// edit stores a Meta if nobody has stored another since the seen-th.
func (s *Store) edit(sh *shard, id string, e *entry, seen uint64, meta session.Meta) (session.Info, bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	now := s.now()
	if sh.get(id, now) != e || e.edits != seen {
		return session.Info{}, false
	}
	e.meta = meta
	e.edits++
	s.touch(sh, e, now)
	return e.info(id), true
}

// Delete implements session.Catalog.
func (s *Store) Delete(ctx context.Context, sessionID string, opts *session.WriteOptions) error {
	if err := s.begin(ctx, sessionID); err != nil {
		return fail("delete", sessionID, err)
	}
	defer s.gate.Leave()
	if opts != nil && opts.Key != "" {
		return fail("delete", sessionID, fmt.Errorf("%w: Delete with a Key", session.ErrInvalidOption))
	}
	sh := s.shard(sessionID)
	now := s.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if opts != nil {
		if err := checkVersion("delete", sessionID, opts.IfVersion, sh.get(sessionID, now)); err != nil {
			return err
		}
	}
	sh.remove(sessionID)
	return nil
}
