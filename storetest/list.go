package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var listRules = []rule{{
	"List/OfNothingIsEmpty",
	"List of an empty store, or behind a prefix that nothing has, yields nothing and no error.",
	[]Feature{Catalog}, listOfNothingIsEmpty,
}, {
	"List/AgreesWithInfo",
	"List yields of each session what Info returns, from every handle.",
	[]Feature{Log, Catalog}, listAgreesWithInfo,
}, {
	"List/IsNewestFirst",
	"List yields the session that was updated last first; sessions of the same time in the order of their IDs.",
	[]Feature{Log, Catalog}, listIsNewestFirst,
}, {
	"List/TiesByID",
	"Sessions that were updated at the same time are listed in the byte order of their IDs.",
	[]Feature{Catalog, clock}, listTiesByID,
}, {
	"List/StopsAtLimit",
	"Limit is how many sessions List yields at most; 0: all.",
	[]Feature{Catalog}, listStopsAtLimit,
}, {
	"List/LeavesOutOlder",
	"UpdatedSince leaves out sessions that were updated before it, and not those of that very time.",
	[]Feature{Catalog, clock}, listLeavesOutOlder,
}, {
	"List/ContinuesAfter",
	"Lists that continue After the last Info of the one before yield every session once, in the same order.",
	[]Feature{Catalog}, listContinuesAfter,
}, {
	"List/ContinuesAmongTies",
	"After continues in the middle of sessions that were updated at the same time, also behind one that is gone.",
	[]Feature{Catalog, clock}, listContinuesAmongTies,
}, {
	"List/StaysInItsFolder",
	"Prefix is compared byte by byte: what only looks like it is not listed.",
	[]Feature{Catalog}, listStaysInItsFolder,
}, {
	"List/CombinesItsOptions",
	"Prefix, Limit, UpdatedSince and After hold together.",
	[]Feature{Catalog, clock}, listCombinesItsOptions,
}, {
	"List/MayBeLeft",
	"The loop over a list may be left early, and the list ranged over again.",
	[]Feature{Catalog}, listMayBeLeft,
}, {
	"List/AllowsWritesMeanwhile",
	"The body of the loop may use the store: each session that is not touched meanwhile is yielded.",
	[]Feature{Log, Catalog}, listAllowsWritesMeanwhile,
}, {
	"List/ShowsNoLeases",
	"The lease of a session is not listed, and makes no session.",
	[]Feature{Catalog, Locker}, listShowsNoLeases,
}, {
	"List/RefusesNegativeLimit",
	"A negative Limit is ErrInvalidOption.",
	[]Feature{Catalog}, listRefusesNegativeLimit,
}}

// ids returns the IDs of infos; not nil.
func ids(infos []session.Info) []string {
	found := make([]string, len(infos))
	for i, info := range infos {
		found[i] = info.ID
	}
	return found
}

func sortedIDs(infos []session.Info) []string {
	found := ids(infos)
	slices.Sort(found)
	return found
}

// awaitList lists until exactly the given sessions are there, in any order, or
// the documented lag is over, and returns the last list. It reports a list
// that is wrong even then.
func (s *subject) awaitList(tb testing.TB, opts *session.ListOptions, wants ...string) []session.Info {
	tb.Helper()
	wants = append([]string{}, wants...)
	slices.Sort(wants)
	deadline := time.Now().Add(s.opts.ListLag)
	s.advance(s.opts.ListLag)
	for {
		got := s.list(tb, opts)
		if slices.Equal(sortedIDs(got), wants) {
			return got
		}
		if !time.Now().Before(deadline) {
			want(tb, sortedIDs(got), wants, "IDs of List(%+v), sorted", opts)
			return got
		}
		<-time.After(s.opts.ListLag / 50)
	}
}

// awaitOrder is awaitList for an order.
func (s *subject) awaitOrder(tb testing.TB, opts *session.ListOptions, wants ...string) []session.Info {
	tb.Helper()
	got := s.awaitList(tb, opts, wants...)
	want(tb, ids(got), append([]string{}, wants...), "IDs of List(%+v)", opts)
	return got
}

