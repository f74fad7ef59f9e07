package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

var updateRules = []rule{{
	"Update/StoresEveryField",
	"Every field of Meta is stored and returned, by Update, Info and List, from every handle.",
	[]Feature{Log, Catalog}, updateStoresEveryField,
}, {
	"Update/SeesWhatIsStored",
	"change is given the current Meta, and what it leaves alone stays.",
	[]Feature{Log, Catalog}, updateSeesWhatIsStored,
}, {
	"Update/OfAbsentSessionIsNotFound",
	"Update of a session that does not exist is ErrNotFound, and creates none.",
	[]Feature{Catalog}, updateOfAbsentSessionIsNotFound,
}, {
	"Update/ReturnsTheErrorOfChange",
	"An error of change is returned, wrapped, and nothing is written.",
	[]Feature{Log, Catalog}, updateReturnsTheErrorOfChange,
}, {
	"Update/LeavesMessagesAlone",
	"Update leaves the history, its version and its Base as they are.",
	[]Feature{Log, Catalog}, updateLeavesMessagesAlone,
}, {
	"Update/LosesNoConcurrentUpdate",
	"Of concurrent Updates none is lost, also beside Appends.",
	[]Feature{Log, Catalog}, updateLosesNoConcurrentUpdate,
}, {
	"Update/HoldsNoLock",
	"change may use the store, also for the session that it changes.",
	[]Feature{Log, Catalog}, updateHoldsNoLock,
}, {
	"Update/FillsNothing",
	"A store never fills Meta by itself.",
	[]Feature{Log, Catalog}, updateFillsNothing,
}, {
	"Update/RefusesWhatItCantKeep",
	"A Meta of more than 32 KiB is ErrTooLarge; invalid UTF-8, and a Cost that is no finite number, are ErrInvalidOption. Nothing is written.",
	[]Feature{Log, Catalog}, updateRefusesWhatItCantKeep,
}}

func updateStoresEveryField(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	info := s.setMeta(tb, id, fullMeta())
	want(tb, info.Meta, fullMeta(), "the Meta that Update returned")
	for _, p := range s.peers(tb, 2) {
		want(tb, p.info(tb, id), info, "Info, and what Update returned")
		for _, listed := range p.awaitList(tb, nil, id) {
			want(tb, listed.Meta, fullMeta(), "the Meta that List yields")
		}
	}
	s.setMeta(tb, id, session.Meta{})
	want(tb, s.info(tb, id).Meta, session.Meta{}, "Meta after an Update to nothing")
}

func updateSeesWhatIsStored(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	peers := s.peers(tb, 2)
	wants := session.Meta{}
	for n := range 6 {
		var saw session.Meta
		_, err := peers[n%2].catalog.Update(s.ctx, id, func(m *session.Meta) error {
			saw = *m
			if n == 0 {
				*m = fullMeta()
			}
			m.SummaryThrough = n
			return nil
		})
		must(tb, err, "Update %d", n)
		want(tb, saw, wants, "the Meta that change %d was given", n)
		wants = fullMeta()
		wants.SummaryThrough = n
		want(tb, s.info(tb, id).Meta, wants, "Meta after Update %d", n)
	}
}

func updateOfAbsentSessionIsNotFound(tb testing.TB, s *subject) {
	info, err := s.catalog.Update(s.ctx, id, func(m *session.Meta) error { m.Title = "t"; return nil })
	wantErr(tb, err, is(session.ErrNotFound), "Update of no session")
	want(tb, info, session.Info{}, "the Info beside ErrNotFound")
	want(tb, s.state(tb, id).Exists, false, "existence after Update")
	s.awaitList(tb, nil)
}

func updateReturnsTheErrorOfChange(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	s.setMeta(tb, id, fullMeta())
	s.tick()
	before := s.state(tb, id)
	refused := errors.New("refused")
	_, err := s.catalog.Update(s.ctx, id, func(m *session.Meta) error {
		m.Title, m.Labels["a"] = "changed", "changed"
		return fmt.Errorf("for a reason: %w", refused)
	})
	wantErr(tb, err, is(refused), "Update whose change fails")
	want(tb, s.state(tb, id), before, "the session after an Update whose change failed")
}

func updateLeavesMessagesAlone(tb testing.TB, s *subject) {
	must(tb, s.store.Save(s.ctx, id, conversation()), "Save")
	_, err := s.log.Truncate(s.ctx, id, 4, nil)
	must(tb, err, "Truncate")
	before := s.read(tb, id, nil)
	for range 3 {
		s.setMeta(tb, id, fullMeta())
		after := s.read(tb, id, nil)
		wantHistory(tb, after.Messages, conversation()[:4], "Read after Update")
		want(tb, [2]session.Version{after.Version, after.Base}, [2]session.Version{before.Version, before.Base}, "Version and Base after Update")
	}
	s.append(tb, id, "more")
	want(tb, s.read(tb, id, nil).Base, before.Base, "Base after Update and Append")
}

