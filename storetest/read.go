package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/session"
)

var readRules = []rule{{
	"Read/OfAbsentSession",
	"Read of a session that does not exist returns no messages, in a slice that is not nil, and the version Absent.",
	[]Feature{Log}, readOfAbsentSession,
}, {
	"Read/ChoosesAfterLimitLast",
	"After skips that many, Limit keeps the first n of the rest, Last the last n; First and Total say what part that is.",
	[]Feature{Log}, readChoosesAfterLimitLast,
}, {
	"Read/LastIsTheNewest",
	"Last returns the newest messages, in the order of the history, never the oldest.",
	[]Feature{Log}, readLastIsTheNewest,
}, {
	"Read/WithoutOptionsIsTheWhole",
	"Read with nil options, or zero ones, is the whole history, as Load returns it.",
	[]Feature{Log}, readWithoutOptionsIsTheWhole,
}, {
	"Read/RefusesBadOptions",
	"Limit together with Last, and negative numbers, are ErrInvalidOption.",
	[]Feature{Log}, readRefusesBadOptions,
}, {
	"Read/SeesEveryWrite",
	"Who has written sees what was written, and so does every other handle.",
	[]Feature{Log}, readSeesEveryWrite,
}, {
	"Read/BaseStaysAcrossAppends",
	"Base is the version of the last change that was not an append.",
	[]Feature{Log}, readBaseStaysAcrossAppends,
}, {
	"Read/BaseMovesWithOtherChanges",
	"Truncate, a Replace by another history, and Delete and re-creation give a new Base.",
	[]Feature{Log}, readBaseMovesWithOtherChanges,
}, {
	"Read/PagesOfOneBaseFitTogether",
	"Pages with equal Base are of one history that only grew.",
	[]Feature{Log}, readPagesOfOneBaseFitTogether,
}, {
	"Read/IsNotStarvedByAppends",
	"A steady appender can't keep a reader from finishing.",
	[]Feature{Log}, func(tb testing.TB, s *subject) {
		readIsNotStarved(tb, s, func(ctx context.Context, p *subject, n int) error {
			_, err := p.log.Append(ctx, id, userTexts(fmt.Sprint("more", n)), nil)
			return err
		})
	},
}, {
	"Read/IsNotStarvedBySaves",
	"A steady writer of whole histories can't keep a reader from finishing.",
	[]Feature{Log}, func(tb testing.TB, s *subject) {
		readIsNotStarved(tb, s, func(ctx context.Context, p *subject, n int) error {
			return p.store.Save(ctx, id, userTexts(numbered(fmt.Sprint("save", n, "-"), 20)...))
		})
	},
}}

func readOfAbsentSession(tb testing.TB, s *subject) {
	s.append(tb, "other", "a")
	for _, opts := range []*session.ReadOptions{nil, {}, {After: 1}, {Limit: 1}, {Last: 1}, {After: 3, Last: 2}} {
		snap := s.read(tb, id, opts)
		if snap.Messages == nil {
			tb.Errorf("Read(%+v).Messages = nil, want a slice that is not nil", opts)
		}
		snap.Messages = nil
		want(tb, snap, session.Snapshot{Version: session.Absent, Base: session.Absent}, "Read(%+v)", opts)
	}
}

func readChoosesAfterLimitLast(tb testing.TB, s *subject) {
	for _, texts := range [][]string{numbered("m", 7), {}} {
		s.replace(tb, id, texts...)
		v := s.version(tb, id)
		for n := 0; n < 100 && !tb.Failed(); n++ {
			opts := session.ReadOptions{After: n % 10, Limit: n / 10}
			wantPart(tb, s, opts, texts, v)
			wantPart(tb, s, session.ReadOptions{After: opts.After, Last: opts.Limit}, texts, v)
		}
		wantPart(tb, s, session.ReadOptions{After: 1 << 30, Limit: 1 << 30}, texts, v)
		wantPart(tb, s, session.ReadOptions{Last: 1 << 30}, texts, v)
	}
}

