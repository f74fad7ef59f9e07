package storetest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// driverBreakage is a driver that breaks one rule.
type driverBreakage struct {
	rule string
	says string
	make func(d *memDriver, b *brokenDriver)
}

// onCommit replaces what a Commit is before it is made.
func onCommit(edit func(d *memDriver, id string, c *session.Commit)) func(*memDriver, *brokenDriver) {
	return func(d *memDriver, b *brokenDriver) {
		b.commit = func(ctx context.Context, id string, c session.Commit) error {
			edit(d, id, &c)
			return d.Commit(ctx, id, c)
		}
	}
}

// onHeads replaces what Heads yields.
func onHeads(edit func(q session.HeadQuery, heads []session.Head) []session.Head) func(*memDriver, *brokenDriver) {
	return func(d *memDriver, b *brokenDriver) {
		b.heads = func(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
			var heads []session.Head
			var last error
			for h, err := range d.Heads(ctx, q) {
				if last = err; err == nil {
					heads = append(heads, h)
				}
			}
			return func(yield func(session.Head, error) bool) {
				for _, h := range edit(q, heads) {
					if !yield(h, nil) {
						return
					}
				}
				if last != nil {
					yield(session.Head{}, last)
				}
			}
		}
	}
}

// onFollow lets the driver keep no Record with an append, and changes the heads
// that tell of the appends instead.
func onFollow(edit func(h *session.Head)) func(*memDriver, *brokenDriver) {
	return func(d *memDriver, b *brokenDriver) {
		followAppends(d, b)
		head := b.head
		b.head = func(ctx context.Context, id string) (session.Head, error) {
			h, err := head(ctx, id)
			edit(&h)
			return h, err
		}
	}
}

// followAppends makes of b a correct driver that keeps no Record with an append.
func followAppends(d *memDriver, b *brokenDriver) {
	type kept struct {
		rev     string // that the record and the appends lead to
		record  []byte
		appends []session.Appended
	}
	var mu sync.Mutex
	sessions := make(map[string]kept)
	b.commit = func(ctx context.Context, id string, c session.Commit) error {
		mu.Lock()
		defer mu.Unlock()
		before, err := d.Head(ctx, id)
		if err == nil {
			err = d.Commit(ctx, id, c)
		}
		if err != nil || c.Head == nil {
			return err
		}
		k := sessions[id]
		if c.SetMeta || c.Keep != before.Count || k.rev != c.IfRev || len(k.appends) == 0 && k.record == nil {
			k.record, k.appends = slices.Clone(c.Head.Record), nil
		} else {
			k.appends = append(slices.Clip(k.appends), session.Appended{Rev: c.Head.Rev, Add: cloneLines(c.Add)})
		}
		k.rev = c.Head.Rev
		sessions[id] = k
		return nil
	}
	follow := func(h session.Head) session.Head {
		mu.Lock()
		defer mu.Unlock()
		if k := sessions[h.ID]; k.rev == h.Rev && h.Rev != "" {
			h.Record, h.Appends = slices.Clone(k.record), slices.Clone(k.appends)
		}
		return h
	}
	b.head = func(ctx context.Context, id string) (session.Head, error) {
		h, err := d.Head(ctx, id)
		return follow(h), err
	}
	b.heads = func(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
		return func(yield func(session.Head, error) bool) {
			for h, err := range d.Heads(ctx, q) {
				if !yield(follow(h), err) {
					return
				}
			}
		}
	}
}

