package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var driverRules = []driverRule{
	{"Driver/HeadOfNothingIsZero", "The head of a session that does not exist is the zero Head, without an error.", driverHeadOfNothing},
	{"Driver/KeepsHeads", "Head returns every field of the head that was committed, to the nanosecond and the byte.", driverKeepsHeads},
	{"Driver/FollowsAppends", "A Record of an earlier commit comes with the appends that followed it, all and in order.", driverFollows},
	{"Driver/LeavesMeta", "Without SetMeta the stored Meta stays; with it, it is replaced, also by none.", driverLeavesMeta},
	{"Driver/KeepsAndAdds", "Commit keeps the first Keep messages and puts Add behind them.", driverKeepsAndAdds},
	{"Driver/ComparesRevisions", "Commit at another revision, or at none where there is one, is ErrConflict and changes nothing.", driverComparesRevisions},
	{"Driver/OneOfManyWins", "Of several Commits at one revision exactly one succeeds.", driverOneWins},
	{"Driver/Removes", "Commit without a Head removes the session with all it had.", driverRemoves},
	{"Driver/RangesWhatIsAsked", "Range returns the messages at positions from+1 to to.", driverRanges},
	{"Driver/RangesForOlderHeads", "Range succeeds for an older head while the current one has its Base.", driverRangesForOlderHeads},
	{"Driver/RefusesOtherBases", "Range is ErrConflict if the history that the head describes is no longer there.", driverRefusesOtherBases},
	{"Driver/Copies", "The driver keeps no slice that it is given and returns none that it keeps.", driverCopies},
	{"Driver/TellsIDsApart", "IDs are compared byte by byte; one that begins with NUL is an ID like any other.", driverTellsIDsApart},
	{"Driver/ListsNewestFirst", "Heads yields the newest update first, ties by ID.", driverListsNewestFirst},
	{"Driver/ListsWhatIsAsked", "Heads keeps to the prefix, to the time since and to the position behind which it is asked.", driverListsWhatIsAsked},
	{"Driver/ListsNoHiddenHeads", "Heads never yields an ID that begins with NUL.", driverListsNoHidden},
	{"Driver/HoldsNothingWhileListing", "While Heads yields, the driver can be used, and written to.", driverListsOpenly},
	{"Driver/HeedsContexts", "A call whose context is done returns its error and changes nothing.", driverHeedsContexts},
	{"Driver/HoldsALot", "A Commit of many messages, and of large ones, is whole.", driverHoldsALot},
}

func driverHeadOfNothing(tb testing.TB, s *driverSubject) {
	s.wantState(tb, "none", session.Head{}, nil, "of no session")
}

func driverKeepsHeads(tb testing.TB, s *driverSubject) {
	h := s.create(tb, id, "a")
	s.wantState(tb, id, h, []string{"a"}, "that was created")
	n := s.newHead(id, 1)
	n.Base, n.Expires, n.Meta = h.Base, time.Time{}, nil
	must(tb, s.Commit(s.ctx, id, session.Commit{IfRev: h.Rev, Keep: 1, Head: n, SetMeta: true}), "Commit of another head")
	s.wantState(tb, id, *n, []string{"a"}, "that no longer expires")
	empty := s.create(tb, "empty")
	s.wantState(tb, "empty", empty, nil, "without messages")
	s.wantState(tb, "empty", s.change(tb, empty, 0), nil, "without messages, again")
}

func driverLeavesMeta(tb testing.TB, s *driverSubject) {
	h := s.create(tb, id, "a")
	n := s.newHead(id, 2)
	n.Base, n.Meta = h.Base, []byte(`{"title":"ignored"}`)
	must(tb, s.Commit(s.ctx, id, session.Commit{IfRev: h.Rev, Keep: 1, Add: bytesOf([]string{"b"}), Head: n}), "Commit without SetMeta")
	n.Meta = h.Meta
	s.wantState(tb, id, *n, []string{"a", "b"}, "after a Commit without SetMeta")
	m := s.newHead(id, 2)
	m.Base, m.Meta = h.Base, []byte(`{"title":"`+strings.Repeat("x", 30<<10)+`"}`)
	must(tb, s.Commit(s.ctx, id, session.Commit{IfRev: n.Rev, Keep: 2, Head: m, SetMeta: true}), "Commit with SetMeta")
	s.wantState(tb, id, *m, []string{"a", "b"}, "after a Commit with SetMeta")
}

