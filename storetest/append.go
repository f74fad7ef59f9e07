package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

var appendRules = []rule{{
	"Append/AddsToTheEnd",
	"Append adds its messages to the end of the history, in their order.",
	[]Feature{Log}, appendAddsToTheEnd,
}, {
	"Append/CreatesTheSession",
	"A non-empty Append creates the session.",
	[]Feature{Log, Catalog}, appendCreatesTheSession,
}, {
	"Append/OfNothingChangesNothing",
	"An empty Append changes nothing, creates no session and returns the current version.",
	[]Feature{Log}, appendOfNothingChangesNothing,
}, {
	"Append/KeepsOrderAcrossWriters",
	"Concurrent appends lose nothing, each batch is contiguous, and each writer's batches keep their order.",
	[]Feature{Log}, appendKeepsOrderAcrossWriters,
}, {
	"Append/NeverReordersWhatWasRead",
	"Every reader sees the same order, and what was read once stays as it is while others append.",
	[]Feature{Log}, appendNeverReordersWhatWasRead,
}, {
	"Append/CreatesTheSessionOnce",
	"Concurrent first appends make one session with the messages of all.",
	[]Feature{Log}, appendCreatesTheSessionOnce,
}}

func appendAddsToTheEnd(tb testing.TB, s *subject) {
	peers := s.peers(tb, 3)
	var wants []session.Message
	for n := range 12 {
		batch := conversation()[n%3 : 3+n%3]
		_, err := peers[n%3].log.Append(s.ctx, id, batch, nil)
		must(tb, err, "Append %d", n)
		wants = append(wants, batch...)
		wantHistory(tb, s.load(tb, id), wants, "Load after Append %d", n)
	}
}

func appendCreatesTheSession(tb testing.TB, s *subject) {
	v := s.append(tb, id, "a")
	info := s.info(tb, id)
	want(tb, info.Version, v, "Info.Version after the first Append")
	want(tb, info.Messages, 1, "Info.Messages after the first Append")
}

func appendOfNothingChangesNothing(tb testing.TB, s *subject) {
	for _, none := range [][]session.Message{nil, {}} {
		v, err := s.log.Append(s.ctx, "absent", none, nil)
		must(tb, err, "Append(%#v) to no session", none)
		want(tb, v, session.Absent, "version of an empty Append to no session")
		want(tb, s.state(tb, "absent").Exists, false, "existence after an empty Append")

		s.append(tb, id, "a")
		s.tick()
		before := s.state(tb, id)
		v, err = s.log.Append(s.ctx, id, none, nil)
		must(tb, err, "Append(%#v)", none)
		want(tb, v, before.Version, "version of an empty Append")
		want(tb, s.state(tb, id), before, "the session after an empty Append")
	}
}

// batchSize is how many messages the writers of a race write at once.
const batchSize = 3

// batch returns the texts "writer/number/position".
func batch(writer, n int) []string {
	texts := make([]string, batchSize)
	for i := range texts {
		texts[i] = fmt.Sprintf("%d/%d/%d", writer, n, i)
	}
	return texts
}

// checkBatches reports texts that are not whole batches, each writer's in
// order. It returns how many batches each writer has.
func checkBatches(texts []string) (map[int]int, error) {
	found := make(map[int]int)
	for at := 0; at < len(texts); at += batchSize {
		var writer, n int
		if _, err := fmt.Sscanf(texts[at], "%d/%d/", &writer, &n); err != nil {
			return nil, fmt.Errorf("message %d = %q, want a batch's", at+1, texts[at])
		}
		got := texts[at:min(at+batchSize, len(texts))]
		if wants := batch(writer, found[writer]); !slices.Equal(got, wants) {
			return nil, fmt.Errorf("messages %d to %d = %q, want %q: that writer's next batch, whole", at+1, at+len(got), got, wants)
		}
		found[writer]++
	}
	return found, nil
}

func appendKeepsOrderAcrossWriters(tb testing.TB, s *subject) {
	const batches = 12
	peers := s.peers(tb, 8)
	s.together(tb, len(peers), func(w int) error {
		for n := range batches {
			if _, err := peers[w].log.Append(s.ctx, id, userTexts(batch(w, n)...), nil); err != nil {
				return fmt.Errorf("Append %d of writer %d: %w", n, w, err)
			}
		}
		return nil
	})
	texts := textsOf(s.load(tb, id))
	found, err := checkBatches(texts)
	if err != nil {
		tb.Error(err)
	}
	for w := range peers {
		want(tb, found[w], batches, "batches of writer %d", w)
	}
	if len(texts) < 57 {
		return // reported above
	}
	for _, p := range peers[:2] {
		wantTexts(tb, p.load(tb, id), texts, "Load through another handle")
		wantTexts(tb, p.read(tb, id, &session.ReadOptions{After: 7, Limit: 50}).Messages, texts[7:57], "Read of a part")
	}
}

func appendNeverReordersWhatWasRead(tb testing.TB, s *subject) {
	peers := s.peers(tb, 6)
	reads := make([][][]string, len(peers))
	s.together(tb, len(peers), func(i int) error {
		for n := range 15 {
			if i < 3 {
				if _, err := peers[i].log.Append(s.ctx, id, userTexts(batch(i, n)...), nil); err != nil {
					return fmt.Errorf("Append: %w", err)
				}
				continue
			}
			history, err := peers[i].store.Load(s.ctx, id)
			if err != nil {
				return fmt.Errorf("Load: %w", err)
			}
			reads[i] = append(reads[i], textsOf(history))
		}
		return nil
	})
	final := textsOf(s.load(tb, id))
	for _, of := range reads {
		longest := 0
		for _, texts := range of {
			if len(texts) < longest {
				tb.Errorf("a reader got %d messages, then %d: a history that only grows was shorter", longest, len(texts))
			}
			longest = len(texts)
			if len(texts) > len(final) || !slices.Equal(texts, final[:len(texts)]) {
				tb.Errorf("a reader got\n%s\nwant the beginning of the history\n%s", brief(texts), brief(final))
			}
		}
	}
}

func appendCreatesTheSessionOnce(tb testing.TB, s *subject) {
	peers := s.peers(tb, 8)
	for round := range 5 {
		id := fmt.Sprint("session", round)
		s.together(tb, len(peers), func(w int) error {
			_, err := peers[w].log.Append(s.ctx, id, userTexts(batch(w, 0)...), nil)
			return err
		})
		found, err := checkBatches(textsOf(s.load(tb, id)))
		if err != nil {
			tb.Error(err)
		}
		if len(found) != len(peers) {
			tb.Errorf("%s has the batches of %d writers, want %d: %s", id, len(found), len(peers), strings.Join(textsOf(s.load(tb, id)), " "))
		}
	}
}
