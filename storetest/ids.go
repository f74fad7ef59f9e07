package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

var idRules = []rule{{
	"IDs/AreAllDifferent",
	"IDs that differ in any byte are different sessions, whatever they look like to a file system, a server or a query language.",
	nil, idsAreAllDifferent,
}, {
	"IDs/AreListedAsTheyAre",
	"List and Info show an ID as it was given.",
	[]Feature{Catalog}, idsAreListedAsTheyAre,
}, {
	"IDs/AreDeletedOneByOne",
	"Delete removes the one session that it names.",
	[]Feature{Catalog}, idsAreDeletedOneByOne,
}, {
	"IDs/AreLockedOneByOne",
	"The lease of a session keeps nobody from another session.",
	[]Feature{Locker}, idsAreLockedOneByOne,
}, {
	"IDs/OfOtherKindsAreRefused",
	"An ID that is empty, longer than 512 bytes, not valid UTF-8 or holds NUL is ErrInvalidID for every method.",
	nil, idsOfOtherKindsAreRefused,
}, {
	"IDs/JoinedPartsStayApart",
	"IDs that JoinID makes of different parts are different sessions, and listing one user's folder shows no other user's.",
	[]Feature{Log, Catalog}, idsJoinedPartsStayApart,
}}

// oddIDs are valid IDs that stores are known to confuse or to refuse.
func oddIDs() []string {
	return []string{
		"a", "A", "b", "aa", "..", ".", "...", "/", "//", "///", "../x", "x", "/x", "x/", "./x", "x/.", "x/..", "a/../x", "/etc/passwd", `C:\x`, `a\b`,
		"a:b", "a/b", "a//b", "a/b/", "/a/b", "ab", "a:b:c", "a::b", ":", "a#b", "a|b", "a;b", "a,b", "a&b", "a=b", "a+b",
		"CON", "con", "Con", "con.txt", "NUL", "aux", "COM1", "lpt1", "head", "meta", "meta.json", "lock", ".lock", "index", "sessions", "expires",
		"🎉", "👨‍👩‍👧", "caf\u00e9", "cafe\u0301", "CAF\u00c9", "ß", "ss", "ẞ", "ı", "i", "İ", "ſ", "s", "\u212a", "k", "K", "日本", "日本/東京",
		" ", "  ", "a ", " a", "a.", "a..", "a\t", "a\n", "\n", "a\r\n", "\x01", "\x1f", "\x7f", "\u0085", "\u2028", "\ufeff", "\ufeffa", "\u200b", "\ufffd",
		"%", "_", "*", "?", "[a]", "a%", "a_", "a%b", "a_b", "a*", "a?b", "%2e", "%2E", ".%2e", "%2e%2e", "a%2fb", "a%2Fb", "%00", "%25", "~", "a~b",
		"{a}", "a{b}c", "a{b}d", "{", "}", "{}", "}{", "'", `"`, "a'b", "a''b", "'; --", "$", "$HOME", "`", "(a)", "<a>", "^", "@", "!",
		"0", "00", "1", "01", "1e0", "-1", "null", "nil", "true", "absent", "undefined", "user-1/session", "user-1", "user-10", "user-1/",
		"0000000000", "b!", "b\x7f", "b\u0080", "\U0010ffff", "\uffff",
		strings.Repeat("x", 512), strings.Repeat("x", 511), strings.Repeat("x", 511) + "y", strings.Repeat("X", 512), strings.Repeat("/", 512),
		strings.Repeat("é", 256), strings.Repeat("🎉", 128), strings.Repeat("%", 512), strings.Repeat("a/", 256), strings.Repeat("A", 300), strings.Repeat("a", 300),
	}
}

func idsAreAllDifferent(tb testing.TB, s *subject) {
	p := s.peer(tb)
	for _, id := range oddIDs() {
		wantTexts(tb, s.load(tb, id), nil, "Load(%q) before it exists", id)
		s.save(tb, id, "of "+id)
	}
	for _, id := range oddIDs() {
		wantTexts(tb, p.load(tb, id), []string{"of " + id}, "Load(%q)", id)
	}
	for i, id := range oddIDs() {
		p.save(tb, id, "of "+id, fmt.Sprint("and ", i))
	}
	for i, id := range oddIDs() {
		wantTexts(tb, s.load(tb, id), []string{"of " + id, fmt.Sprint("and ", i)}, "Load(%q) after a second Save", id)
	}
}