// newestFirst compares as List orders.
func newestFirst(a, b session.Info) int {
	return cmp.Or(b.Updated.Compare(a.Updated), strings.Compare(a.ID, b.ID))
}

func listOfNothingIsEmpty(tb testing.TB, s *subject) {
	s.awaitList(tb, nil)
	s.save(tb, "a/b", "a")
	for _, prefix := range []string{"a/b/", "b", "A", "a/c", "/"} {
		s.awaitList(tb, &session.ListOptions{Prefix: prefix})
	}
}

func listAgreesWithInfo(tb testing.TB, s *subject) {
	peers := s.peers(tb, 2)
	var all []string
	for n := range 6 {
		id := fmt.Sprintf("u%d/s%d", n%2, n)
		all = append(all, id)
		peers[n%2].append(tb, id, numbered("m", 1+n)...)
		if n%3 > 0 {
			peers[n%2].setMeta(tb, id, fullMeta())
		}
		s.tick()
	}
	for _, p := range peers {
		for _, info := range p.awaitList(tb, nil, all...) {
			want(tb, info, p.info(tb, info.ID), "Info that List yields, and Info's")
		}
	}
}

func listIsNewestFirst(tb testing.TB, s *subject) {
	var all []string
	for _, id := range []string{"d", "b/1", "a", "c", "b/2"} {
		s.append(tb, id, "a")
		all = append(all, id)
		s.tick()
	}
	check := func(after string, newest string) {
		tb.Helper()
		got := s.awaitList(tb, nil, all...)
		if !slices.IsSortedFunc(got, newestFirst) {
			tb.Errorf("List after %s = %s, want newest update first, ties by ID", after, brief(got))
		}
		if s.opts.Advance != nil {
			want(tb, ids(got)[:min(1, len(got))], []string{newest}, "the first of List after %s", after)
		}
		s.tick()
	}
	check("five Appends", "b/2")
	s.append(tb, "c", "b")
	check("Append", "c")
	s.save(tb, "a", "other")
	check("Save", "a")
	s.setMeta(tb, "d", session.Meta{Title: "t"})
	check("Update", "d")
	_, err := s.log.Truncate(s.ctx, "c", 1, nil)
	must(tb, err, "Truncate")
	check("Truncate", "c")
	if s.opts.Advance != nil {
		s.awaitOrder(tb, nil, "c", "d", "a", "b/2", "b/1")
	}
}

func listTiesByID(tb testing.TB, s *subject) {
	for _, id := range []string{"b", "B", "a/2", "ab", "\U0001f389", "a/1", "a", "é", "_", "\uffff", "a/10"} {
		s.save(tb, id, "a")
	}
	s.awaitOrder(tb, nil, "B", "_", "a", "a/1", "a/10", "a/2", "ab", "b", "é", "\uffff", "\U0001f389")
	s.awaitOrder(tb, &session.ListOptions{Prefix: "a/"}, "a/1", "a/10", "a/2")
}

func listStopsAtLimit(tb testing.TB, s *subject) {
	for n := range 7 {
		s.save(tb, fmt.Sprint("s", n), "a")
		s.tick()
	}
	all := s.awaitList(tb, nil, "s0", "s1", "s2", "s3", "s4", "s5", "s6")
	for _, limit := range []int{1, 2, 6, 7, 8, 1 << 30} {
		got := s.list(tb, &session.ListOptions{Limit: limit})
		want(tb, ids(got), ids(all[:min(limit, len(all))]), "IDs of List(Limit: %d)", limit)
	}
}