func driverKeepsAndAdds(tb testing.TB, s *driverSubject) {
	texts := numbered("m", 5)
	h := s.create(tb, id, texts...)
	for i, step := range []struct{ keep, add int }{{5, 3}, {8, 0}, {2, 2}, {0, 4}, {4, 1}, {3, 0}, {0, 0}, {0, 300}, {299, 2}} {
		added := numbered(fmt.Sprint("step ", i, " "), step.add)
		texts = append(texts[:step.keep:step.keep], added...)
		h = s.change(tb, h, step.keep, added...)
		s.wantState(tb, id, h, texts, fmt.Sprintf("after keeping %d and adding %d", step.keep, step.add))
	}
}

func driverComparesRevisions(tb testing.TB, s *driverSubject) {
	old := s.create(tb, id, "a", "b")
	h := s.change(tb, old, 2, "c")
	attempts := map[string]session.Commit{
		"at an older revision":     {IfRev: old.Rev, Keep: 2, Add: bytesOf([]string{"x"}), Head: s.newHead(id, 3)},
		"at an unknown revision":   {IfRev: "other", Keep: 0, Add: bytesOf([]string{"x"}), Head: s.newHead(id, 1), SetMeta: true},
		"as if there were none":    {Add: bytesOf([]string{"x"}), Head: s.newHead(id, 1), SetMeta: true},
		"that removes, at another": {IfRev: old.Rev},
	}
	for what, c := range attempts {
		wantErr(tb, s.peer.Commit(s.ctx, id, c), is(session.ErrConflict), "Commit %s", what)
		s.wantState(tb, id, h, []string{"a", "b", "c"}, "after a Commit "+what)
	}
	c := session.Commit{IfRev: h.Rev, Keep: 0, Add: bytesOf([]string{"x"}), Head: s.newHead("none", 1), SetMeta: true}
	wantErr(tb, s.Commit(s.ctx, "none", c), is(session.ErrConflict), "Commit at a revision where there is no session")
	s.wantState(tb, "none", session.Head{}, nil, "after a Commit at a revision")
}

func driverOneWins(tb testing.TB, s *driverSubject) {
	const writers, rounds = 6, 8
	h := s.create(tb, id)
	for round := range rounds {
		errs := make([]error, writers)
		heads := make([]*session.Head, writers)
		for w := range writers {
			heads[w] = s.newHead(id, round+1)
			heads[w].Base, heads[w].Meta = h.Base, h.Meta
		}
		var wg sync.WaitGroup
		for w := range writers {
			d := []session.Driver{s.Driver, s.peer}[w%2]
			wg.Go(func() {
				errs[w] = d.Commit(s.ctx, id, session.Commit{IfRev: h.Rev, Keep: round, Add: bytesOf([]string{fmt.Sprint(w)}), Head: heads[w]})
			})
		}
		wg.Wait()
		var won []int
		for w, err := range errs {
			if err == nil {
				won = append(won, w)
			} else {
				wantErr(tb, err, is(session.ErrConflict), "Commit that came second")
			}
		}
		if len(won) != 1 {
			tb.Fatalf("%d of %d Commits at one revision succeeded, want 1", len(won), writers)
		}
		h = *heads[won[0]]
		s.wantRange(tb, s.Driver, h, round, []string{fmt.Sprint(won[0])}, "of the one that won")
	}
}

func driverRemoves(tb testing.TB, s *driverSubject) {
	h := s.create(tb, id, "a", "b")
	other := s.create(tb, "other", "c")
	must(tb, s.Commit(s.ctx, id, session.Commit{IfRev: h.Rev}), "Commit without a Head")
	s.wantState(tb, id, session.Head{}, nil, "that was removed")
	s.wantState(tb, "other", other, []string{"c"}, "beside the one that was removed")
	if _, err := s.Range(s.ctx, id, h, 0, 2); !errors.Is(err, session.ErrConflict) {
		tb.Errorf("Range of a session that was removed: error = %v, want ErrConflict", err)
	}
	s.wantState(tb, id, s.create(tb, id, "new"), []string{"new"}, "that was created again")
}

