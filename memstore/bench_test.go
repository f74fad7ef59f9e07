package memstore_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/ratio"
	"github.com/holdfast-go/session/memstore"
	"github.com/holdfast-go/session/storetest"
)

// bulkCopy copies messages of one text, call or text result each as a person
// would who knows that they are no more than that: a block of structs per kind
// and one of bytes.
func bulkCopy(messages []session.Message) []session.Message {
	var texts, uses, results, size int
	for _, m := range messages {
		switch b := m.Content[0].(type) {
		case *session.TextBlock:
			texts++
		case *session.ToolUseBlock:
			uses++
			size += len(b.Input)
		case *session.ToolResultBlock:
			results++
			texts++
		}
	}
	out := slices.Clone(messages)
	content := make([]session.Block, 0, texts+uses+results)
	textSlab := make([]session.TextBlock, 0, texts)
	useSlab := make([]session.ToolUseBlock, 0, uses)
	resultSlab := make([]session.ToolResultBlock, 0, results)
	bytes := make([]byte, 0, size)
	one := func(b session.Block) []session.Block {
		content = append(content, b)
		return content[len(content)-1 : len(content) : len(content)]
	}
	text := func(b *session.TextBlock) session.Block {
		textSlab = append(textSlab, *b)
		return &textSlab[len(textSlab)-1]
	}
	for i, m := range messages {
		switch b := m.Content[0].(type) {
		case *session.TextBlock:
			out[i].Content = one(text(b))
		case *session.ToolUseBlock:
			useSlab = append(useSlab, *b)
			u := &useSlab[len(useSlab)-1]
			bytes = append(bytes, b.Input...)
			u.Input = bytes[len(bytes)-len(b.Input) : len(bytes) : len(bytes)]
			out[i].Content = one(u)
		case *session.ToolResultBlock:
			resultSlab = append(resultSlab, *b)
			r := &resultSlab[len(resultSlab)-1]
			r.Content = one(text(b.Content[0].(*session.TextBlock)))
			out[i].Content = one(r)
		}
	}
	return out
}

var sink []session.Message

func BenchmarkSaveLoad100(b *testing.B) {
	s := memstore.New(nil)
	messages := storetest.Messages(100)
	const times = 2000
	saveLoad := func() {
		if err := s.Save(b.Context(), "s", messages); err != nil {
			b.Fatal(err)
		}
		var err error
		if sink, err = s.Load(b.Context(), "s"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(testing.AllocsPerRun(100, saveLoad), "allocs/both")
	ratio.Report(b, "x-bulk-copy", func() {
		for range times {
			sink = bulkCopy(messages)
			sink = bulkCopy(sink)
		}
	}, func() {
		for range times {
			saveLoad()
		}
	})
}

func BenchmarkAppend1000(b *testing.B) {
	messages := storetest.Messages(1000)
	const times = 20
	ratio.Report(b, "x-hand-copy", func() {
		for range times {
			history := make([]session.Message, 0, len(messages))
			for i := range messages {
				history = append(history, bulkCopy(messages[i:i+1])...)
			}
			sink = history
		}
	}, func() {
		for range times {
			s := memstore.New(nil)
			for i := range messages {
				if _, err := s.Append(b.Context(), "s", messages[i:i+1], nil); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkAppendGrowth(b *testing.B) {
	messages := storetest.Messages(100)
	const sessions = 50
	appendAll := func(s *memstore.Store) {
		for n := range sessions {
			for i := range messages {
				if _, err := s.Append(b.Context(), fmt.Sprint(n), messages[i:i+1], nil); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	long := memstore.New(nil)
	history := storetest.Messages(9900)
	for n := range sessions {
		if err := long.Save(b.Context(), fmt.Sprint(n), history); err != nil {
			b.Fatal(err)
		}
		if _, err := long.Append(b.Context(), fmt.Sprint(n), messages[:1], nil); err != nil {
			b.Fatal(err)
		}
	}
	ratio.Report(b, "x-short", func() { appendAll(memstore.New(nil)) }, func() { appendAll(long) })
}

func BenchmarkEightGoroutines(b *testing.B) {
	messages := storetest.Messages(20)
	const sessions = 1000
	work := func(goroutines int) {
		s := memstore.New(nil)
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range messages {
					for n := g; n < sessions; n += goroutines {
						if _, err := s.Append(b.Context(), fmt.Sprint(n), messages[i:i+1], nil); err != nil {
							b.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
	}
	ratio.Report(b, "x-one-goroutine-time", func() { work(1) }, func() { work(8) })
}
