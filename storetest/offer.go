package storetest

import (
	"errors"
	"slices"
	"testing"
)

var offerRules = []rule{{
	"Offer/IsWhatTheOptionsSay",
	"A store implements each interface that Options.Lacks does not name. Each method of one that it names is missing or fails with errors.ErrUnsupported.",
	nil, offerIsWhatTheOptionsSay,
}}

func offerIsWhatTheOptionsSay(tb testing.TB, s *subject) {
	all := []Feature{Log, Catalog, Locker, Closer}
	for _, f := range s.opts.Lacks {
		if !slices.Contains(all, f) {
			tb.Errorf("Options.Lacks has %q, want one of %q", f, all)
		}
	}
	for _, f := range all {
		switch lacks := slices.Contains(s.opts.Lacks, f); {
		case !lacks && !s.offers(f):
			tb.Errorf("%T does not implement %s, and Options.Lacks does not say so", s.store, f)
		case lacks && s.offers(f):
			wantUnsupported(tb, s, f)
		}
	}
}

func wantUnsupported(tb testing.TB, s *subject, f Feature) {
	tb.Helper()
	if f == Closer {
		if err := s.closer.Close(); !errors.Is(err, errors.ErrUnsupported) {
			tb.Errorf("Close() = %v, want errors.ErrUnsupported, since Options.Lacks has %s", err, f)
		}
		return
	}
	for _, m := range methods {
		if m.of != f {
			continue
		}
		if err := m.call(s.ctx, s, id); !errors.Is(err, errors.ErrUnsupported) {
			tb.Errorf("%s: error = %v, want errors.ErrUnsupported, since Options.Lacks has %s", m.op, err, f)
		}
	}
}
