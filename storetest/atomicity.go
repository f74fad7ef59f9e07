package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/session"
)

var atomicityRules = []rule{{
	"Atomicity/ShowsBatchesWhole",
	"A reader sees all of a batch or nothing of it.",
	[]Feature{Log}, atomicityShowsBatchesWhole,
}, {
	"Atomicity/NeverMixesHistories",
	"While whole histories replace each other, a reader sees one of them.",
	nil, atomicityNeverMixesHistories,
}, {
	"Atomicity/ReadsOneVersion",
	"The history that is read with a version is the one that the write of that version made.",
	[]Feature{Log}, atomicityReadsOneVersion,
}, {
	"Atomicity/KeepsAppendsApartFromReplace",
	"An Append beside a Replace comes before it, and is replaced, or after it, and follows it.",
	[]Feature{Log}, atomicityKeepsAppendsApartFromReplace,
}}

// during runs write on one goroutine and, until it returns, read on others,
// with a handle each.
func (s *subject) during(tb testing.TB, writers, readers int, write, read func(p *subject, i int) error) {
	tb.Helper()
	peers := s.peers(tb, writers+readers)
	var running atomic.Int32
	running.Store(int32(writers))
	s.together(tb, writers+readers, func(i int) error {
		if i < writers {
			defer running.Add(-1)
			return write(peers[i], i)
		}
		for last := false; !last; {
			last = running.Load() == 0 // read once more, after the last write
			if err := read(peers[i], i); err != nil {
				return err
			}
		}
		return nil
	})
}

func atomicityShowsBatchesWhole(tb testing.TB, s *subject) {
	s.during(tb, 2, 2, func(p *subject, w int) error {
		for n := range 20 {
			if _, err := p.log.Append(s.ctx, id, userTexts(batch(w, n)...), nil); err != nil {
				return fmt.Errorf("Append: %w", err)
			}
		}
		return nil
	}, func(p *subject, _ int) error {
		snap, err := p.log.Read(s.ctx, id, nil)
		if err != nil {
			return fmt.Errorf("Read: %w", err)
		}
		if snap.Total != len(snap.Messages) || snap.Total%batchSize != 0 {
			return fmt.Errorf("Read: %d messages, Total %d, want whole batches of %d", len(snap.Messages), snap.Total, batchSize)
		}
		_, err = checkBatches(textsOf(snap.Messages))
		return err
	})
}

func atomicityNeverMixesHistories(tb testing.TB, s *subject) {
	lengths := []int{4, 9}
	marks := []string{"a", "b"}
	s.save(tb, id, numbered("a", 4)...)
	s.during(tb, 2, 2, func(p *subject, w int) error {
		for range 20 {
			if err := p.store.Save(s.ctx, id, userTexts(numbered(marks[w], lengths[w])...)); err != nil {
				return fmt.Errorf("Save: %w", err)
			}
		}
		return nil
	}, func(p *subject, _ int) error {
		history, err := p.store.Load(s.ctx, id)
		if err != nil {
			return fmt.Errorf("Load: %w", err)
		}
		texts := textsOf(history)
		for w, mark := range marks {
			if slices.Equal(texts, numbered(mark, lengths[w])) {
				return nil
			}
		}
		return fmt.Errorf("Load = %s, want one of the two histories that are saved in turn", brief(texts))
	})
}

func atomicityReadsOneVersion(tb testing.TB, s *subject) {
	made := map[session.Version]string{session.Absent: ""}
	type sight struct {
		version session.Version
		texts   string
		part    bool
	}
	sights := make([][]sight, 4)
	random := rand.New(rand.NewPCG(1, 2))
	s.during(tb, 1, 3, func(p *subject, _ int) error {
		var texts []string
		for n := range 80 {
			var v session.Version
			var err error
			switch text := fmt.Sprint("m", n); {
			case len(texts) > 3 && random.IntN(4) == 0:
				texts = texts[:random.IntN(len(texts))]
				v, err = p.log.Truncate(s.ctx, id, len(texts), nil)
			case random.IntN(4) == 0:
				texts = numbered(text+"-", random.IntN(6))
				v, err = p.log.Replace(s.ctx, id, userTexts(texts...), nil)
			default:
				texts = append(slices.Clip(texts), text, text+"'")
				v, err = p.log.Append(s.ctx, id, userTexts(text, text+"'"), nil)
			}
			if err != nil {
				return fmt.Errorf("write %d: %w", n, err)
			}
			made[v] = strings.Join(texts, " ")
		}
		return nil
	}, func(p *subject, i int) error {
		var opts session.ReadOptions
		if i == 1 {
			opts.Last = 2
		}
		snap, err := p.log.Read(s.ctx, id, &opts)
		if err != nil {
			return fmt.Errorf("Read: %w", err)
		}
		sights[i] = append(sights[i], sight{snap.Version, strings.Join(textsOf(snap.Messages), " "), opts.Last > 0})
		return nil
	})
	for _, sight := range slices.Concat(sights...) {
		texts, ok := made[sight.version]
		switch {
		case !ok:
			tb.Errorf("a reader saw version %q, which no write returned, with %s", sight.version, brief(sight.texts))
		case sight.part && !strings.HasSuffix(texts, sight.texts), !sight.part && texts != sight.texts:
			tb.Errorf("a reader saw at version %q\n%s\nwant what that write made:\n%s", sight.version, brief(sight.texts), brief(texts))
		}
	}
}

func atomicityKeepsAppendsApartFromReplace(tb testing.TB, s *subject) {
	s.replace(tb, id, "base0")
	s.during(tb, 4, 1, func(p *subject, w int) error {
		for n := range 15 {
			var err error
			if w == 0 {
				_, err = p.log.Replace(s.ctx, id, userTexts(fmt.Sprint("base", n+1)), nil)
			} else {
				_, err = p.log.Append(s.ctx, id, userTexts(batch(w, n)...), nil)
			}
			if err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		return nil
	}, func(p *subject, _ int) error {
		history, err := p.store.Load(s.ctx, id)
		if err != nil {
			return fmt.Errorf("Load: %w", err)
		}
		texts := textsOf(history)
		if len(texts)%batchSize != 1 || !strings.HasPrefix(texts[0], "base") {
			return fmt.Errorf("Load = %s, want what one Replace made and whole batches after it", brief(texts))
		}
		for at := 1; at < len(texts); at += batchSize {
			var w, n int
			fmt.Sscanf(texts[at], "%d/%d/", &w, &n)
			if got := texts[at : at+batchSize]; !slices.Equal(got, batch(w, n)) {
				return fmt.Errorf("messages %d to %d = %q, want a whole batch", at+1, at+batchSize, got)
			}
		}
		return nil
	})
}