var driverBreakages = []driverBreakage{
	{"Driver/HeadOfNothingIsZero", "returns ErrNotFound", func(d *memDriver, b *brokenDriver) {
		b.head = func(ctx context.Context, id string) (session.Head, error) {
			h, err := d.Head(ctx, id)
			if err == nil && h.Rev == "" {
				err = session.ErrNotFound
			}
			return h, err
		}
	}},
	{"Driver/KeepsHeads", "keeps times to the microsecond", onCommit(func(_ *memDriver, _ string, c *session.Commit) {
		if c.Head != nil {
			h := *c.Head
			h.Updated = h.Updated.Truncate(time.Microsecond)
			c.Head = &h
		}
	})},
	{"Driver/KeepsHeads", "keeps the record as text", onCommit(func(_ *memDriver, _ string, c *session.Commit) {
		if c.Head != nil {
			h := *c.Head
			h.Record = bytes.ToValidUTF8(h.Record, []byte("?"))
			c.Head = &h
		}
	})},
	{"Driver/FollowsAppends", "forgets every other append", onFollow(func(h *session.Head) {
		h.Appends = slices.DeleteFunc(h.Appends, func(a session.Appended) bool { return len(a.Rev)%2 == 0 })
	})},
	{"Driver/FollowsAppends", "leaves out what appends added", onFollow(func(h *session.Head) {
		for i := range h.Appends {
			h.Appends[i].Add = nil
		}
	})},
	{"Driver/FollowsAppends", "lists the latest append first", onFollow(func(h *session.Head) { slices.Reverse(h.Appends) })},
	{"Driver/LeavesMeta", "always sets Meta", onCommit(func(_ *memDriver, _ string, c *session.Commit) { c.SetMeta = c.Head != nil })},
	{"Driver/LeavesMeta", "sets Meta of new sessions alone", onCommit(func(_ *memDriver, _ string, c *session.Commit) { c.SetMeta = c.IfRev == "" })},
	{"Driver/KeepsAndAdds", "keeps one too many", onCommit(func(d *memDriver, id string, c *session.Commit) {
		if n := len(d.sessions[id].lines); c.Head != nil && c.Keep < n && c.Keep > 0 {
			c.Keep++
		}
	})},
	{"Driver/KeepsAndAdds", "adds 256 messages at most", onCommit(func(_ *memDriver, _ string, c *session.Commit) {
		c.Add = c.Add[:min(len(c.Add), 256)]
	})},
	{"Driver/ComparesRevisions", "takes any revision", onCommit(func(d *memDriver, id string, c *session.Commit) { c.IfRev = d.sessions[id].head.Rev })},
	{"Driver/ComparesRevisions", "creates over what there is", onCommit(func(d *memDriver, id string, c *session.Commit) {
		if c.IfRev == "" {
			c.IfRev = d.sessions[id].head.Rev
		}
	})},
	{"Driver/OneOfManyWins", "compares before it takes its lock", func(d *memDriver, b *brokenDriver) {
		b.commit = func(ctx context.Context, id string, c session.Commit) error {
			h, err := d.Head(ctx, id)
			if err != nil || h.Rev != c.IfRev {
				return errors.Join(err, session.ErrConflict)
			}
			for range 8 { // let the others compare too
				time.Sleep(time.Millisecond)
			}
			if h, err = d.Head(ctx, id); err != nil {
				return err
			}
			c.IfRev = h.Rev
			c.Keep = min(c.Keep, h.Count)
			return d.Commit(ctx, id, c)
		}
	}},
	{"Driver/Removes", "leaves the head behind", onCommit(func(d *memDriver, id string, c *session.Commit) {
		if c.Head == nil {
			h := d.sessions[id].head
			c.Head = &h
		}
	})},
	{"Driver/RangesWhatIsAsked", "counts from one", func(d *memDriver, b *brokenDriver) {
		b.lines = func(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
			return d.Range(ctx, id, h, max(from-1, 0), max(from-1, 0)+to-from)
		}
	}},
	{"Driver/RangesForOlderHeads", "serves the latest head alone", func(d *memDriver, b *brokenDriver) {
		b.lines = func(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
			if now, err := d.Head(ctx, id); err != nil || now.Rev != h.Rev {
				return nil, errors.Join(err, session.ErrConflict)
			}
			return d.Range(ctx, id, h, from, to)
		}
	}},
	{"Driver/RefusesOtherBases", "returns whatever stands at the positions", func(d *memDriver, b *brokenDriver) {
		b.lines = func(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
			now, err := d.Head(ctx, id)
			if err != nil {
				return nil, err
			}
			return d.Range(ctx, id, now, from, to)
		}
	}},
	{"Driver/Copies", "keeps the lines that it is given", func(d *memDriver, b *brokenDriver) {
		b.commit = func(ctx context.Context, id string, c session.Commit) error {
			err := d.Commit(ctx, id, c)
			d.mu.Lock()
			defer d.mu.Unlock()
			if s := d.sessions[id]; err == nil && len(c.Add) > 0 {
				copy(s.lines[c.Keep:], c.Add)
			}
			return err
		}
	}},
	{"Driver/Copies", "returns the lines that it keeps", func(d *memDriver, b *brokenDriver) {
		b.lines = func(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
			if _, err := d.Range(ctx, id, h, from, to); err != nil {
				return nil, err
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.sessions[id].lines[from:to], nil
		}
	}},
	{"Driver/TellsIDsApart", "folds case", func(d *memDriver, b *brokenDriver) {
		b.head = func(ctx context.Context, id string) (session.Head, error) { return d.Head(ctx, strings.ToLower(id)) }
		b.commit = func(ctx context.Context, id string, c session.Commit) error {
			return d.Commit(ctx, strings.ToLower(id), c)
		}
	}},
	{"Driver/TellsIDsApart", "ends IDs at a NUL", func(d *memDriver, b *brokenDriver) {
		end := func(id string) string { return id[:strings.IndexByte(id+"\x00", 0)] }
		b.head = func(ctx context.Context, id string) (session.Head, error) { return d.Head(ctx, end(id)) }
		b.commit = func(ctx context.Context, id string, c session.Commit) error { return d.Commit(ctx, end(id), c) }
	}},
	{"Driver/ListsNewestFirst", "lists the oldest first", onHeads(func(_ session.HeadQuery, heads []session.Head) []session.Head {
		slices.Reverse(heads)
		return heads
	})},
	{"Driver/ListsNewestFirst", "orders by whole seconds", onHeads(func(_ session.HeadQuery, heads []session.Head) []session.Head {
		slices.SortStableFunc(heads, func(a, b session.Head) int {
			if c := b.Updated.Truncate(time.Second).Compare(a.Updated.Truncate(time.Second)); c != 0 {
				return c
			}
			return strings.Compare(a.ID, b.ID)
		})
		return heads
	})},
	{"Driver/ListsWhatIsAsked", "takes _ in a prefix for any character", func(d *memDriver, b *brokenDriver) {
		b.heads = func(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
			prefix := q.Prefix
			q.Prefix = ""
			return func(yield func(session.Head, error) bool) {
				for h, err := range d.Heads(ctx, q) {
					if err == nil && !likePrefix(h.ID, prefix) {
						continue
					}
					if !yield(h, err) {
						return
					}
				}
			}
		}
	}},
	{"Driver/ListsWhatIsAsked", "leaves out what was updated at Since", onHeads(func(q session.HeadQuery, heads []session.Head) []session.Head {
		return slices.DeleteFunc(heads, func(h session.Head) bool { return !q.Since.IsZero() && h.Updated.Equal(q.Since) })
	})},
	{"Driver/ListsNoHiddenHeads", "lists leases", func(d *memDriver, b *brokenDriver) {
		b.heads = func(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
			return func(yield func(session.Head, error) bool) {
				for id, s := range d.sessions {
					if strings.HasPrefix(id, "\x00") && !yield(s.head, nil) {
						return
					}
				}
				d.Heads(ctx, q)(yield)
			}
		}
	}},
	{"Driver/HoldsNothingWhileListing", "holds its lock while it yields", func(d *memDriver, b *brokenDriver) {
		lock := make(chan struct{}, 1)
		b.heads = func(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
			return func(yield func(session.Head, error) bool) {
				lock <- struct{}{}
				defer func() { <-lock }()
				d.Heads(ctx, q)(yield)
			}
		}
		b.commit = func(ctx context.Context, id string, c session.Commit) error {
			select {
			case lock <- struct{}{}:
				defer func() { <-lock }()
				return d.Commit(ctx, id, c)
			default:
				return errors.New("busy")
			}
		}
	}},
	{"Driver/HeedsContexts", "commits whatever the context says", func(d *memDriver, b *brokenDriver) {
		b.commit = func(ctx context.Context, id string, c session.Commit) error {
			return d.Commit(context.WithoutCancel(ctx), id, c)
		}
	}},
	{"Driver/HoldsALot", "cuts messages off at a megabyte", onCommit(func(_ *memDriver, _ string, c *session.Commit) {
		for i, l := range c.Add {
			c.Add[i] = l[:min(len(l), 1<<20)]
		}
	})},
}

// likePrefix is LIKE, as far as underscores go.
func likePrefix(id, prefix string) bool {
	if len(id) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if prefix[i] != '_' && prefix[i] != id[i] {
			return false
		}
	}
	return true
}

