package storetest

import (
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var expiryRules = []rule{{
	"Expiry/IsAbsence",
	"An expired session does not exist, for any method, whether or not it has been removed yet.",
	[]Feature{Log, Catalog, expiry}, expiryIsAbsence,
}, {
	"Expiry/IsAfterTheTTL",
	"A session exists until its TTL has passed since the last write, and Info.Expires says when that is.",
	[]Feature{Log, Catalog, expiry}, expiryIsAfterTheTTL,
}, {
	"Expiry/IsPutOffByEveryWrite",
	"Every write, Update included, puts the expiry of the whole session off by the TTL.",
	[]Feature{Log, Catalog, expiry}, expiryIsPutOffByEveryWrite,
}, {
	"Expiry/IsNotPutOffByReads",
	"Reads and writes that change nothing don't put the expiry off.",
	[]Feature{Log, Catalog, expiry}, expiryIsNotPutOffByReads,
}, {
	"Expiry/LeavesNothingToTheNext",
	"A session that is begun after another of its ID expired has nothing of it: no messages, Meta, Keys, times or version.",
	[]Feature{Log, Catalog, expiry}, expiryLeavesNothingToTheNext,
}, {
	"Expiry/HoldsForSave",
	"A Save that extends the history of an expired session stores the whole.",
	[]Feature{Log, expiry}, expiryHoldsForSave,
}, {
	"Expiry/IsEachSessionsOwn",
	"List leaves out what has expired, and nothing else.",
	[]Feature{Log, Catalog, expiry}, expiryIsEachSessionsOwn,
}}

// expireSession makes a session with all it can have, and lets it expire. It
// returns what it was.
func expireSession(tb testing.TB, s *subject) session.Info {
	tb.Helper()
	_, err := s.log.Append(s.ctx, id, userTexts("old1", "old2", "old3"), key("k"))
	must(tb, err, "Append")
	old := s.setMeta(tb, id, fullMeta())
	s.opts.Advance(s.opts.TTL + time.Second)
	return old
}

func expiryIsAbsence(tb testing.TB, s *subject) {
	expired := expireSession(tb, s)
	for _, p := range s.peers(tb, 2) {
		wantHistory(tb, p.load(tb, id), nil, "Load of an expired session")
		snap := p.read(tb, id, nil)
		want(tb, len(snap.Messages), 0, "messages that Read returns of an expired session")
		snap.Messages = nil
		want(tb, snap, session.Snapshot{Version: session.Absent, Base: session.Absent}, "Read of an expired session")
		_, err := p.catalog.Info(s.ctx, id)
		wantErr(tb, err, is(session.ErrNotFound), "Info of an expired session")
		_, err = p.catalog.Update(s.ctx, id, func(*session.Meta) error { return nil })
		wantErr(tb, err, is(session.ErrNotFound), "Update of an expired session")
		p.awaitList(tb, nil)
		v, err := p.log.Truncate(s.ctx, id, 1, nil)
		must(tb, err, "Truncate of an expired session")
		want(tb, v, session.Absent, "version of Truncate of an expired session")
		v, err = p.log.Append(s.ctx, id, nil, nil)
		must(tb, err, "empty Append to an expired session")
		want(tb, v, session.Absent, "version of an empty Append to an expired session")
		_, err = p.log.Append(s.ctx, id, userTexts("x"), &session.WriteOptions{IfVersion: expired.Version})
		wantConflict(tb, err, session.Absent, "Append with the version of an expired session")
		err = p.catalog.Delete(s.ctx, id, &session.WriteOptions{IfVersion: expired.Version})
		wantConflict(tb, err, session.Absent, "Delete with the version of an expired session")
		must(tb, p.catalog.Delete(s.ctx, id, nil), "Delete of an expired session")
		_, err = p.catalog.Info(s.ctx, id)
		wantErr(tb, err, is(session.ErrNotFound), "Info after all that")
	}
}

func expiryIsAfterTheTTL(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	info := s.info(tb, id)
	want(tb, info.Expires, info.Updated.Add(s.opts.TTL), "Info.Expires")
	s.opts.Advance(s.opts.TTL - time.Second)
	wantTexts(tb, s.load(tb, id), []string{"a"}, "Load a second before the session expires")
	want(tb, s.info(tb, id).Expires, info.Expires, "Info.Expires a second before")
	s.awaitList(tb, nil, id)
	s.opts.Advance(2 * time.Second)
	wantTexts(tb, s.load(tb, id), nil, "Load a second after the session has expired")
}

func expiryIsPutOffByEveryWrite(tb testing.TB, s *subject) {
	wants := []string{"first", "second", "third"}
	s.append(tb, id, "first")
	s.append(tb, id, "second")
	s.append(tb, id, "third")
	created := s.info(tb, id).Created
	peers := s.peers(tb, 2)
	for n, op := range []string{"Update", "Append", "Truncate", "Update", "Save", "Replace", "Append", "Update", "Update", "Append"} {
		s.opts.Advance(s.opts.TTL * 3 / 4)
		p := peers[n%2]
		var err error
		switch op {
		case "Update":
			p.setMeta(tb, id, session.Meta{SummaryThrough: n})
		case "Append":
			p.append(tb, id, op)
			wants = append(wants, op)
		case "Truncate":
			wants = wants[:len(wants)-1]
			_, err = p.log.Truncate(s.ctx, id, len(wants), nil)
		case "Save":
			wants = append(wants, op)
			err = p.store.Save(s.ctx, id, userTexts(wants...))
		case "Replace":
			wants = []string{"x", "y"}
			p.replace(tb, id, wants...)
		}
		must(tb, err, "%s", op)
		wantTexts(tb, s.load(tb, id), wants, "Load after %s (write %d), the first being older than the TTL", op, n)
		info := peers[1].info(tb, id)
		want(tb, info.Created, created, "Info.Created after %s", op)
		want(tb, info.Expires, info.Updated.Add(s.opts.TTL), "Info.Expires after %s", op)
	}
}

func expiryIsNotPutOffByReads(tb testing.TB, s *subject) {
	s.append(tb, id, "a", "b")
	s.opts.Advance(s.opts.TTL * 3 / 4)
	before := s.state(tb, id)
	s.read(tb, id, nil)
	s.list(tb, nil)
	_, err := s.log.Append(s.ctx, id, nil, nil)
	must(tb, err, "empty Append")
	_, err = s.log.Truncate(s.ctx, id, 2, nil)
	must(tb, err, "Truncate to the whole")
	want(tb, s.state(tb, id), before, "the session after reads")
	s.opts.Advance(s.opts.TTL / 2)
	wantTexts(tb, s.load(tb, id), nil, "Load after the session has expired")
}

func expiryLeavesNothingToTheNext(tb testing.TB, s *subject) {
	p := s.peer(tb)
	for n, begin := range []writeOp{writeOps[0], writeOps[1], {"Save of nothing", nil}} {
		old := expireSession(tb, s)
		wants := []string{"appended"}
		var err error
		switch n {
		case 0:
			_, err = begin.call(s.ctx, p, id, key("k"))
		case 1:
			_, err = begin.call(s.ctx, p, id, &session.WriteOptions{Key: "k", IfVersion: session.Absent})
			wants = []string{"replaced", "by", "three"}
		case 2:
			err = p.store.Save(s.ctx, id, nil)
			wants = nil
		}
		must(tb, err, "%s after the session expired", begin.name)
		wantTexts(tb, s.load(tb, id), wants, "Load after the session expired and %s", begin.name)
		info := s.info(tb, id)
		want(tb, info.Meta, session.Meta{}, "Meta after the session expired and %s", begin.name)
		want(tb, info.Messages, len(wants), "Info.Messages")
		if info.Version == old.Version || !info.Created.After(old.Created) {
			tb.Errorf("after the session expired and %s: version %q, Created %v, want both new; the old: %q, %v",
				begin.name, info.Version, info.Created, old.Version, old.Created)
		}
		want(tb, info.Expires, info.Updated.Add(s.opts.TTL), "Info.Expires of the new session")
		p.append(tb, id, "more")
		wantTexts(tb, s.load(tb, id), append(wants, "more"), "Load after one more Append")
		s.delete(tb, id)
	}
}

func expiryHoldsForSave(tb testing.TB, s *subject) {
	s.save(tb, id, numbered("m", 3)...)
	s.opts.Advance(s.opts.TTL + time.Second)
	s.save(tb, id, numbered("m", 4)...)
	for _, p := range s.peers(tb, 2) {
		wantTexts(tb, p.load(tb, id), numbered("m", 4), "Load after a Save that extends an expired history")
	}
}

func expiryIsEachSessionsOwn(tb testing.TB, s *subject) {
	s.append(tb, "u/old", "a")
	s.append(tb, "u/kept", "a")
	s.opts.Advance(s.opts.TTL * 3 / 4)
	s.append(tb, "u/new", "a")
	s.setMeta(tb, "u/kept", session.Meta{Title: "t"})
	s.awaitList(tb, nil, "u/old", "u/kept", "u/new")
	s.opts.Advance(s.opts.TTL / 2)
	for _, p := range s.peers(tb, 2) {
		p.awaitList(tb, nil, "u/kept", "u/new")
		p.awaitList(tb, &session.ListOptions{Prefix: "u/"}, "u/kept", "u/new")
		p.awaitList(tb, &session.ListOptions{Prefix: "u/o"})
	}
	s.opts.Advance(s.opts.TTL)
	s.awaitList(tb, nil)
}
