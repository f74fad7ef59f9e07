package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// Messages returns n messages of a conversation, the same ones each time: user
// text of 300 bytes, assistant text of 700, a tool call of 200 and a tool
// result of 2,000, again and again.
func Messages(n int) []session.Message {
	messages := make([]session.Message, n)
	for i := range messages {
		call := fmt.Sprint("call-", i/4)
		switch i % 4 {
		case 0:
			messages[i] = session.UserText(filler(300, i))
		case 1:
			messages[i] = session.AssistantText(filler(700, i))
		case 2:
			input := fmt.Sprintf(`{"query": "%s"}`, filler(187, i))
			messages[i] = session.NewMessage(session.RoleAssistant, session.ToolUse(call, "search", input))
		default:
			messages[i] = session.ToolResults(session.ToolResult(call, "search", filler(2000, i)))
		}
	}
	return messages
}

const prose = "Once more the store was asked for what it had been told, and it told all of it, in order. "

// filler returns n bytes of text, another for each i.
func filler(n, i int) string {
	text := fmt.Sprintf("%d: ", i)
	return (text + strings.Repeat(prose, n/len(prose)+1))[:n]
}

// Benchmark measures a store with the workloads of agents, on [Messages]. open
// returns an empty store each time. Workloads that the store has no method for
// are skipped. Names are the same for every store, so that results compare.
func Benchmark(b *testing.B, open func(testing.TB) session.Store) {
	for _, w := range []struct {
		name string
		run  func(b *testing.B, s *subject)
	}{
		{"AppendOne", func(b *testing.B, s *subject) { benchmarkAppend(b, s, 1) }},
		{"AppendBatchOf4", func(b *testing.B, s *subject) { benchmarkAppend(b, s, 4) }},
		{"Load1000", benchmarkLoad},
		{"Last20Of10000", benchmarkLast},
		{"SaveOneNewOf1000", benchmarkSave},
		{"Append8Writers1000Sessions", benchmarkWriters},
		{"List1000", benchmarkList},
	} {
		b.Run(w.name, func(b *testing.B) {
			s := newSubject(b, open(b), Options{patience: time.Hour})
			b.ReportAllocs()
			w.run(b, s)
		})
	}
}

// sessionEnd is how long benchmarks let a session grow before they begin
// another, so that the result does not depend on b.N.
const sessionEnd = 1000

func (s *subject) needLog(b *testing.B) {
	if s.log == nil {
		b.Skipf("%T has no session.Log", s.store)
	}
}

func benchmarkAppend(b *testing.B, s *subject, batch int) {
	s.needLog(b)
	messages := Messages(sessionEnd)
	for n := 0; b.Loop(); n += batch {
		at := n % sessionEnd
		_, err := s.log.Append(s.ctx, fmt.Sprint("s", n/sessionEnd), messages[at:at+batch], nil)
		must(b, err, "Append")
	}
}

func benchmarkLoad(b *testing.B, s *subject) {
	must(b, s.store.Save(s.ctx, id, Messages(1000)), "Save")
	for b.Loop() {
		history, err := s.store.Load(s.ctx, id)
		must(b, err, "Load")
		if len(history) != 1000 {
			b.Fatalf("Load: %d messages, want 1000", len(history))
		}
	}
}

func benchmarkLast(b *testing.B, s *subject) {
	s.needLog(b)
	must(b, s.store.Save(s.ctx, id, Messages(10_000)), "Save")
	for b.Loop() {
		snap, err := s.log.Read(s.ctx, id, &session.ReadOptions{Last: 20})
		must(b, err, "Read")
		if len(snap.Messages) != 20 || snap.First != 9981 {
			b.Fatalf("Read(Last: 20): %d messages from %d, want 20 from 9981", len(snap.Messages), snap.First)
		}
	}
}

// benchmarkSave saves a history of 1,000 messages and more, each time with one
// new.
func benchmarkSave(b *testing.B, s *subject) {
	messages := Messages(2 * sessionEnd)
	for n := 0; b.Loop(); n++ {
		id := fmt.Sprint("s", n/sessionEnd)
		if n%sessionEnd == 0 {
			b.StopTimer()
			must(b, s.store.Save(s.ctx, id, messages[:sessionEnd]), "Save")
			b.StartTimer()
		}
		must(b, s.store.Save(s.ctx, id, messages[:sessionEnd+n%sessionEnd+1]), "Save")
	}
}

func benchmarkWriters(b *testing.B, s *subject) {
	s.needLog(b)
	const writers, sessions = 8, 1000
	messages := Messages(sessionEnd)
	var next atomic.Int64
	b.ResetTimer()
	s.together(b, writers, func(int) error {
		for {
			n := int(next.Add(1)) - 1
			if n >= b.N {
				return nil
			}
			at := n / sessions % sessionEnd
			if _, err := s.log.Append(s.ctx, fmt.Sprint("s", n%sessions), messages[at:at+1], nil); err != nil {
				return err
			}
		}
	})
}

func benchmarkList(b *testing.B, s *subject) {
	if s.catalog == nil {
		b.Skipf("%T has no session.Catalog", s.store)
	}
	for n := range 1000 {
		must(b, s.store.Save(s.ctx, fmt.Sprintf("u%d/s%d", n%10, n), Messages(4)), "Save")
	}
	for b.Loop() {
		n := 0
		for _, err := range s.catalog.List(s.ctx, nil) {
			must(b, err, "List")
			n++
		}
		if n != 1000 {
			b.Fatalf("List: %d sessions, want 1000", n)
		}
	}
}