func idsAreListedAsTheyAre(tb testing.TB, s *subject) {
	for _, id := range oddIDs() {
		s.save(tb, id, id)
	}
	ids := oddIDs()
	slices.Sort(ids)
	want(tb, sortedIDs(s.awaitList(tb, nil, ids...)), ids, "IDs of List")
	for _, id := range ids {
		want(tb, s.info(tb, id).ID, id, "Info(%q).ID", id)
	}
	for _, prefix := range []string{
		"a", "A", "a/", "/", ".", "..", "%", "_", "*", "a%", "a_", "a{", "{", "é", "x/", "//", "\x01", "con", strings.Repeat("x", 511), "absent/", "日本/", " ", "b",
	} {
		within := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, prefix) })
		got := s.awaitList(tb, &session.ListOptions{Prefix: prefix}, within...)
		want(tb, sortedIDs(got), append([]string{}, within...), "IDs of List(Prefix: %q)", prefix)
	}
}

func idsAreDeletedOneByOne(tb testing.TB, s *subject) {
	ids := oddIDs()
	for _, id := range ids {
		s.save(tb, id, id)
	}
	for n, id := range ids {
		if n%2 == 0 {
			s.delete(tb, id)
		}
	}
	for n, id := range ids {
		wants := []string{id}
		if n%2 == 0 {
			wants = nil
		}
		wantTexts(tb, s.load(tb, id), wants, "Load(%q) after every second ID was deleted", id)
	}
}

func idsAreLockedOneByOne(tb testing.TB, s *subject) {
	noWait := &session.LockOptions{NoWait: true}
	for _, id := range oddIDs() {
		s.lock(tb, id, noWait)
	}
	for _, id := range oddIDs() {
		_, err := s.locker.Lock(s.ctx, id, noWait)
		wantErr(tb, err, is(session.ErrLocked), "Lock(%q) while it is held", id)
	}
}

func idsOfOtherKindsAreRefused(tb testing.TB, s *subject) {
	for _, id := range []string{
		"", strings.Repeat("x", 513), strings.Repeat("é", 257), strings.Repeat("x", 100_000),
		"\x00", "a\x00", "\x00a", "a\x00b", "\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf",
	} {
		for _, m := range s.methods() {
			if m.op != "list" {
				wantErr(tb, m.call(s.ctx, s, id), is(session.ErrInvalidID), "%s of session %s", m.op, cut(fmt.Sprintf("%q", id), 50))
			}
		}
	}
	if s.catalog == nil || !s.opts.has(Catalog) {
		return
	}
	if got := s.list(tb, nil); len(got) > 0 {
		tb.Errorf("List after calls with bad IDs = %s, want nothing", brief(got))
	}
}

func idsJoinedPartsStayApart(tb testing.TB, s *subject) {
	pairs := [][2]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a:", "b:c"}, {"a", "b"}, {"a", "b#c"}, {"a#b", "c"}, {"u_1", "s"}, {"u%1", "s"}, {"user1", "s"}, {"user10", "s"},
		{"a/b", "c"}, {"a", "b/c"}, {"a%2Fb", "c"}, {"a%2fb", "c"}, {"a", "b%2Fc"}, {"u%251", "s"},
	}
	name := func(pair [2]string) string { return fmt.Sprintf("%q", pair) }
	for _, pair := range pairs {
		s.append(tb, session.JoinID(pair[0], pair[1]), name(pair))
	}
	for _, pair := range pairs {
		wantTexts(tb, s.load(tb, session.JoinID(pair[0], pair[1])), []string{name(pair)}, "Load of the pair %q", pair)
		var folder []string
		for _, other := range pairs {
			if other[0] == pair[0] {
				folder = append(folder, session.JoinID(other[0], other[1]))
			}
		}
		slices.Sort(folder)
		prefix := session.JoinID(pair[0]) + "/"
		got := s.awaitList(tb, &session.ListOptions{Prefix: prefix}, folder...)
		want(tb, sortedIDs(got), folder, "IDs of List(Prefix: %q)", prefix)
	}
	s.delete(tb, session.JoinID("a", "b"))
	for _, pair := range pairs {
		wants := []string{name(pair)}
		if pair == [2]string{"a", "b"} {
			wants = nil
		}
		wantTexts(tb, s.load(tb, session.JoinID(pair[0], pair[1])), wants, "Load of the pair %q after Delete of another", pair)
	}
}
