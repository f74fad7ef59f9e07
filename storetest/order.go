package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var orderRules = []rule{{
	"Order/IsNotByTime",
	"The order of a history is that of the writes, when the clock stands still and when it steps back.",
	[]Feature{Log}, orderIsNotByTime,
}, {
	"Order/IgnoresMessageTimes",
	"The order of a history does not depend on the times and IDs that its messages carry.",
	nil, orderIgnoresMessageTimes,
}, {
	"Order/UpdatedNeverGoesBack",
	"Updated never goes back, though the clock does, and is never before Created.",
	[]Feature{Log, Catalog, clock}, orderUpdatedNeverGoesBack,
}}

func orderIsNotByTime(tb testing.TB, s *subject) {
	turn := []session.Message{
		session.UserText("q"),
		session.NewMessage(session.RoleAssistant, &session.ThinkingBlock{Text: "r", Signature: "c2ln"}, session.Text("m")),
		session.NewMessage(session.RoleAssistant, session.ToolUse("t1", "x", "{}")),
		session.NewMessage(session.RoleUser, session.ToolResult("t1", "x", "ok")),
	}
	peers := s.peers(tb, 2)
	wants := turn
	_, err := s.log.Append(s.ctx, id, turn, nil)
	must(tb, err, "Append of a turn")
	for n := range 100 {
		if n == 50 {
			s.advance(-5 * time.Second)
		}
		m := session.UserText(fmt.Sprint("m", n))
		_, err := peers[n%2].log.Append(s.ctx, id, []session.Message{m}, nil)
		must(tb, err, "Append %d", n)
		wants = append(wants[:len(wants):len(wants)], m)
	}
	for n := range 20 {
		wantHistory(tb, peers[n%2].load(tb, id), wants, "Load %d", n)
	}
	wantHistory(tb, s.read(tb, id, &session.ReadOptions{Last: 60}).Messages, wants[44:], "Read of the last 60")
	if s.opts.Peer != nil {
		wantHistory(tb, s.peer(tb).load(tb, id), wants, "Load, reopened")
	}
}

func orderIgnoresMessageTimes(tb testing.TB, s *subject) {
	var messages []session.Message
	for n, day := range []int{9, 2, 30, 2, 1} {
		m := session.UserText(fmt.Sprint("m", n))
		m.ID = fmt.Sprint(100 - n)
		m.Time = time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)
		messages = append(messages, m)
	}
	s.hops(tb, messages, messages, "messages in no order of time")
}

func orderUpdatedNeverGoesBack(tb testing.TB, s *subject) {
	s.append(tb, id, "a")
	first := s.info(tb, id)
	last := first
	peers := s.peers(tb, 2)
	for n := range 12 {
		s.opts.Advance(-5 * time.Second)
		switch p := peers[n%2]; n % 4 {
		case 0:
			p.append(tb, id, "b")
		case 1:
			p.setMeta(tb, id, session.Meta{SummaryThrough: n})
		case 2:
			p.save(tb, id, "x", "y")
		case 3:
			_, err := p.log.Truncate(s.ctx, id, 1, nil)
			must(tb, err, "Truncate")
		}
		now := s.info(tb, id)
		if now.Updated.Before(last.Updated) {
			tb.Errorf("Updated after write %d = %v, want not before %v", n, now.Updated, last.Updated)
		}
		want(tb, now.Created, first.Created, "Created after write %d", n)
		last = now
	}
	got := s.awaitList(tb, nil, id)
	if len(got) == 1 {
		want(tb, got[0].Updated, last.Updated, "Updated of List, and of Info")
	}
	s.opts.Advance(time.Hour)
	s.append(tb, id, "c")
	if now := s.info(tb, id); !now.Updated.After(last.Updated) {
		tb.Errorf("Updated an hour later = %v, want after %v", now.Updated, last.Updated)
	}
}
