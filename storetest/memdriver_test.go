package storetest

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

// memDriver is a correct driver in memory. What it returns may be changed.
type memDriver struct {
	mu       sync.Mutex
	sessions map[string]memSession
}

type memSession struct {
	head  session.Head
	lines [][]byte // never changed, only followed by others
}

func newMemDriver() *memDriver { return &memDriver{sessions: make(map[string]memSession)} }

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

func (d *memDriver) Head(ctx context.Context, id string) (session.Head, error) {
	if err := ctx.Err(); err != nil {
		return session.Head{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return cloneHead(d.sessions[id].head), nil
}

func (d *memDriver) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[id]
	if s.head.Base != h.Base || to > len(s.lines) {
		return nil, fmt.Errorf("%w: replaced", session.ErrConflict)
	}
	return cloneLines(s.lines[from:to]), nil
}

func (d *memDriver) Commit(ctx context.Context, id string, c session.Commit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.sessions[id]
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
			if err := ctx.Err(); err != nil {
				yield(session.Head{}, err)
				return
			}
			if !yield(h, nil) {
				return
			}
		}
	}
}

func newestHeadFirst(a, b session.Head) int {
	return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(a.ID, b.ID))
}

func (d *memDriver) heads(q session.HeadQuery) (heads []session.Head) {
	d.mu.Lock()
	defer d.mu.Unlock()
	behind := session.Head{Updated: q.AfterUpdated, ID: q.AfterID}
	for id, s := range d.sessions {
		if id[0] != 0 && strings.HasPrefix(id, q.Prefix) && !s.head.Updated.Before(q.Since) &&
			(q.AfterUpdated.IsZero() || newestHeadFirst(s.head, behind) > 0) {
			heads = append(heads, cloneHead(s.head))
		}
	}
	slices.SortFunc(heads, newestHeadFirst)
	return heads
}

func (d *memDriver) Close() error { return nil }
