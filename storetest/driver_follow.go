package storetest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/session"
)

// madeCommits remembers the commits that drivers on the same data were given,
// by their revisions, so that it can tell whether a head with Appends comes to
// the same as one that has its own Record.
type madeCommits struct {
	mu sync.Mutex
	m  map[string]madeCommit
}

type madeCommit struct {
	ifRev  string
	base   string
	record []byte
	add    [][]byte
	append bool // it only appended
}

func (m *madeCommits) note(c session.Commit) {
	if c.Head == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = make(map[string]madeCommit)
	}
	appended := !c.SetMeta && c.Head.Base == m.m[c.IfRev].base
	m.m[c.Head.Rev] = madeCommit{c.IfRev, c.Head.Base, slices.Clone(c.Head.Record), cloneAll(c.Add), appended}
}

func cloneAll(lines [][]byte) [][]byte {
	cloned := make([][]byte, len(lines))
	for i, l := range lines {
		cloned[i] = bytes.Clone(l)
	}
	return cloned
}

// followed returns h with the Record of its own revision, if its Record and
// Appends lead there; otherwise h as it is, and why they don't.
func (m *madeCommits) followed(h session.Head) (session.Head, error) {
	if len(h.Appends) == 0 {
		return h, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rev := h.Rev
	for i, a := range slices.Backward(h.Appends) {
		c, ok := m.m[rev]
		switch {
		case !ok || a.Rev != rev:
			return h, fmt.Errorf("Appends[%d].Rev = %q, want %q", i, a.Rev, rev)
		case !c.append:
			return h, fmt.Errorf("Appends[%d] is of a commit that did more than append", i)
		case !slices.EqualFunc(a.Add, c.add, bytes.Equal):
			return h, fmt.Errorf("Appends[%d].Add is not what the commit added", i)
		}
		rev = c.ifRev
	}
	if !bytes.Equal(h.Record, m.m[rev].record) {
		return h, fmt.Errorf("Record is not that of revision %q, which Appends follow", rev)
	}
	h.Record, h.Appends = m.m[h.Rev].record, nil
	return h, nil
}

// followedDriver is a driver whose heads have their own Record, or are errors.
type followedDriver struct {
	session.Driver
	made *madeCommits
}

func (d followedDriver) Commit(ctx context.Context, id string, c session.Commit) error {
	d.made.note(c)
	return d.Driver.Commit(ctx, id, c)
}

func (d followedDriver) Head(ctx context.Context, id string) (session.Head, error) {
	h, err := d.Driver.Head(ctx, id)
	if err != nil {
		return h, err
	}
	return d.made.followed(h)
}

func (d followedDriver) Heads(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		for h, err := range d.Driver.Heads(ctx, q) {
			if err == nil {
				h, err = d.made.followed(h)
			}
			if !yield(h, err) {
				return
			}
		}
	}
}

// driverFollows commits appends and others in turn, and reads each head twice.
func driverFollows(tb testing.TB, s *driverSubject) {
	h := s.create(tb, id, "a")
	lines := []string{"a"}
	for i := range 20 {
		text := fmt.Sprint(i)
		switch i % 7 {
		case 3: // drops messages
			lines = append(lines[:1:1], text)
			h = s.change(tb, h, 1, text)
		case 5: // sets Meta
			n := s.newHead(id, h.Count)
			n.Base = h.Base
			must(tb, s.Commit(s.ctx, id, session.Commit{IfRev: h.Rev, Keep: h.Count, Head: n, SetMeta: true}), "Commit with SetMeta")
			h = *n
		default:
			lines = append(lines, text)
			h = s.change(tb, h, h.Count, text)
		}
		s.wantState(tb, id, h, lines, "after commits of several kinds")
		want(tb, s.takeHeads(tb, session.HeadQuery{}, 2), []session.Head{h}, "heads after commits of several kinds")
	}
}
