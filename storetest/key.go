package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

var keyRules = []rule{{
	"Keys/MakeRetriesHarmless",
	"A second call with the same Key writes nothing and returns the version of the first, through any handle, whatever was written since.",
	[]Feature{Log}, keysMakeRetriesHarmless,
}, {
	"Keys/CompareNothingElse",
	"A retry counts as one by its Key alone: neither the messages nor the method are compared.",
	[]Feature{Log}, keysCompareNothingElse,
}, {
	"Keys/GoBeforeIfVersion",
	"The Key is checked before IfVersion: a retry of a write that was made is no conflict.",
	[]Feature{Log}, keysGoBeforeIfVersion,
}, {
	"Keys/AreRememberedFor31Others",
	"A Key is remembered while fewer than 32 other keyed writes came between.",
	[]Feature{Log}, keysAreRememberedFor31Others,
}, {
	"Keys/LetOneTryWrite",
	"Concurrent tries of one keyed write are stored once, and all return the same version.",
	[]Feature{Log}, keysLetOneTryWrite,
}, {
	"Keys/BelongToTheirSession",
	"A Key of one session means nothing to another.",
	[]Feature{Log}, keysBelongToTheirSession,
}, {
	"Keys/EndWithTheirSession",
	"A session that was deleted and made again knows none of the Keys it had.",
	[]Feature{Log, Catalog}, keysEndWithTheirSession,
}, {
	"Keys/OfRefusedWritesMeanNothing",
	"A keyed write that was refused is made when it is tried again without the fault.",
	[]Feature{Log}, keysOfRefusedWritesMeanNothing,
}, {
	"Keys/AreUpTo64Bytes",
	"A Key is 1 to 64 bytes; a longer one is ErrInvalidOption.",
	[]Feature{Log}, keysAreUpTo64Bytes,
}, {
	"Keys/AreNotForDelete",
	"Delete with a Key is ErrInvalidOption.",
	[]Feature{Log, Catalog}, keysAreNotForDelete,
}}

func key(k string) *session.WriteOptions { return &session.WriteOptions{Key: k} }

func keysMakeRetriesHarmless(tb testing.TB, s *subject) {
	peers := s.peers(tb, 3)
	s.append(tb, id, "a", "b")
	for i, op := range writeOps {
		first, err := op.call(s.ctx, peers[i], id, key(op.name))
		must(tb, err, "%s with a Key", op.name)
		for n := range 6 {
			before := s.state(tb, id)
			again, err := op.call(s.ctx, peers[n%3], id, key(op.name))
			must(tb, err, "%s again", op.name)
			want(tb, again, first, "version of %s again, after %d other writes", op.name, n/3)
			want(tb, s.state(tb, id), before, "the session after %s again", op.name)
			if n == 2 {
				s.append(tb, id, "meanwhile")
			}
		}
	}
	for _, op := range writeOps { // as the first call of a session
		first, err := op.call(s.ctx, s, op.name, key("k"))
		must(tb, err, "%s of no session", op.name)
		again, err := op.call(s.ctx, peers[1], op.name, key("k"))
		must(tb, err, "%s of no session, again", op.name)
		want(tb, again, first, "version of %s again", op.name)
	}
}

func keysCompareNothingElse(tb testing.TB, s *subject) {
	first, err := s.log.Append(s.ctx, id, userTexts("a", "b"), key("k"))
	must(tb, err, "Append")
	last := s.append(tb, id, "c")
	before := s.state(tb, id)
	for _, op := range writeOps {
		v, err := op.call(s.ctx, s, id, key("k"))
		must(tb, err, "%s with the Key of an Append", op.name)
		want(tb, v, first, "version of %s with the Key of an Append", op.name)
	}
	v, err := s.log.Append(s.ctx, id, nil, key("k"))
	must(tb, err, "empty Append with the Key of another")
	want(tb, v, first, "version of an empty Append with the Key of another")
	want(tb, s.state(tb, id), before, "the session after retries")
	want(tb, s.version(tb, id), last, "version after retries")
}

func keysGoBeforeIfVersion(tb testing.TB, s *subject) {
	p := s.peer(tb)
	for _, op := range writeOps {
		opts := session.WriteOptions{IfVersion: s.append(tb, id, "a", "b"), Key: op.name}
		first, err := op.call(s.ctx, s, id, &opts)
		must(tb, err, "%s with IfVersion and Key", op.name)
		for _, other := range []session.Version{opts.IfVersion, "nonsense", session.Absent, session.AnyVersion} {
			v, err := op.call(s.ctx, p, id, &session.WriteOptions{IfVersion: other, Key: op.name})
			must(tb, err, "%s again with IfVersion %q", op.name, other)
			want(tb, v, first, "version of %s again with IfVersion %q", op.name, other)
		}
		want(tb, s.version(tb, id), first, "version after retries of %s", op.name)
	}
	opts := session.WriteOptions{IfVersion: session.Absent, Key: "k"}
	first, err := s.log.Append(s.ctx, "new", userTexts("a"), &opts)
	must(tb, err, "Append with IfVersion Absent and Key")
	again, err := p.log.Append(s.ctx, "new", userTexts("a"), &opts)
	must(tb, err, "the same Append again")
	want(tb, again, first, "version of the Append again")
}