func listLeavesOutOlder(tb testing.TB, s *subject) {
	for _, id := range []string{"a", "b", "c"} {
		s.save(tb, id, "a")
		s.tick()
	}
	since := func(at time.Time) *session.ListOptions { return &session.ListOptions{UpdatedSince: at} }
	all := s.awaitOrder(tb, nil, "c", "b", "a")
	if len(all) != 3 {
		return
	}
	at := all[1].Updated
	s.awaitOrder(tb, since(at), "c", "b")
	s.awaitOrder(tb, since(at.Add(1)), "c")
	s.awaitOrder(tb, since(at.Add(-1)), "c", "b")
	s.awaitOrder(tb, since(at.In(time.FixedZone("", 3600))), "c", "b")
	s.awaitOrder(tb, since(all[0].Updated.Add(time.Hour)))
	s.awaitOrder(tb, since(time.Unix(0, 0)), "c", "b", "a")
}

// pages lists page by page until a page is empty.
func (s *subject) pages(tb testing.TB, opts session.ListOptions, most int) []session.Info {
	tb.Helper()
	var all []session.Info
	for len(all) <= most {
		got := s.list(tb, &opts)
		if len(got) == 0 {
			break
		}
		all = append(all, got...)
		// Only these two count, as a client would keep them.
		opts.After = &session.Info{ID: got[len(got)-1].ID, Updated: got[len(got)-1].Updated}
	}
	return all
}

func listContinuesAfter(tb testing.TB, s *subject) {
	var names []string
	for n := range 10 {
		names = append(names, fmt.Sprintf("s%d/%d", n%3, n))
		s.save(tb, names[n], "a")
		if n%4 == 3 {
			s.tick()
		}
	}
	all := s.awaitList(tb, nil, names...)
	p := s.peer(tb)
	for limit := range 12 {
		want(tb, ids(p.pages(tb, session.ListOptions{Limit: limit}, len(all))), ids(all), "IDs of all pages of %d", limit)
	}
}

func listContinuesAmongTies(tb testing.TB, s *subject) {
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		s.save(tb, id, "a")
	}
	all := s.awaitOrder(tb, nil, "a", "b", "c", "d", "e")
	if len(all) != 5 {
		return
	}
	at := all[0].Updated
	after := func(id string, at time.Time) *session.ListOptions {
		return &session.ListOptions{After: &session.Info{ID: id, Updated: at}}
	}
	s.awaitOrder(tb, after("b", at), "c", "d", "e")
	s.awaitOrder(tb, after("b!", at), "c", "d", "e")
	s.awaitOrder(tb, after("e", at))
	s.awaitOrder(tb, after("z", at.Add(1)), "a", "b", "c", "d", "e")
	s.awaitOrder(tb, after("a", at.Add(-1)))
	s.delete(tb, "c")
	s.awaitOrder(tb, after("c", at), "d", "e")
	s.tick()
	s.save(tb, "d", "b")
	s.awaitOrder(tb, after("a", at), "b", "e")
}

func listStaysInItsFolder(tb testing.TB, s *subject) {
	all := []string{
		"u_1/s", "u%1/s", "u1/s", "u/1/s", "user1/s", "user10/s", "user1", "user1/t/u", "User1/s", "user1//s", "user1/", "[u]/s", "u*/s", "ux/s",
	}
	for _, id := range all {
		s.save(tb, id, "a")
	}
	for _, prefix := range []string{"u_1/", "u%1/", "user1/", "user1", "user1/t/", "user10/", "User1/", "user1//", "[u]/", "u*/", "u*", "u_", "u%", "u", "u/", ""} {
		var within []string
		for _, id := range all {
			if strings.HasPrefix(id, prefix) {
				within = append(within, id)
			}
		}
		s.awaitList(tb, &session.ListOptions{Prefix: prefix}, within...)
	}
}

