package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/session"
)

// saveRules are about Save and Replace of histories that a store may take for
// extensions of what it has.
var saveRules = []rule{
	extends("Save", nil, func(ctx context.Context, s *subject, id string, messages []session.Message) error {
		return s.store.Save(ctx, id, messages)
	}),
	extends("Replace", []Feature{Log}, func(ctx context.Context, s *subject, id string, messages []session.Message) error {
		_, err := s.log.Replace(ctx, id, messages, nil)
		return err
	}),
	{
		"Save/UndoesAPeersAppend",
		"A history that is saved is the whole one, though another handle appended to the session since it was loaded.",
		[]Feature{Log}, saveUndoesAPeersAppend,
	}, {
		"Save/AfterTruncate",
		"A history that extends what a Truncate left, or what was there before it, is stored as it was given.",
		[]Feature{Log}, saveAfterTruncate,
	}, {
		"Save/AfterDelete",
		"A history that extends one that was deleted is stored as it was given.",
		[]Feature{Log, Catalog}, saveAfterDelete,
	}, {
		"Save/GrowsWhatWasAppended",
		"A history that extends one that was appended batch by batch is stored as it was given.",
		[]Feature{Log}, saveGrowsWhatWasAppended,
	},
}

// extends returns the rule that what write wrote is the history, whichever
// history was there.
func extends(op string, needs []Feature, write func(context.Context, *subject, string, []session.Message) error) rule {
	says := op + " of a history that extends, repeats, shortens or alters the stored one leaves exactly what it was given."
	return rule{op + "/LeavesWhatItWasGiven", says, needs, func(tb testing.TB, s *subject) {
		peers := s.peers(tb, 2)
		n := 0
		check := func(what string, messages []session.Message) {
			tb.Helper()
			must(tb, write(s.ctx, peers[n%2], id, messages), "%s %s", op, what)
			wantHistory(tb, peers[(n+1)%2].load(tb, id), canonical(tb, messages), "Load after %s %s", op, what)
			n++
		}
		var history []session.Message
		for i := range 12 {
			history = append(history, session.UserText(fmt.Sprint("m", i)))
			check("one longer", history)
		}
		check("repeated", history)
		check("again, by another handle", history)
		for i := range 3 {
			for what, change := range alterations() {
				altered := session.CloneMessages(history)
				change(&altered[i*5])
				check(fmt.Sprint("with another ", what), append(altered, session.UserText("and more")))
				check("restored", history)
				check(fmt.Sprint("of one length with another ", what), altered)
			}
		}
		check("shorter", history[:5])
		check("longer again", history)
		check("without the first", history[1:])
		check("with two swapped", append([]session.Message{history[1], history[0]}, history[2:]...))
		check("doubled", append(history[:12:12], history...))
		check("empty", nil)
		check("begun again", history[:3])
	}}
}

// alterations are small changes of a message, by what they change.
func alterations() map[string]func(m *session.Message) {
	return map[string]func(m *session.Message){
		"text":     func(m *session.Message) { m.Content = []session.Block{session.Text("altered")} },
		"block":    func(m *session.Message) { m.Content = append(m.Content, session.Text("")) },
		"role":     func(m *session.Message) { m.Role = session.RoleAssistant },
		"ID":       func(m *session.Message) { m.ID = "x" },
		"metadata": func(m *session.Message) { m.Metadata = map[string]any{"x": 1.0} },
	}
}

func saveUndoesAPeersAppend(tb testing.TB, s *subject) {
	p := s.peer(tb)
	for n := range 3 {
		base := numbered("m", 2+n)
		s.save(tb, id, base...)
		p.append(tb, id, "by the peer")
		wants := append(base, "by the saver")
		s.save(tb, id, wants...)
		for _, h := range []*subject{s, p} {
			wantTexts(tb, h.load(tb, id), wants, "Load after Save")
		}
		p.append(tb, id, "appended to what was saved")
		wantTexts(tb, s.load(tb, id), append(wants, "appended to what was saved"), "Load after Append")
	}
}

func saveAfterTruncate(tb testing.TB, s *subject) {
	p := s.peer(tb)
	for keep := range 5 {
		for _, texts := range [][]string{
			numbered("m", 6), numbered("m", 5), numbered("m", keep), numbered("m", keep+1), append(numbered("m", keep), "other"),
		} {
			s.save(tb, id, numbered("m", 5)...)
			_, err := p.log.Truncate(s.ctx, id, keep, nil)
			must(tb, err, "Truncate(%d)", keep)
			s.save(tb, id, texts...)
			wantTexts(tb, p.load(tb, id), texts, "Load after Truncate(%d) and Save of %q", keep, texts)
			s.save(tb, id, append(texts, "more")...)
			wantTexts(tb, p.load(tb, id), append(texts, "more"), "Load after a second Save")
		}
	}
}