// wantPart reports a Read that is not the part of texts that opts ask for.
func wantPart(tb testing.TB, s *subject, opts session.ReadOptions, texts []string, v session.Version) {
	tb.Helper()
	part := texts[min(opts.After, len(texts)):]
	if opts.Limit > 0 {
		part = part[:min(opts.Limit, len(part))]
	}
	first := min(opts.After, len(texts)) + 1
	if opts.Last > 0 && opts.Last < len(part) {
		first += len(part) - opts.Last
		part = part[len(part)-opts.Last:]
	}
	if len(part) == 0 {
		first = 0
	}
	got := s.read(tb, id, &opts)
	wantTexts(tb, got.Messages, part, "Read(%+v) of %d messages", opts, len(texts))
	want(tb, [2]int{got.First, got.Total}, [2]int{first, len(texts)}, "First and Total of Read(%+v)", opts)
	want(tb, got.Version, v, "Version of Read(%+v)", opts)
	if got.Messages == nil {
		tb.Errorf("Read(%+v).Messages = nil, want a slice that is not nil", opts)
	}
}

func readLastIsTheNewest(tb testing.TB, s *subject) {
	s.append(tb, id, numbered("m", 7)...)
	for last, wants := range map[int][]string{3: {"m5", "m6", "m7"}, 0: numbered("m", 7), 99: numbered("m", 7)} {
		wantTexts(tb, s.read(tb, id, &session.ReadOptions{Last: last}).Messages, wants, "Read(Last: %d)", last)
	}
	s.append(tb, id, "m8")
	wantTexts(tb, s.read(tb, id, &session.ReadOptions{Last: 3}).Messages, []string{"m6", "m7", "m8"}, "Read(Last: 3) after m8")
}

func readWithoutOptionsIsTheWhole(tb testing.TB, s *subject) {
	must(tb, s.store.Save(s.ctx, id, conversation()), "Save")
	for _, opts := range []*session.ReadOptions{nil, {}} {
		got := s.read(tb, id, opts)
		wantHistory(tb, got.Messages, conversation(), "Read(%v)", opts)
		want(tb, [2]int{got.First, got.Total}, [2]int{1, 5}, "First and Total of Read(%v)", opts)
	}
	wantHistory(tb, s.load(tb, id), conversation(), "Load")
	wantHistory(tb, s.read(tb, id, &session.ReadOptions{After: 4}).Messages, conversation()[4:], "the last message")
}

func readRefusesBadOptions(tb testing.TB, s *subject) {
	s.append(tb, id, "a", "b")
	for _, opts := range []session.ReadOptions{
		{Limit: 1, Last: 1}, {After: -1}, {Limit: -1}, {Last: -1}, {After: 1, Limit: 2, Last: 3},
	} {
		for _, to := range []string{id, "absent"} {
			_, err := s.log.Read(s.ctx, to, &opts)
			wantErr(tb, err, is(session.ErrInvalidOption), "Read(%q, %+v)", to, opts)
		}
	}
}

func readSeesEveryWrite(tb testing.TB, s *subject) {
	peers := s.peers(tb, 3)
	var texts []string
	for n := range 30 {
		w := peers[n%3]
		switch text := fmt.Sprint("m", n); n % 5 {
		case 3:
			v, err := w.log.Truncate(s.ctx, id, len(texts)-1, nil)
			must(tb, err, "Truncate")
			texts = texts[:len(texts)-1]
			want(tb, w.version(tb, id), v, "version after Truncate")
		case 4:
			texts = []string{text, text}
			w.save(tb, id, texts...)
		default:
			texts = append(texts, text)
			w.append(tb, id, text)
		}
		for i, p := range peers {
			wantTexts(tb, p.load(tb, id), texts, "Load through handle %d, after write %d through handle %d", i, n, n%3)
		}
	}
}

