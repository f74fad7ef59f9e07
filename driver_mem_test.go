package session_test

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/session"
)

// memDriver is a Driver in memory: about the least that a driver can be.
type memDriver struct {
	mu       sync.Mutex
	sessions map[string]memSession
}

type memSession struct {
	head  session.Head
	lines [][]byte
}

func cloneHead(h session.Head) session.Head {
	h.Record, h.Meta = slices.Clone(h.Record), slices.Clone(h.Meta)
	return h
}

func cloneLines(lines [][]byte) [][]byte {
	cloned := make([][]byte, len(lines))
	for i, l := range lines {
		cloned[i] = slices.Clone(l)
	}
	return cloned
}

func newMemDriver() *memDriver { return &memDriver{sessions: make(map[string]memSession)} }

func (d *memDriver) Head(ctx context.Context, id string) (session.Head, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cloneHead(d.sessions[id].head), ctx.Err()
}

func (d *memDriver) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[id]
	if s.head.Base != h.Base {
		return nil, fmt.Errorf("%w: replaced", session.ErrConflict)
	}
	return cloneLines(s.lines[from:to]), ctx.Err()
}

func (d *memDriver) Commit(ctx context.Context, id string, c session.Commit) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.sessions[id]
	if err := ctx.Err(); err != nil {
		return err
	}
	if old.head.Rev != c.IfRev {
		return fmt.Errorf("%w: at another revision", session.ErrConflict)
	}
	if c.Head == nil {
		delete(d.sessions, id)
		return nil
	}
	s := memSession{head: cloneHead(*c.Head), lines: append(old.lines[:c.Keep:c.Keep], cloneLines(c.Add)...)}
	if !c.SetMeta {
		s.head.Meta = old.head.Meta
	}
	d.sessions[id] = s
	return nil
}

func (d *memDriver) Heads(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		for _, h := range d.heads(q) {
			if !yield(h, ctx.Err()) {
				return
			}
		}
	}
}

func (d *memDriver) heads(q session.HeadQuery) (heads []session.Head) {
	d.mu.Lock()
	defer d.mu.Unlock()
	newestFirst := func(a, b session.Head) int {
		return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(a.ID, b.ID))
	}
	behind := session.Head{Updated: q.AfterUpdated, ID: q.AfterID}
	for id, s := range d.sessions {
		if id[0] != 0 && strings.HasPrefix(id, q.Prefix) && !s.head.Updated.Before(q.Since) &&
			(q.AfterUpdated.IsZero() || newestFirst(s.head, behind) > 0) {
			heads = append(heads, cloneHead(s.head))
		}
	}
	slices.SortFunc(heads, newestFirst)
	return heads
}

func (d *memDriver) Close() error { return nil }
