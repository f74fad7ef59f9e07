package storetest

import (
	"fmt"
	"testing"

	"github.com/holdfast-go/session"
)

var storeRules = []rule{{
	"Load/OfUnknownSessionIsEmpty",
	"Load of a session that does not exist returns an empty slice, not nil, and no error.",
	nil, loadOfUnknownSessionIsEmpty,
}, {
	"Save/IsLoadedBack",
	"Load returns what Save was given, oldest message first, through any handle.",
	nil, saveIsLoadedBack,
}, {
	"Save/ReplacesTheWhole",
	"Save makes the messages the whole history, whatever was there before.",
	nil, saveReplacesTheWhole,
}, {
	"Save/OfNothingEmptiesTheHistory",
	"Save of no messages, nil or not, leaves an empty history, which loads as a slice that is not nil.",
	nil, saveOfNothingEmptiesTheHistory,
}, {
	"Save/LeavesOtherSessionsAlone",
	"Concurrent Saves of different sessions don't touch each other.",
	nil, saveLeavesOtherSessionsAlone,
}}

func loadOfUnknownSessionIsEmpty(tb testing.TB, s *subject) {
	s.save(tb, "other", "not this one")
	for _, p := range s.peers(tb, 2) {
		history, err := p.store.Load(s.ctx, id)
		must(tb, err, "Load(%q)", id)
		wantHistory(tb, history, nil, "Load(%q)", id)
	}
}

func saveIsLoadedBack(tb testing.TB, s *subject) {
	messages := conversation()
	wants := canonical(tb, messages)
	must(tb, s.store.Save(s.ctx, id, messages), "Save")
	for _, p := range s.peers(tb, 3) {
		wantHistory(tb, p.load(tb, id), wants, "Load after Save")
	}
}

func saveReplacesTheWhole(tb testing.TB, s *subject) {
	peers := s.peers(tb, 2)
	for i, texts := range [][]string{
		numbered("a", 3), numbered("b", 5), numbered("c", 1), numbered("a", 3), {}, numbered("d", 2), numbered("d", 40),
	} {
		peers[i%2].save(tb, id, texts...)
		for _, p := range peers {
			wantTexts(tb, p.load(tb, id), texts, "Load after Save %d", i+1)
		}
	}
}

func saveOfNothingEmptiesTheHistory(tb testing.TB, s *subject) {
	for _, none := range [][]session.Message{nil, {}} {
		s.save(tb, id, "a", "b")
		must(tb, s.store.Save(s.ctx, id, none), "Save(%#v)", none)
		wantHistory(tb, s.load(tb, id), nil, "Load after Save(%#v)", none)
	}
}

func saveLeavesOtherSessionsAlone(tb testing.TB, s *subject) {
	peers := s.peers(tb, 8)
	s.together(tb, len(peers), func(i int) error {
		mine := fmt.Sprint("session", i)
		for n := range 10 {
			texts := numbered(fmt.Sprint(mine, "-", n, "-"), n)
			if err := peers[i].store.Save(s.ctx, mine, userTexts(texts...)); err != nil {
				return fmt.Errorf("Save(%q): %w", mine, err)
			}
			got, err := peers[i].store.Load(s.ctx, mine)
			if err != nil {
				return fmt.Errorf("Load(%q): %w", mine, err)
			}
			if err := sameTexts(got, texts, "Load(%q)", mine); err != nil {
				return err
			}
		}
		return nil
	})
}
