// Package drivertest makes random commits for a driver, and knows what it has to
// show after them.
package drivertest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

// Session is what a session should be.
type Session struct {
	Head  session.Head
	Lines [][]byte
}

// Sessions is what a driver should have, by ID. Those that are not there don't
// exist.
type Sessions map[string]Session

// Mix is what the commits are like that a driver is tested with, and what it may
// return.
type Mix struct {
	Remove  int   // one commit in so many removes its session
	Cut     int   // one of the others in so many drops messages
	Sizes   []int // how long the texts of messages may be
	Appends bool  // whether the driver may return Appends in place of a Record
}

// Commit returns a commit of a random kind that fits the session. The step is
// another one each time.
func (s Sessions) Commit(rnd *rand.Rand, id string, step int, now time.Time, mix Mix) session.Commit {
	m := s[id]
	c := session.Commit{IfRev: m.Head.Rev}
	if m.Head.Rev != "" && rnd.IntN(mix.Remove) == 0 {
		return c
	}
	c.Keep = len(m.Lines)
	base := m.Head.Base
	if rnd.IntN(mix.Cut) == 0 {
		c.Keep = rnd.IntN(len(m.Lines) + 1)
	}
	for range []int{0, 1, 1, 1, 2, 4, 70}[rnd.IntN(7)] {
		text := strings.Repeat("x", mix.Sizes[rnd.IntN(len(mix.Sizes))])
		c.Add = append(c.Add, fmt.Appendf(nil, `{"role":"user","id":"%d","content":[{"type":"text","text":"%s"}]}`, step, text))
	}
	if c.Keep < len(m.Lines) || m.Head.Rev == "" {
		base = fmt.Sprint("base", step)
	}
	c.Head = &session.Head{
		ID: id, Rev: fmt.Sprint("rev", step), Base: base, Count: c.Keep + len(c.Add), Updated: now,
		Record: bytes.Repeat([]byte{byte(step)}, 1+rnd.IntN(300)),
	}
	if rnd.IntN(2) == 0 {
		c.Head.Expires = now.Add(time.Hour)
	}
	if c.SetMeta = m.Head.Rev == "" || rnd.IntN(5) == 0; c.SetMeta && rnd.IntN(2) == 0 {
		c.Head.Meta = fmt.Appendf(nil, `{"title":"%d"}`, step)
	}
	return c
}

// Apply makes a commit that fits the session.
func (s Sessions) Apply(id string, c session.Commit) {
	if c.Head == nil {
		delete(s, id)
		return
	}
	m, head := s[id], *c.Head
	if !c.SetMeta {
		head.Meta = m.Head.Meta
	}
	s[id] = Session{head, append(m.Lines[:c.Keep:c.Keep], c.Add...)}
}

// Check compares a session's head, and a part of its history, with those of a
// driver.
func (s Sessions) Check(t *testing.T, d session.Driver, id string, rnd *rand.Rand, mix Mix) {
	t.Helper()
	m := s[id]
	h, err := d.Head(t.Context(), id)
	if err != nil {
		t.Fatalf("Head(%q): %v", id, err)
	}
	if n := len(h.Appends); n > 0 && mix.Appends { // the suite looks at these more closely
		if h.Appends[n-1].Rev != h.Rev {
			t.Errorf("the last of the Appends is %q, want %q", h.Appends[n-1].Rev, h.Rev)
		}
		h.Record, h.Appends = m.Head.Record, nil
	}
	if diff := cmp.Diff(m.Head, h); diff != "" {
		t.Fatalf("Head(%q) (-want +got):\n%s", id, diff)
	}
	if h.Count == 0 {
		return
	}
	from := rnd.IntN(h.Count)
	to := from + 1 + rnd.IntN(h.Count-from)
	if rnd.IntN(2) == 0 {
		to = h.Count
	}
	lines, err := d.Range(t.Context(), id, h, from, to)
	if err != nil {
		t.Fatalf("Range(%q): %v", id, err)
	}
	if !slices.EqualFunc(lines, m.Lines[from:to], bytes.Equal) {
		t.Fatalf("Range(%q, %d, %d) of %d differs", id, from, to, h.Count)
	}
}
