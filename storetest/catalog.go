package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var catalogRules = []rule{{
	"Info/OfAbsentSessionIsNotFound",
	"Info of a session that does not exist is ErrNotFound.",
	[]Feature{Catalog}, infoOfAbsentSessionIsNotFound,
}, {
	"Info/DescribesTheSession",
	"Info has the ID, the version, the number of messages, and times in UTC.",
	[]Feature{Log, Catalog}, infoDescribesTheSession,
}, {
	"Info/CountsMessages",
	"Info.Messages is the length of the history after every kind of write.",
	[]Feature{Log, Catalog}, infoCountsMessages,
}, {
	"Info/KeepsCreatedAndMeta",
	"Created and Meta stay as they are across every write of messages.",
	[]Feature{Log, Catalog}, infoKeepsCreatedAndMeta,
}, {
	"Info/ShowsTheLastWrite",
	"Updated is the time of the last write, Update included, by the store's clock; what changes nothing is no write.",
	[]Feature{Log, Catalog, clock}, infoShowsTheLastWrite,
}, {
	"Save/OfNothingCreates",
	"Save and Replace, even by nothing, create the session.",
	[]Feature{Log, Catalog}, saveOfNothingCreates,
}, {
	"Delete/OfAbsentSessionDoesNothing",
	"Delete of a session that does not exist does nothing, also when it is repeated.",
	[]Feature{Catalog}, deleteOfAbsentSessionDoesNothing,
}, {
	"Delete/RemovesEverything",
	"Everything that the session had is removed: a new session of the same ID has none of its messages, Meta or times.",
	[]Feature{Log, Catalog}, deleteRemovesEverything,
}, {
	"Delete/RacesWithAppends",
	"An Append beside a Delete is removed with the session, or begins a new one that holds what was appended since, and nothing older.",
	[]Feature{Log, Catalog}, deleteRacesWithAppends,
}}

func infoOfAbsentSessionIsNotFound(tb testing.TB, s *subject) {
	s.save(tb, "other", "a")
	for _, p := range s.peers(tb, 2) {
		info, err := p.catalog.Info(s.ctx, id)
		wantErr(tb, err, is(session.ErrNotFound), "Info of no session")
		want(tb, info, session.Info{}, "the Info beside ErrNotFound")
	}
}

func infoDescribesTheSession(tb testing.TB, s *subject) {
	start := time.Now().Add(-time.Minute)
	v := s.append(tb, id, "a", "b")
	for _, p := range s.peers(tb, 2) {
		info := p.info(tb, id)
		if s.opts.Advance == nil && (info.Created.Before(start) || info.Created.After(time.Now().Add(time.Minute))) {
			tb.Errorf("Info.Created = %v, want about %v", info.Created, time.Now())
		}
		want(tb, info.Updated, info.Created, "Info.Updated after the first write, and Created")
		for what, at := range map[string]time.Time{"Created": info.Created, "Updated": info.Updated, "Expires": info.Expires} {
			if at.Location() != time.UTC {
				tb.Errorf("Info.%s = %v, want it in UTC", what, at)
			}
		}
		wants := session.Info{ID: id, Version: v, Messages: 2, Created: info.Created, Updated: info.Updated}
		if s.opts.TTL > 0 {
			wants.Expires = info.Updated.Add(s.opts.TTL)
		}
		want(tb, info, wants, "Info")
	}
}

func infoCountsMessages(tb testing.TB, s *subject) {
	peers := s.peers(tb, 2)
	check := func(n int, after string) {
		tb.Helper()
		for _, p := range peers {
			want(tb, p.info(tb, id).Messages, n, "Info.Messages after %s", after)
		}
	}
	s.append(tb, id, "a", "b", "c")
	check(3, "Append")
	s.append(tb, id, "d")
	check(4, "a second Append")
	s.save(tb, id, "a", "b", "c", "d", "e")
	check(5, "Save")
	_, err := s.log.Truncate(s.ctx, id, 2, nil)
	must(tb, err, "Truncate")
	check(2, "Truncate")
	s.replace(tb, id, "x")
	check(1, "Replace")
	s.setMeta(tb, id, session.Meta{Title: "t"})
	check(1, "Update")
	s.replace(tb, id)
	check(0, "Replace by nothing")
}

func infoKeepsCreatedAndMeta(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	created := s.info(tb, id).Created
	meta := fullMeta()
	s.setMeta(tb, id, meta)
	check := func(after string) {
		tb.Helper()
		for _, p := range s.peers(tb, 2) {
			info := p.info(tb, id)
			want(tb, info.Created, created, "Info.Created after %s", after)
			want(tb, info.Meta, fullMeta(), "Info.Meta after %s", after)
		}
		s.tick()
	}
	check("Update")
	s.append(tb, id, "b", "c")
	check("Append")
	_, err := s.log.Truncate(s.ctx, id, 1, nil)
	must(tb, err, "Truncate")
	check("Truncate")
	s.save(tb, id, "x", "y")
	check("Save")
	s.replace(tb, id)
	check("Replace by nothing")
}

