package storetest

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/session"
)

// reopenRules are about stores whose data outlives a handle. That of others
// can't be opened twice, so they have no Options.Peer.
var reopenRules = []rule{{
	"Reopen/KeepsEverything",
	"A store that is closed and opened again has all that was written: messages, versions, Keys, Meta and times.",
	[]Feature{Log, Catalog, peer}, reopenKeepsEverything,
}, {
	"Reopen/GoesOn",
	"A handle that is opened later writes on where the others are.",
	[]Feature{Log, peer}, reopenGoesOn,
}}

var salvageRules = []rule{{
	"Salvage/OfWhatIsWhole",
	"Salvage of a history without damage returns what Read does, and no damage.",
	[]Feature{Log, optional}, salvageOfWhatIsWhole,
}}

func reopenKeepsEverything(tb testing.TB, s *subject) {
	first, err := s.log.Append(s.ctx, id, conversation(), key("k"))
	must(tb, err, "Append")
	s.append(tb, id, "more")
	s.append(tb, "emptied", "a")
	s.replace(tb, "emptied")
	s.append(tb, "other/deleted", "a")
	s.delete(tb, "other/deleted")
	s.setMeta(tb, id, fullMeta())
	snap, info := s.read(tb, id, nil), s.info(tb, id)
	messages := append(conversation(), session.UserText("more"))

	again := s.peer(tb)
	if s.closer != nil {
		s.await(tb, "Close", s.closer.Close)
	}
	for n := range 2 {
		got := again.read(tb, id, nil)
		wantHistory(tb, got.Messages, messages, "Read, reopened")
		got.Messages, snap.Messages = nil, nil
		want(tb, got, snap, "Snapshot, reopened")
		want(tb, again.info(tb, id), info, "Info, reopened")
		want(tb, sortedIDs(again.awaitList(tb, nil, id, "emptied")), []string{"emptied", id}, "IDs of List, reopened")
		v, err := again.log.Append(s.ctx, id, userTexts("not this"), key("k"))
		must(tb, err, "Append with the Key of the first, reopened")
		want(tb, v, first, "version of an Append with the Key of the first, reopened")
		if n == 0 {
			next := again.peer(tb)
			if again.closer != nil {
				again.await(tb, "Close", again.closer.Close)
			}
			again = next
		}
	}
	v, err := again.log.Append(s.ctx, id, userTexts("last"), &session.WriteOptions{IfVersion: info.Version})
	must(tb, err, "Append with the version from before")
	want(tb, again.version(tb, id), v, "version after that")
}

func reopenGoesOn(tb testing.TB, s *subject) {
	seen := make(map[session.Version]bool)
	for n := range 6 {
		p := s.peer(tb)
		v := p.append(tb, id, fmt.Sprint("m", n+1))
		if seen[v] {
			tb.Errorf("the %dth handle returned version %q, as one before", n+1, v)
		}
		seen[v] = true
		wantTexts(tb, p.load(tb, id), numbered("m", n+1), "Load through the %dth handle", n+1)
		if n%2 == 0 && p.closer != nil {
			s.await(tb, "Close", p.closer.Close)
		}
	}
	wantTexts(tb, s.load(tb, id), numbered("m", 6), "Load through the first handle")
	s.save(tb, id, numbered("m", 8)...)
	wantTexts(tb, s.peer(tb).load(tb, id), numbered("m", 8), "Load through the last handle")
}

func salvageOfWhatIsWhole(tb testing.TB, s *subject) {
	snap, damage, err := s.salvager.Salvage(s.ctx, id)
	must(tb, err, "Salvage of no session")
	want(tb, len(damage), 0, "damage of no session")
	want(tb, [2]session.Version{snap.Version, snap.Base}, [2]session.Version{session.Absent, session.Absent}, "Version and Base of no session")

	must(tb, s.store.Save(s.ctx, id, conversation()), "Save")
	s.append(tb, id, "more")
	before := s.state(tb, id)
	wants := s.read(tb, id, nil)
	snap, damage, err = s.salvager.Salvage(s.ctx, id)
	must(tb, err, "Salvage")
	want(tb, len(damage), 0, "damage of a history that is whole")
	wantHistory(tb, snap.Messages, wants.Messages, "Salvage of a history that is whole")
	snap.Messages, wants.Messages = nil, nil
	want(tb, snap, wants, "the rest of the Snapshot")
	want(tb, s.state(tb, id), before, "the session after Salvage")
}