func driverRanges(tb testing.TB, s *driverSubject) {
	texts := numbered("m", 9)
	h := s.change(tb, s.create(tb, id, texts[:4]...), 4, texts[4:]...)
	for from := range texts {
		for to := from + 1; to <= len(texts); to++ {
			s.wantRange(tb, s.Driver, h, from, texts[from:to], "of a session")
		}
	}
}

func driverRangesForOlderHeads(tb testing.TB, s *driverSubject) {
	first := s.create(tb, id, "a", "b")
	h := first
	for i := range 5 {
		h = s.change(tb, h, h.Count, fmt.Sprint(i))
	}
	s.wantRange(tb, s.peer, first, 0, []string{"a", "b"}, "for a head that others followed")
}

func driverRefusesOtherBases(tb testing.TB, s *driverSubject) {
	h := s.create(tb, id, "a", "b", "c")
	for what, keep := range map[string]int{"truncated": 2, "replaced": 0} {
		h := h
		h.ID = what
		h = s.create(tb, what, "a", "b", "c")
		s.change(tb, h, keep, "x", "y", "z")
		if got, err := s.peer.Range(s.ctx, what, h, 0, 3); !errors.Is(err, session.ErrConflict) {
			tb.Errorf("Range for the head before a history was %s = %q, %v, want ErrConflict", what, got, err)
		}
	}
}

func driverCopies(tb testing.TB, s *driverSubject) {
	lines := bytesOf([]string{"a", "b"})
	h := s.newHead(id, 2)
	kept := *h
	kept.Record, kept.Meta = []byte(string(h.Record)), []byte(string(h.Meta))
	must(tb, s.Commit(s.ctx, id, session.Commit{Add: lines, Head: h, SetMeta: true}), "Commit")
	for _, b := range [][]byte{lines[0], lines[1], h.Record, h.Meta} {
		clear(b)
	}
	s.wantState(tb, id, kept, []string{"a", "b"}, "whose commit's slices were overwritten")
	got, err := s.Range(s.ctx, id, kept, 0, 2)
	must(tb, err, "Range")
	head, err := s.Head(s.ctx, id)
	must(tb, err, "Head")
	for _, b := range [][]byte{got[0], got[1], head.Record, head.Meta} {
		clear(b)
	}
	s.wantState(tb, id, kept, []string{"a", "b"}, "whose returned slices were overwritten")
}

func driverTellsIDsApart(tb testing.TB, s *driverSubject) {
	heads := make(map[string]session.Head)
	for _, name := range append([]string{"\x00" + id, "\x00\x00", "\x00" + strings.Repeat("é", 256)}, oddIDs()...) {
		heads[name] = s.create(tb, name, name)
	}
	for name, h := range heads {
		s.wantState(tb, name, h, []string{name}, "among similar ones")
	}
}

func driverListsNewestFirst(tb testing.TB, s *driverSubject) {
	at := func(name string, updated time.Time) {
		h := s.newHead(name, 0)
		h.Updated = updated
		must(tb, s.Commit(s.ctx, name, session.Commit{Head: h, SetMeta: true}), "Commit of %s", name)
	}
	at("old", epoch.Add(-time.Hour))
	at("b", epoch)
	at("é", epoch)
	at("B", epoch)
	at("newer", epoch.Add(time.Nanosecond))
	at("new", epoch.Add(time.Second))
	want(tb, s.headIDs(tb, session.HeadQuery{}), []string{"new", "newer", "B", "b", "é", "old"}, "order of heads")
	h, err := s.Head(s.ctx, "b")
	must(tb, err, "Head")
	n := s.newHead("b", 0)
	n.Base, n.Updated = h.Base, epoch.Add(time.Minute)
	must(tb, s.Commit(s.ctx, "b", session.Commit{IfRev: h.Rev, Head: n}), "Commit")
	heads := s.takeHeads(tb, session.HeadQuery{Limit: 1}, 1)
	n.Meta = h.Meta
	want(tb, heads, []session.Head{*n}, "first head after an update")
}