func readBaseStaysAcrossAppends(tb testing.TB, s *subject) {
	for _, how := range []string{"appended", "replaced"} {
		var v session.Version
		if how == "appended" {
			v = s.append(tb, how, "a")
		} else {
			s.append(tb, how, "before")
			v = s.replace(tb, how, "a", "b")
		}
		for n := range 5 {
			want(tb, s.read(tb, how, &session.ReadOptions{Last: 1}).Base, v, "Base of the session that was %s, after %d appends", how, n)
			s.append(tb, how, "more", "and more")
		}
	}
}

func readBaseMovesWithOtherChanges(tb testing.TB, s *subject) {
	s.append(tb, id, "a", "b", "c")
	seen := map[session.Version]string{session.Absent: "of no session", "": "of nothing"}
	check := func(after string) {
		tb.Helper()
		snap := s.read(tb, id, nil)
		if before, ok := seen[snap.Base]; ok {
			tb.Errorf("Base after %s = %q, the Base %s", after, snap.Base, before)
		}
		want(tb, snap.Base, snap.Version, "Base right after %s", after)
		seen[snap.Base] = "after " + after
	}
	check("the first Append")
	_, err := s.log.Truncate(s.ctx, id, 2, nil)
	must(tb, err, "Truncate")
	check("Truncate")
	s.replace(tb, id, "a", "x", "c", "d")
	check("Replace")
	s.save(tb, id, "other")
	check("Save")
	s.replace(tb, id)
	check("Replace by nothing")
	if s.catalog != nil && s.opts.has(Catalog) {
		s.delete(tb, id)
		want(tb, s.read(tb, id, nil).Base, session.Absent, "Base after Delete")
		s.append(tb, id, "a", "b", "c")
		check("Delete and Append")
	}
}

func readPagesOfOneBaseFitTogether(tb testing.TB, s *subject) {
	s.append(tb, id, numbered("m", 20)...)
	p := s.peer(tb)
	s.together(tb, 3, func(i int) error {
		if i == 0 {
			for n := range 20 {
				if _, err := p.log.Append(s.ctx, id, userTexts(fmt.Sprint("m", 21+n)), nil); err != nil {
					return fmt.Errorf("Append: %w", err)
				}
			}
			return nil
		}
		var all []session.Message
		var base session.Version
		for len(all) < 25 {
			snap, err := s.log.Read(s.ctx, id, &session.ReadOptions{After: len(all), Limit: 3})
			if err != nil {
				return fmt.Errorf("Read(After: %d): %w", len(all), err)
			}
			if base == "" {
				base = snap.Base
			}
			if snap.Base != base {
				return fmt.Errorf("Base of the page after %d = %q, want %q: there were only appends", len(all), snap.Base, base)
			}
			if len(snap.Messages) > 0 && snap.First != len(all)+1 {
				return fmt.Errorf("First of the page after %d = %d, want %d", len(all), snap.First, len(all)+1)
			}
			all = append(all, snap.Messages...)
		}
		return sameTexts(all, numbered("m", len(all)), "pages of a growing history")
	})
}

// readIsNotStarved reads while write goes on and on.
func readIsNotStarved(tb testing.TB, s *subject, write func(ctx context.Context, p *subject, n int) error) {
	tb.Helper()
	s.save(tb, id, numbered("m", 20)...)
	p := s.peer(tb)
	stop := make(chan struct{})
	s.together(tb, 3, func(i int) error {
		if i > 0 {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return nil
				default:
				}
				if err := write(s.ctx, p, n); err != nil {
					return fmt.Errorf("write %d: %w", n, err)
				}
			}
		}
		defer close(stop)
		for n := range 10 {
			ctx, cancel := context.WithTimeout(s.ctx, s.opts.patience/4)
			snap, err := s.log.Read(ctx, id, nil)
			cancel()
			if err != nil {
				return fmt.Errorf("Read %d beside a steady writer: %w", n, err)
			}
			if len(snap.Messages) != snap.Total || snap.Total < 20 {
				return fmt.Errorf("Read %d: %d messages of %d, want all of at least 20", n, len(snap.Messages), snap.Total)
			}
		}
		return nil
	})
}
