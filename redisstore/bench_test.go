package redisstore_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/ratio"
	"github.com/holdfast-go/session/internal/redistest"
	"github.com/holdfast-go/session/redisstore"
	"github.com/holdfast-go/session/storetest"
)

// The floors are what Redis takes for the same bytes, by bare commands of the
// same client over TCP.

// BenchmarkStore is the suite's.
func BenchmarkStore(b *testing.B) {
	s := &stores{server: redistest.Start(b)}
	storetest.Benchmark(b, s.open)
}

func openBench(b *testing.B) (*redisstore.Store, redis.UniversalClient, string) {
	b.Helper()
	server := redistest.Start(b)
	prefix := server.Prefix(b)
	client := server.Client(b)
	return openAt(b, client, &redisstore.Options{Prefix: prefix}), client, prefix + "floor"
}

func encode(b *testing.B, messages []session.Message) []any {
	b.Helper()
	lines := make([]any, len(messages))
	for i, m := range messages {
		line, err := session.AppendMessage(nil, m)
		if err != nil {
			b.Fatal(err)
		}
		lines[i] = line
	}
	return lines
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func appendOneByOne(b *testing.B, s session.Log, id string, messages []session.Message) {
	for i := range messages {
		_, err := s.Append(b.Context(), id, messages[i:i+1], nil)
		must(b, err)
	}
}

// Appends one by one against RPUSH. Target: 1.65.
func BenchmarkAppend(b *testing.B) {
	s, client, floor := openBench(b)
	messages := storetest.Messages(100)
	lines := encode(b, messages)
	ratio.Report(b, "x-RPUSH", func() {
		for _, l := range lines {
			must(b, client.RPush(b.Context(), floor, l).Err())
		}
	}, func() { appendOneByOne(b, s, "s", messages) })
}

// A batch of 100 against a pipeline of 100 RPUSHes. Target: 1.3.
func BenchmarkAppendBatch(b *testing.B) {
	s, client, floor := openBench(b)
	messages := storetest.Messages(100)
	lines := encode(b, messages)
	ratio.Report(b, "x-pipeline", func() {
		_, err := client.Pipelined(b.Context(), func(p redis.Pipeliner) error {
			for _, l := range lines {
				p.RPush(b.Context(), floor, l)
			}
			return nil
		})
		must(b, err)
	}, func() {
		_, err := s.Append(b.Context(), "s", messages, nil)
		must(b, err)
	})
}

// Appends to 10,000 messages against appends to few. Target: 1.1.
func BenchmarkAppendGrowth(b *testing.B) {
	s, _, _ := openBench(b)
	messages := storetest.Messages(100)
	for part := range slices.Chunk(storetest.Messages(10_000), 1000) {
		_, err := s.Append(b.Context(), "long", part, nil)
		must(b, err)
	}
	round := 0
	ratio.ReportFresh(b, "x-few", func() (floor, ours func()) {
		round++
		short := fmt.Sprint("short", round)
		appendOneByOne(b, s, short, messages[:10])
		return func() { appendOneByOne(b, s, short, messages) }, func() { appendOneByOne(b, s, "long", messages) }
	})
}

// A load of 1,000 against LRANGE and encoding/json. Target: 0.5.
func BenchmarkLoad(b *testing.B) {
	s, client, floor := openBench(b)
	messages := storetest.Messages(1000)
	_, err := s.Append(b.Context(), "s", messages, nil)
	must(b, err)
	must(b, client.RPush(b.Context(), floor, encode(b, messages)...).Err())
	ratio.Report(b, "x-LRANGE", func() {
		lines, err := client.LRange(b.Context(), floor, 0, -1).Result()
		must(b, err)
		all := make([]ratio.JSONMessage, len(lines))
		for i, l := range lines {
			must(b, json.Unmarshal([]byte(l), &all[i]))
		}
	}, func() {
		if got, err := s.Load(b.Context(), "s"); err != nil || len(got) != 1000 {
			b.Fatal(len(got), err)
		}
	})
}

// The last 20 of 10,000 against all. Target: 0.02.
func BenchmarkReadLast(b *testing.B) {
	s, _, _ := openBench(b)
	_, err := s.Append(b.Context(), "s", storetest.Messages(10_000), nil)
	must(b, err)
	ratio.Report(b, "x-all", func() {
		if got, err := s.Load(b.Context(), "s"); err != nil || len(got) != 10_000 {
			b.Fatal(len(got), err)
		}
	}, func() {
		if got, err := s.Read(b.Context(), "s", &session.ReadOptions{Last: 20}); err != nil || len(got.Messages) != 20 {
			b.Fatal(len(got.Messages), err)
		}
	})
}

// Eight goroutines on sessions of their own against as many that call RPUSH, in
// messages a second; more is better. Target: 0.7.
func BenchmarkAppendParallel(b *testing.B) {
	const writers, each = 8, 200
	s, client, floor := openBench(b)
	messages := storetest.Messages(each)
	lines := encode(b, messages)
	inParallel := func(run func(w int)) {
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { run(w) })
		}
		wg.Wait()
	}
	// x is our time over the floor's, so throughput is its inverse.
	x := ratio.Report(b, "x-time", func() {
		inParallel(func(w int) {
			for _, l := range lines {
				if err := client.RPush(b.Context(), fmt.Sprint(floor, w), l).Err(); err != nil {
					b.Error(err)
				}
			}
		})
	}, func() {
		inParallel(func(w int) {
			for i := range messages {
				if _, err := s.Append(b.Context(), fmt.Sprint("s", w), messages[i:i+1], nil); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.ReportMetric(1/x, "x-throughput")
}