func infoShowsTheLastWrite(tb testing.TB, s *subject) {
	s.append(tb, id, "a", "b", "c")
	updated := s.info(tb, id).Updated
	check := func(after string, moved time.Duration) {
		tb.Helper()
		updated = updated.Add(moved)
		for _, p := range s.peers(tb, 2) {
			want(tb, p.info(tb, id).Updated, updated, "Info.Updated after %s", after)
		}
	}
	var idle time.Duration // how far the clock has moved since the last write
	move := func() { s.opts.Advance(time.Minute); idle += time.Minute }
	wrote := func(after string) { tb.Helper(); check(after, idle); idle = 0 }

	move()
	s.append(tb, id, "d")
	wrote("Append")
	move()
	s.save(tb, id, "x", "y", "z")
	wrote("Save")
	move()
	_, err := s.log.Truncate(s.ctx, id, 1, nil)
	must(tb, err, "Truncate")
	wrote("Truncate")
	move()
	s.setMeta(tb, id, session.Meta{Title: "t"})
	wrote("Update")
	move()
	s.load(tb, id)
	_, err = s.log.Append(s.ctx, id, nil, nil)
	must(tb, err, "empty Append")
	_, err = s.log.Truncate(s.ctx, id, 5, nil)
	must(tb, err, "Truncate to more than there are")
	check("Load, an empty Append and a Truncate that removes nothing", 0)
	move()
	s.append(tb, id, "last")
	wrote("Append, after calls that are no writes")
}

func saveOfNothingCreates(tb testing.TB, s *subject) {
	must(tb, s.store.Save(s.ctx, "saved", nil), "Save of nothing")
	v := s.replace(tb, "replaced")
	want(tb, s.info(tb, "replaced").Version, v, "Info.Version after Replace by nothing")
	for _, id := range []string{"saved", "replaced"} {
		info := s.info(tb, id)
		want(tb, info.Messages, 0, "Info(%q).Messages", id)
		snap := s.read(tb, id, nil)
		want(tb, snap.Version, info.Version, "the version that is read of %q", id)
		if snap.Version == session.Absent || snap.Base == session.Absent {
			tb.Errorf("%q was written by nothing: Version %q, Base %q, want versions of a session that exists", id, snap.Version, snap.Base)
		}
	}
	want(tb, sortedIDs(s.awaitList(tb, nil, "replaced", "saved")), []string{"replaced", "saved"}, "IDs of List")
}

func deleteOfAbsentSessionDoesNothing(tb testing.TB, s *subject) {
	s.save(tb, "other", "a")
	for range 2 {
		s.delete(tb, id)
	}
	s.save(tb, id, "a")
	s.delete(tb, id)
	for _, p := range s.peers(tb, 2) {
		p.delete(tb, id)
	}
	want(tb, s.state(tb, id).Exists, false, "existence after Delete")
	wantTexts(tb, s.load(tb, "other"), []string{"a"}, "Load of the other session")
}

func deleteRemovesEverything(tb testing.TB, s *subject) {
	peers := s.peers(tb, 2)
	for round := range 4 {
		s.append(tb, id, numbered(fmt.Sprint("old", round, "-"), 3+round)...)
		s.setMeta(tb, id, fullMeta())
		old := s.info(tb, id)
		s.tick()
		peers[round%2].delete(tb, id)
		for _, p := range peers {
			wantTexts(tb, p.load(tb, id), nil, "Load after Delete")
			want(tb, p.version(tb, id), session.Absent, "version after Delete")
			_, err := p.catalog.Info(s.ctx, id)
			wantErr(tb, err, is(session.ErrNotFound), "Info after Delete")
			s.awaitList(tb, nil)
		}
		s.tick()
		v := s.append(tb, id, "new")
		wantTexts(tb, peers[1].load(tb, id), []string{"new"}, "Load of the new session")
		info := peers[1].info(tb, id)
		want(tb, info.Meta, session.Meta{}, "Meta of the new session")
		want(tb, info.Version, v, "Info.Version of the new session")
		if s.opts.Advance != nil && !info.Created.After(old.Created) {
			tb.Errorf("Created of the new session = %v, want later than the old one's, %v", info.Created, old.Created)
		}
		peers[round%2].delete(tb, id)
	}
}

func deleteRacesWithAppends(tb testing.TB, s *subject) {
	peers := s.peers(tb, 4)
	for round := range 10 {
		s.append(tb, id, "old", "old", "old")
		s.together(tb, len(peers), func(w int) error {
			if w == 0 {
				return peers[w].catalog.Delete(s.ctx, id, nil)
			}
			_, err := peers[w].log.Append(s.ctx, id, userTexts(batch(w, 0)...), nil)
			return err
		})
		texts := textsOf(s.load(tb, id))
		if strings.Contains(strings.Join(texts, " "), "old") {
			tb.Errorf("round %d: Load after Delete and Appends beside it = %q, want nothing that was there before", round, texts)
		}
		if _, err := checkBatches(texts); err != nil {
			tb.Errorf("round %d: %v", round, err)
		}
		if len(texts) > 0 {
			want(tb, s.info(tb, id).Messages, len(texts), "Info.Messages after round %d", round)
		}
		s.delete(tb, id)
	}
}

// fullMeta returns a Meta with all fields set.
func fullMeta() session.Meta {
	return session.Meta{
		Title: "Cats & <dogs>\n世界", FirstPrompt: "What is in these?", Model: "model-1", Workspace: `C:\w`,
		Parent: "user-1/parent", SucceededBy: "user-1/next", Cost: 0.1234567890123,
		Summary: strings.Repeat("It was about cats. ", 200), SummaryThrough: 42, SummaryHash: "9f86d081",
		Labels: map[string]string{"": "empty", "a": "", "b\u2028": "<&>", "c": "\x00"},
	}
}