func driverListsWhatIsAsked(tb testing.TB, s *driverSubject) {
	names := []string{"u_1/a", "u%1/a", "u_1/b", "u_10/a", "u_1", "v", "u_1/\U0010ffff", "u_1/ü"}
	for _, name := range names {
		s.create(tb, name) // each updated after the one before
	}
	all := s.takeHeads(tb, session.HeadQuery{}, len(names)+1)
	want(tb, len(all), len(names), "number of heads")
	for prefix, wants := range map[string][]string{
		"u_1/": {"u_1/ü", "u_1/\U0010ffff", "u_1/b", "u_1/a"}, "u_1/\U0010ffff": {"u_1/\U0010ffff"}, "u%": {"u%1/a"},
		"u_1": {"u_1/ü", "u_1/\U0010ffff", "u_1", "u_10/a", "u_1/b", "u_1/a"}, "none": {}, "v": {"v"},
	} {
		want(tb, s.headIDs(tb, session.HeadQuery{Prefix: prefix}), wants, "heads of prefix %q", prefix)
	}
	for i, h := range all {
		behind := s.headIDs(tb, session.HeadQuery{AfterUpdated: h.Updated, AfterID: h.ID})
		since := s.headIDs(tb, session.HeadQuery{Since: h.Updated})
		want(tb, behind, idsOf(all[i+1:]), "heads behind %q", h.ID)
		want(tb, since, idsOf(all[:i+1]), "heads since %q was updated", h.ID)
	}
}

func idsOf(heads []session.Head) []string {
	ids := make([]string, len(heads))
	for i, h := range heads {
		ids[i] = h.ID
	}
	return ids
}

func driverListsNoHidden(tb testing.TB, s *driverSubject) {
	s.create(tb, "\x00"+id)
	s.create(tb, id)
	s.create(tb, "\x00")
	want(tb, s.headIDs(tb, session.HeadQuery{}), []string{id}, "heads beside hidden ones")
}

func driverListsOpenly(tb testing.TB, s *driverSubject) {
	for i := range 20 {
		s.create(tb, fmt.Sprint(i), "a")
	}
	n := 0
	for h, err := range s.Heads(s.ctx, session.HeadQuery{}) {
		must(tb, err, "Heads")
		n++
		ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
		_, err := s.Range(ctx, h.ID, h, 0, 1)
		must(tb, err, "Range while Heads yields")
		must(tb, s.Commit(ctx, h.ID, session.Commit{IfRev: h.Rev}), "Commit while Heads yields")
		cancel()
	}
	want(tb, n, 20, "number of heads")
}

func driverHeedsContexts(tb testing.TB, s *driverSubject) {
	h := s.create(tb, id, "a")
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.Head(ctx, id)
	wantErr(tb, err, is(context.Canceled), "Head")
	_, err = s.Range(ctx, id, h, 0, 1)
	wantErr(tb, err, is(context.Canceled), "Range")
	wantErr(tb, s.Commit(ctx, id, session.Commit{IfRev: h.Rev}), is(context.Canceled), "Commit")
	for _, err = range s.Heads(ctx, session.HeadQuery{}) {
		break
	}
	wantErr(tb, err, is(context.Canceled), "Heads")
	s.wantState(tb, id, h, []string{"a"}, "after calls whose context was done")
}

func driverHoldsALot(tb testing.TB, s *driverSubject) {
	texts := numbered("m", 10_000)
	h := s.create(tb, id, texts...)
	s.wantState(tb, id, h, texts, "of many messages")
	big := []string{strings.Repeat("é", 2<<20), "small", strings.Repeat("x", 1<<20)}
	h = s.change(tb, h, h.Count, big...)
	s.wantRange(tb, s.peer, h, 10_000, big, "of large messages")
	h = s.change(tb, h, 10_001, "after the first of them")
	s.wantRange(tb, s.peer, h, 9_999, []string{texts[9_999], big[0], "after the first of them"}, "around what was dropped")
}