func TestDriverRulesHoldForACorrectDriver(t *testing.T) {
	d := make(map[session.Driver]*memDriver)
	open := func(m *memDriver) session.Driver {
		b := newBrokenDriver(m)
		d[b] = m
		return b
	}
	RunDriver(t, func(testing.TB) session.Driver { return open(newMemDriver()) },
		&DriverOptions{Peer: func(_ testing.TB, of session.Driver) session.Driver { return open(d[of]) }})
}

func TestDriverRulesHoldForOneThatFollowsAppends(t *testing.T) {
	RunDriver(t, func(testing.TB) session.Driver {
		d := newMemDriver()
		b := newBrokenDriver(d)
		followAppends(d, b)
		return b
	}, nil)
}

func TestBrokenDriver(t *testing.T) {
	for _, r := range driverRules {
		t.Run(r.name, func(t *testing.T) {
			n := 0
			for _, b := range driverBreakages {
				if b.rule != r.name {
					continue
				}
				n++
				rec := record(t, time.Minute, func(tb testing.TB) {
					r.runOn(tb, func(testing.TB) session.Driver {
						d := newMemDriver()
						broken := newBrokenDriver(d)
						b.make(d, broken)
						return broken
					}, DriverOptions{})
				})
				if !rec.Failed() || rec.panicked != nil {
					t.Errorf("does not catch the driver that %s (panic: %v)", b.says, rec.panicked)
					continue
				}
				t.Logf("%s catches the driver that %s: %s", r.name, b.says, rec.first())
			}
			if n == 0 {
				t.Error("no broken driver shows that this rule catches anything")
			}
		})
	}
}