func listCombinesItsOptions(tb testing.TB, s *subject) {
	for n := range 12 {
		s.save(tb, fmt.Sprintf("%c/%02d", "ab"[n%2], n), "a")
		s.tick()
	}
	got := s.awaitOrder(tb, &session.ListOptions{Prefix: "a/"}, "a/10", "a/08", "a/06", "a/04", "a/02", "a/00")
	if len(got) != 6 {
		return
	}
	opts := session.ListOptions{Prefix: "a/", UpdatedSince: got[4].Updated}
	s.awaitOrder(tb, &opts, "a/10", "a/08", "a/06", "a/04", "a/02")
	opts.Limit = 2
	s.awaitOrder(tb, &opts, "a/10", "a/08")
	opts.After = &got[1]
	s.awaitOrder(tb, &opts, "a/06", "a/04")
	opts.After = &got[3]
	s.awaitOrder(tb, &opts, "a/02")
	opts.Prefix = "b/"
	s.awaitOrder(tb, &opts, "b/03")
}

func listMayBeLeft(tb testing.TB, s *subject) {
	for n := range 5 {
		s.save(tb, fmt.Sprint("s", n), "a")
	}
	s.awaitList(tb, nil, "s0", "s1", "s2", "s3", "s4")
	seq := s.catalog.List(s.ctx, nil)
	for stop := range 5 {
		n := 0
		for _, err := range seq {
			must(tb, err, "List")
			if n++; n > stop {
				break
			}
		}
		want(tb, n, stop+1, "sessions before the loop was left")
	}
	n := 0
	for _, err := range seq {
		must(tb, err, "List")
		n++
	}
	want(tb, n, 5, "sessions, when the list is ranged over to its end")
	s.save(tb, "after", "a")
	s.awaitList(tb, nil, "after", "s0", "s1", "s2", "s3", "s4")
}

func listAllowsWritesMeanwhile(tb testing.TB, s *subject) {
	var names []string
	for n := range 20 {
		names = append(names, fmt.Sprintf("s%02d", n))
		s.append(tb, names[n], "a")
		s.tick()
	}
	s.awaitList(tb, nil, names...)
	seen := make(map[string]bool)
	s.await(tb, "List whose body writes", func() error {
		n := 0
		for info, err := range s.catalog.List(s.ctx, nil) {
			if err != nil {
				return fmt.Errorf("List: %w", err)
			}
			if n++; n > 1000 {
				return fmt.Errorf("List goes on after %d sessions", n)
			}
			seen[info.ID] = true
			if _, err := s.store.Load(s.ctx, info.ID); err != nil {
				return fmt.Errorf("Load within List: %w", err)
			}
			switch n % 4 {
			case 0:
				err = s.catalog.Delete(s.ctx, info.ID, nil)
			case 1:
				_, err = s.log.Append(s.ctx, info.ID, userTexts("b"), nil)
			case 2:
				err = s.store.Save(s.ctx, fmt.Sprint("new", n), nil)
			case 3:
				for _, err = range s.catalog.List(s.ctx, &session.ListOptions{Limit: 1}) {
				}
			}
			if err != nil {
				return fmt.Errorf("write within List: %w", err)
			}
		}
		return nil
	})
	for _, name := range names {
		if !seen[name] {
			tb.Errorf("List did not yield %q, which was there and untouched until it was yielded", name)
		}
	}
}

func listShowsNoLeases(tb testing.TB, s *subject) {
	s.save(tb, "a", "a")
	for _, id := range []string{"a", "b", "b/c", "z"} {
		s.lock(tb, id, nil)
	}
	p := s.peer(tb)
	p.awaitList(tb, nil, "a")
	p.awaitList(tb, &session.ListOptions{Prefix: "b"})
	_, err := p.catalog.Info(s.ctx, "b")
	wantErr(tb, err, is(session.ErrNotFound), "Info of a session that only has a lease")
}

func listRefusesNegativeLimit(tb testing.TB, s *subject) {
	s.save(tb, id, "a")
	n := 0
	for info, err := range s.catalog.List(s.ctx, &session.ListOptions{Limit: -1}) {
		wantErr(tb, err, is(session.ErrInvalidOption), "List(Limit: -1)")
		want(tb, info, session.Info{}, "the Info beside an error")
		n++
	}
	want(tb, n, 1, "what List(Limit: -1) yields: one error")
}
