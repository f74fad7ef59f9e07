package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// DriverOptions tell RunDriver about the drivers under test. nil, or the zero
// value, is for a driver that is the only one on its data.
type DriverOptions struct {
	// Peer opens a second driver on a driver's data, as another process would.
	// nil: rules about several writers use the one driver.
	Peer func(testing.TB, session.Driver) session.Driver
}

// driverRule is one rule of [session.Driver].
type driverRule struct {
	name string // "Driver", slash, what a driver does
	says string // the rule, as a failure prints it
	run  func(tb testing.TB, d *driverSubject)
}

// RunDriver tests that open's drivers obey the contract of [session.Driver],
// and then, by [Run], that what [session.NewBackend] makes of them obeys that
// of [session.Backend]. open returns an empty driver each time; RunDriver
// closes it. A rule is a subtest, named after it.
func RunDriver(t *testing.T, open func(testing.TB) session.Driver, opts *DriverOptions) {
	t.Helper()
	var o DriverOptions
	if opts != nil {
		o = *opts
	}
	for _, r := range driverRules {
		t.Run(r.name, func(t *testing.T) { r.runOn(t, open, o) })
	}
	const ttl = time.Hour
	clock := NewClock()
	drivers := make(map[session.Store]session.Driver)
	over := func(d session.Driver) session.Store {
		b := session.NewBackend(d, &session.BackendOptions{TTL: ttl, Clock: clock.Now})
		drivers[b] = d
		return b
	}
	lifted := &Options{TTL: ttl, Advance: clock.Advance}
	if o.Peer != nil {
		lifted.Peer = func(tb testing.TB, s session.Store) session.Store { return over(o.Peer(tb, drivers[s])) }
	}
	t.Run("Lifted", func(t *testing.T) {
		Run(t, func(tb testing.TB) session.Store { return over(open(tb)) }, lifted)
	})
}

// runOn checks one rule on a new driver.
func (r driverRule) runOn(tb testing.TB, open func(testing.TB) session.Driver, o DriverOptions) {
	tb.Helper()
	defer func() {
		if tb.Failed() {
			tb.Logf("the rule: %s", r.says)
		}
	}()
	made := &madeCommits{}
	d := open(tb)
	tb.Cleanup(func() { d.Close() })
	s := &driverSubject{Driver: followedDriver{d, made}, ctx: tb.Context()}
	s.peer = s.Driver
	if o.Peer != nil {
		s.peer = followedDriver{o.Peer(tb, d), made}
		tb.Cleanup(func() { s.peer.Close() })
	}
	r.run(tb, s)
}

// driverSubject is a driver under test, and another on its data, which may be
// the same.
type driverSubject struct {
	session.Driver
	peer session.Driver
	ctx  context.Context
	revs int
}

// epoch is when drivers' heads are updated. The microsecond shows that times
// are kept as they are.
var epoch = time.Date(2026, 2, 3, 4, 5, 6, 789_012_345, time.UTC)

// farOff is an expiry that no test sees.
var farOff = time.Date(2200, 1, 1, 0, 0, 0, 1, time.UTC)

// newHead returns a head with all fields set and a revision of its own.
func (s *driverSubject) newHead(id string, count int) *session.Head {
	s.revs++
	rev := fmt.Sprintf("%d-%s", s.revs, "rev")
	return &session.Head{
		ID: id, Rev: rev, Base: rev, Count: count,
		Updated: epoch.Add(time.Duration(s.revs) * time.Nanosecond), Expires: farOff,
		Record: []byte{0, 1, 0xff, byte(s.revs)}, Meta: []byte(`{"title":"é"}`),
	}
}

// create commits a new session and returns its head.
func (s *driverSubject) create(tb testing.TB, id string, lines ...string) session.Head {
	tb.Helper()
	h := s.newHead(id, len(lines))
	must(tb, s.Commit(s.ctx, id, session.Commit{Add: bytesOf(lines), Head: h, SetMeta: true}), "Commit of a new session %q", id)
	return *h
}

// change commits a change of a session at head h and returns the new head.
func (s *driverSubject) change(tb testing.TB, h session.Head, keep int, lines ...string) session.Head {
	tb.Helper()
	n := s.newHead(h.ID, keep+len(lines))
	if n.Meta = h.Meta; keep == h.Count {
		n.Base = h.Base
	}
	must(tb, s.Commit(s.ctx, h.ID, session.Commit{IfRev: h.Rev, Keep: keep, Add: bytesOf(lines), Head: n}),
		"Commit that keeps %d of %d and adds %d", keep, h.Count, len(lines))
	return *n
}

// line is the message that a text stands for. Drivers need not understand it,
// but may.
func line(text string) []byte {
	b, err := session.AppendMessage(nil, session.UserText(text))
	if err != nil {
		panic(err) // the suite's own texts are valid
	}
	return b
}

func bytesOf(texts []string) [][]byte {
	var lines [][]byte
	for _, t := range texts {
		lines = append(lines, line(t))
	}
	return lines
}

// wantState reports a session whose head or messages are others, on both
// drivers. The zero head: there must be no session.
func (s *driverSubject) wantState(tb testing.TB, id string, h session.Head, lines []string, when string) {
	tb.Helper()
	for _, d := range []session.Driver{s.Driver, s.peer} {
		got, err := d.Head(s.ctx, id)
		must(tb, err, "Head of %q %s", id, when)
		want(tb, got, h, "head of %q %s", id, when)
		if len(lines) > 0 {
			s.wantRange(tb, d, h, 0, lines, when)
		}
	}
}

func (s *driverSubject) wantRange(tb testing.TB, d session.Driver, h session.Head, from int, lines []string, when string) {
	tb.Helper()
	got, err := d.Range(s.ctx, h.ID, h, from, from+len(lines))
	must(tb, err, "Range from %d to %d of %d %s", from, from+len(lines), h.Count, when)
	var texts []string
	for _, l := range got {
		texts = append(texts, string(l))
	}
	var wants []string
	for _, l := range bytesOf(lines) {
		wants = append(wants, string(l))
	}
	want(tb, texts, wants, "messages from %d %s", from, when)
}

// headIDs returns the IDs that Heads yields.
func (s *driverSubject) headIDs(tb testing.TB, q session.HeadQuery) []string {
	tb.Helper()
	ids := []string{}
	for h, err := range s.peer.Heads(s.ctx, q) {
		must(tb, err, "Heads of %+v", q)
		ids = append(ids, h.ID)
	}
	return ids
}

// takeHeads returns the first n heads.
func (s *driverSubject) takeHeads(tb testing.TB, q session.HeadQuery, n int) []session.Head {
	tb.Helper()
	var heads []session.Head
	for h, err := range s.peer.Heads(s.ctx, q) {
		must(tb, err, "Heads of %+v", q)
		if heads = append(heads, h); len(heads) == n {
			break
		}
	}
	return slices.Clip(heads)
}