func keysAreRememberedFor31Others(tb testing.TB, s *subject) {
	peers := s.peers(tb, 2)
	first, err := s.log.Append(s.ctx, id, userTexts("first"), key("first"))
	must(tb, err, "Append")
	for n := range 31 {
		op := writeOps[n%3]
		if n%3 == 2 { // the Truncate must have something to remove
			s.append(tb, id, "a", "b")
		}
		_, err := op.call(s.ctx, peers[n%2], id, key(fmt.Sprint("other", n)))
		must(tb, err, "%s with another Key", op.name)
		s.append(tb, id, "without a Key")
	}
	before := s.state(tb, id)
	v, err := s.log.Append(s.ctx, id, userTexts("first"), key("first"))
	must(tb, err, "Append again")
	want(tb, v, first, "version of an Append again, after 31 other keyed writes")
	want(tb, s.state(tb, id), before, "the session after the Append again")
}

func keysLetOneTryWrite(tb testing.TB, s *subject) {
	peers := s.peers(tb, 8)
	for round := range 5 {
		versions := make([]session.Version, len(peers))
		s.together(tb, len(peers), func(i int) (err error) {
			versions[i], err = peers[i].log.Append(s.ctx, id, userTexts("a", "b"), key(fmt.Sprint("k", round)))
			return err
		})
		for i, v := range versions {
			want(tb, v, versions[0], "version that try %d returned, and try 0", i)
		}
		want(tb, len(s.load(tb, id)), 2*(round+1), "messages after round %d", round)
	}
}

func keysBelongToTheirSession(tb testing.TB, s *subject) {
	for _, id := range []string{"one", "two"} {
		_, err := s.log.Append(s.ctx, id, userTexts(id), key("k"))
		must(tb, err, "Append to %q", id)
		wantTexts(tb, s.load(tb, id), []string{id}, "Load(%q)", id)
	}
}

func keysEndWithTheirSession(tb testing.TB, s *subject) {
	p := s.peer(tb)
	first, err := s.log.Append(s.ctx, id, userTexts("a"), key("k"))
	must(tb, err, "Append")
	p.delete(tb, id)
	second, err := s.log.Append(s.ctx, id, userTexts("b"), key("k"))
	must(tb, err, "Append after Delete")
	wantTexts(tb, p.load(tb, id), []string{"b"}, "Load after Delete and an Append with the same Key")
	if second == first {
		tb.Errorf("Append after Delete returned %q, the version of the deleted session", first)
	}
}

func keysOfRefusedWritesMeanNothing(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	_, err := s.log.Append(s.ctx, id, userTexts("b"), &session.WriteOptions{IfVersion: "nonsense", Key: "k"})
	wantErr(tb, err, is(session.ErrConflict), "Append with a stale IfVersion and a Key")
	_, err = s.log.Append(s.ctx, id, userTexts("\xff"), key("k"))
	wantErr(tb, err, is(session.ErrInvalidMessage), "Append of a bad message with a Key")
	_, err = s.log.Append(s.ctx, id, userTexts("b"), key("k"))
	must(tb, err, "Append with the Key of refused ones")
	wantTexts(tb, s.load(tb, id), []string{"a", "b"}, "Load")
}

func keysAreUpTo64Bytes(tb testing.TB, s *subject) {
	for i, k := range []string{"k", strings.Repeat("k", 64), strings.Repeat("k", 63), "世界", "\x00", "\n", "\xff\xfe", " ", "a:b/c{d}*"} {
		for range 2 {
			_, err := s.log.Append(s.ctx, id, userTexts(fmt.Sprint("m", i+1)), key(k))
			must(tb, err, "Append with Key %q", k)
		}
		wantTexts(tb, s.load(tb, id), numbered("m", i+1), "Load after two Appends with Key %q", k)
	}
	before := s.state(tb, id)
	for _, k := range []string{strings.Repeat("k", 65), strings.Repeat("k", 4000)} {
		for _, op := range writeOps {
			for _, to := range []string{id, "absent"} {
				_, err := op.call(s.ctx, s, to, key(k))
				wantErr(tb, err, is(session.ErrInvalidOption), "%s with a Key of %d bytes", op.name, len(k))
			}
		}
	}
	want(tb, s.state(tb, id), before, "the session after bad Keys")
}

func keysAreNotForDelete(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	before := s.state(tb, id)
	for _, to := range []string{id, "absent"} {
		wantErr(tb, s.catalog.Delete(s.ctx, to, key("k")), is(session.ErrInvalidOption), "Delete(%q) with a Key", to)
	}
	want(tb, s.state(tb, id), before, "the session after Delete with a Key")
}