func saveAfterDelete(tb testing.TB, s *subject) {
	p := s.peer(tb)
	s.save(tb, id, numbered("m", 5)...)
	p.delete(tb, id)
	s.save(tb, id, numbered("m", 6)...)
	wantTexts(tb, s.load(tb, id), numbered("m", 6), "Load after Delete and Save")
	p.delete(tb, id)
	p.append(tb, id, numbered("n", 6)...)
	s.save(tb, id, numbered("m", 7)...)
	wantTexts(tb, s.load(tb, id), numbered("m", 7), "Load after Delete, another history and Save")
}

func saveGrowsWhatWasAppended(tb testing.TB, s *subject) {
	for n := range 6 {
		s.append(tb, id, fmt.Sprint("m", n+1))
	}
	s.save(tb, id, numbered("m", 8)...)
	s.append(tb, id, "m9")
	s.save(tb, id, numbered("m", 9)...)
	s.save(tb, id, numbered("m", 10)...)
	wantTexts(tb, s.load(tb, id), numbered("m", 10), "Load")
	s.save(tb, id, "m1", "m2", "x", "m4", "m5", "m6", "m7", "m8", "m9", "m10", "m11")
	wantTexts(tb, s.load(tb, id)[2:4], []string{"x", "m4"}, "the altered message and the next")
}

var truncateRules = []rule{{
	"Truncate/KeepsTheFirst",
	"Truncate removes all messages after the first keep, and what is appended then follows those.",
	[]Feature{Log}, truncateKeepsTheFirst,
}, {
	"Truncate/ToTheWholeChangesNothing",
	"Truncate to as many messages as there are, or more, changes nothing and returns the current version.",
	[]Feature{Log}, truncateToTheWholeChangesNothing,
}, {
	"Truncate/OfAbsentSessionDoesNothing",
	"Truncate of a session that does not exist does nothing, and returns Absent.",
	[]Feature{Log}, truncateOfAbsentSessionDoesNothing,
}, {
	"Truncate/ToNothingKeepsTheSession",
	"A session that is truncated to nothing still exists.",
	[]Feature{Log, Catalog}, truncateToNothingKeepsTheSession,
}, {
	"Truncate/RefusesNegative",
	"Truncate to a negative number is ErrInvalidOption.",
	[]Feature{Log}, truncateRefusesNegative,
}}

func truncateKeepsTheFirst(tb testing.TB, s *subject) {
	p := s.peer(tb)
	for keep := range 7 {
		s.replace(tb, id)
		s.append(tb, id, "m1", "m2", "m3")
		s.append(tb, id, "m4")
		s.append(tb, id, "m5", "m6", "m7")
		_, err := p.log.Truncate(s.ctx, id, keep, nil)
		must(tb, err, "Truncate(%d)", keep)
		wantTexts(tb, s.load(tb, id), numbered("m", keep), "Load after Truncate(%d)", keep)
		s.append(tb, id, "n1", "n2")
		wants := append(numbered("m", keep), "n1", "n2")
		wantTexts(tb, p.load(tb, id), wants, "Load after Truncate(%d) and Append", keep)
		wantTexts(tb, p.read(tb, id, &session.ReadOptions{Last: 3}).Messages, wants[max(0, len(wants)-3):], "the last three after Truncate(%d) and Append", keep)
	}
}

func truncateToTheWholeChangesNothing(tb testing.TB, s *subject) {
	s.append(tb, id, "a", "b")
	s.tick()
	before := s.state(tb, id)
	for _, keep := range []int{2, 3, 1 << 30} {
		v, err := s.log.Truncate(s.ctx, id, keep, nil)
		must(tb, err, "Truncate(%d) of 2", keep)
		want(tb, v, before.Version, "version of Truncate(%d) of 2", keep)
		want(tb, s.state(tb, id), before, "the session after Truncate(%d) of 2", keep)
	}
}

func truncateOfAbsentSessionDoesNothing(tb testing.TB, s *subject) {
	for _, keep := range []int{0, 1} {
		v, err := s.log.Truncate(s.ctx, id, keep, nil)
		must(tb, err, "Truncate(%d) of no session", keep)
		want(tb, v, session.Absent, "version of Truncate of no session")
		want(tb, s.state(tb, id).Exists, false, "existence after Truncate")
	}
}

func truncateToNothingKeepsTheSession(tb testing.TB, s *subject) {
	s.append(tb, id, "a", "b")
	s.setMeta(tb, id, session.Meta{Title: "kept"})
	v, err := s.log.Truncate(s.ctx, id, 0, nil)
	must(tb, err, "Truncate(0)")
	info := s.info(tb, id)
	want(tb, info.Version, v, "Info.Version")
	want(tb, info.Messages, 0, "Info.Messages")
	want(tb, info.Title, "kept", "Info.Title")
}

func truncateRefusesNegative(tb testing.TB, s *subject) {
	s.append(tb, id, "a", "b")
	before := s.state(tb, id)
	for _, to := range []string{id, "absent"} {
		_, err := s.log.Truncate(s.ctx, to, -1, nil)
		wantErr(tb, err, is(session.ErrInvalidOption), "Truncate(%q, -1)", to)
	}
	want(tb, s.state(tb, id), before, "the session after Truncate(-1)")
}