func updateLosesNoConcurrentUpdate(tb testing.TB, s *subject) {
	const times = 10
	peers := s.peers(tb, 6)
	s.append(tb, id, "a")
	s.together(tb, len(peers), func(i int) error {
		for range times {
			var err error
			if i%3 == 2 {
				_, err = peers[i].log.Append(s.ctx, id, userTexts("a"), nil)
			} else {
				_, err = peers[i].catalog.Update(s.ctx, id, func(m *session.Meta) error { m.SummaryThrough++; return nil })
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	info := s.info(tb, id)
	want(tb, info.SummaryThrough, 4*times, "the counter that four writers updated")
	want(tb, info.Messages, 1+2*times, "messages that two writers appended")
}

func updateHoldsNoLock(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	s.await(tb, "Update whose change uses the store", func() error {
		once := false
		_, err := s.catalog.Update(s.ctx, id, func(m *session.Meta) error {
			if once {
				m.Title = "outer"
				return nil
			}
			once = true
			_, err := s.catalog.Update(s.ctx, id, func(m *session.Meta) error { m.Model = "inner"; return nil })
			if err == nil {
				_, err = s.log.Append(s.ctx, id, userTexts("b"), nil)
			}
			if err == nil {
				_, err = s.store.Load(s.ctx, id)
			}
			m.Title = "outer"
			return err
		})
		return err
	})
	wantTexts(tb, s.load(tb, id), []string{"a", "b"}, "Load after Update")
	want(tb, s.info(tb, id).Meta, session.Meta{Title: "outer", Model: "inner"}, "Meta after an Update within an Update")
}

func updateFillsNothing(tb testing.TB, s *subject) {
	must(tb, s.store.Save(s.ctx, id, conversation()), "Save")
	s.append(tb, id, "What is a good title?")
	want(tb, s.info(tb, id).Meta, session.Meta{}, "Meta that nobody wrote")
}

func updateRefusesWhatItCantKeep(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	// {"summary":"…"} is 14 bytes more than the text.
	largest := session.Meta{Summary: strings.Repeat("x", session.MaxMetaBytes-14)}
	s.setMeta(tb, id, largest)
	want(tb, s.info(tb, id).Meta, largest, "the largest Meta")
	s.setMeta(tb, id, fullMeta())
	s.tick()
	before := s.state(tb, id)
	for _, refused := range []struct {
		what string
		meta session.Meta
		err  error
	}{
		{"summary of 32 KiB", session.Meta{Summary: strings.Repeat("x", session.MaxMetaBytes)}, session.ErrTooLarge},
		{"one byte too many", session.Meta{Summary: largest.Summary + "x"}, session.ErrTooLarge},
		{"labels of 40 KB", session.Meta{Labels: map[string]string{"k": strings.Repeat("v", 40_000)}}, session.ErrTooLarge},
		{"title, UTF-8", session.Meta{Title: "\xff"}, session.ErrInvalidOption},
		{"prompt, UTF-8", session.Meta{FirstPrompt: "a\xc3"}, session.ErrInvalidOption},
		{"model, UTF-8", session.Meta{Model: "\xff"}, session.ErrInvalidOption},
		{"workspace, UTF-8", session.Meta{Workspace: "\xff"}, session.ErrInvalidOption},
		{"parent, UTF-8", session.Meta{Parent: "\xff"}, session.ErrInvalidOption},
		{"successor, UTF-8", session.Meta{SucceededBy: "\xff"}, session.ErrInvalidOption},
		{"summary, UTF-8", session.Meta{Summary: "\xff"}, session.ErrInvalidOption},
		{"hash, UTF-8", session.Meta{SummaryHash: "\xff"}, session.ErrInvalidOption},
		{"label, UTF-8", session.Meta{Labels: map[string]string{"\xff": ""}}, session.ErrInvalidOption},
		{"label's value, UTF-8", session.Meta{Labels: map[string]string{"k": "\xff"}}, session.ErrInvalidOption},
		{"cost, NaN", session.Meta{Cost: math.NaN()}, session.ErrInvalidOption},
		{"cost, infinity", session.Meta{Cost: math.Inf(1)}, session.ErrInvalidOption},
	} {
		_, err := s.catalog.Update(s.ctx, id, func(m *session.Meta) error { *m = refused.meta; return nil })
		wantErr(tb, err, is(refused.err), "Update: %s", refused.what)
		want(tb, s.state(tb, id), before, "the session after a refused Update: %s", refused.what)
	}
}
