package filestore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/ratio"
	"github.com/holdfast-go/session/storetest"
)

// Each benchmark measures the store against what the file system takes for the
// same bytes, or a JSON parser for the same messages, in the same run.

func openBench(b *testing.B, dir string, d Durability) *Store {
	b.Helper()
	s, err := New(dir, &Options{Durability: d})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func appendAll(b *testing.B, s *Store, id string, messages []session.Message, batch int) {
	b.Helper()
	for len(messages) > 0 {
		n := min(batch, len(messages))
		if _, err := s.Append(b.Context(), id, messages[:n], nil); err != nil {
			b.Fatal(err)
		}
		messages = messages[n:]
	}
}

func historyFile(dir, id string) string {
	d, _ := dirOf(id)
	return filepath.Join(dir, filepath.FromSlash(d), historyName)
}

// linesOf returns the lines that the store makes of messages that are appended
// one by one.
func storedLines(b *testing.B, messages []session.Message) [][]byte {
	b.Helper()
	dir := b.TempDir()
	appendAll(b, openBench(b, dir, DurabilityNormal), "s", messages, 1)
	data, err := os.ReadFile(historyFile(dir, "s"))
	if err != nil {
		b.Fatal(err)
	}
	return bytes.SplitAfter(data, []byte{'\n'})[:len(messages)]
}

func rawFile(b *testing.B) *os.File {
	b.Helper()
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "raw"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

// Appends one by one against write(2) of the same lines. Target: 2.5.
func BenchmarkAppend(b *testing.B) {
	benchmarkAppend(b, DurabilityNormal, 1000)
}

// The same with a sync each, against write(2) and fdatasync(2). Target: 1.1.
func BenchmarkAppendSync(b *testing.B) {
	benchmarkAppend(b, DurabilityFull, 100)
}

func benchmarkAppend(b *testing.B, d Durability, n int) {
	messages := storetest.Messages(n)
	lines := storedLines(b, messages)
	s, f := openBench(b, b.TempDir(), d), rawFile(b)
	appendAll(b, s, "s", messages[:4], 1)
	ratio.Report(b, "x-floor", func() {
		for _, l := range lines {
			if _, err := f.Write(l); err != nil {
				b.Fatal(err)
			}
			if d == DurabilityFull {
				if err := syncData(f); err != nil {
					b.Fatal(err)
				}
			}
		}
	}, func() { appendAll(b, s, "s", messages, 1) })
}

// Bytes on disk against the encoded messages. Target: 1.15.
func BenchmarkBytes(b *testing.B) {
	messages := storetest.Messages(10_000)
	encoded := 0
	for _, m := range messages {
		line, err := session.AppendMessage(nil, m)
		if err != nil {
			b.Fatal(err)
		}
		encoded += len(line)
	}
	var stored int64
	for b.Loop() {
		dir := b.TempDir()
		s := openBench(b, dir, DurabilityNormal)
		appendAll(b, s, "s", messages, 1)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		stored = 0
		for _, name := range []string{historyFile(dir, "s"), filepath.Join(dir, "s", metaName)} {
			info, err := os.Stat(name)
			if err != nil {
				b.Fatal(err)
			}
			stored += info.Size()
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(stored)/float64(encoded), "x-encoded")
}

// Appends behind 10,000 messages against appends behind none. Target: 1.1.
func BenchmarkAppendGrowth(b *testing.B) {
	messages := storetest.Messages(1000)
	s := openBench(b, b.TempDir(), DurabilityNormal)
	appendAll(b, s, "long", storetest.Messages(10_000), 1000)
	n := 0
	ratio.Report(b, "x-first", func() {
		n++
		appendAll(b, s, fmt.Sprint("short", n), messages, 1)
	}, func() { appendAll(b, s, "long", messages, 1) })
}

// jsonLine is what encoding/json decodes in the floor of the loads.
type jsonLine struct {
	TS      time.Time         `json:"ts"`
	Kind    string            `json:"kind"`
	Message ratio.JSONMessage `json:"message"`
}

// A load of 1,000 against os.ReadFile and encoding/json. Target: 0.4.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	s := openBench(b, dir, DurabilityNormal)
	appendAll(b, s, "s", storetest.Messages(1000), 1)
	load := func(s *Store) {
		if got, err := s.Load(b.Context(), "s"); err != nil || len(got) != 1000 {
			b.Fatal(len(got), err)
		}
	}
	floor := func() {
		data, err := os.ReadFile(historyFile(dir, "s"))
		if err != nil {
			b.Fatal(err)
		}
		var got []jsonLine
		for line := range bytes.Lines(data) {
			var l jsonLine
			if err := json.Unmarshal(line, &l); err != nil {
				b.Fatal(err)
			}
			got = append(got, l)
		}
		if len(got) != 1000 {
			b.Fatal(len(got))
		}
	}
	b.Run("Warm", func(b *testing.B) { ratio.Report(b, "x-json", floor, func() { load(s) }) })
	b.Run("Opening", func(b *testing.B) {
		ratio.Report(b, "x-json", floor, func() {
			s, err := New(dir, &Options{Durability: DurabilityNormal})
			if err != nil {
				b.Fatal(err)
			}
			load(s)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	})
}

// The last 20 of 100,000 against all. Target: 0.01.
func BenchmarkReadLast(b *testing.B) {
	dir := longHistory(b, 100_000)
	s := openBench(b, dir, DurabilityNormal)
	ratio.Report(b, "x-load", func() {
		if got, err := s.Load(b.Context(), "s"); err != nil || len(got) != 100_000 {
			b.Fatal(len(got), err)
		}
	}, func() { readLast(b, s, 100_000) })
}

func readLast(b *testing.B, s *Store, total int) {
	got, err := s.Read(b.Context(), "s", &session.ReadOptions{Last: 20})
	if err != nil || len(got.Messages) != 20 || got.First != total-19 {
		b.Fatal(len(got.Messages), got.First, err)
	}
}

// longHistory returns a directory with a session "s" of n messages, written one
// by one as far as its checkpoints go.
func longHistory(b *testing.B, n int) string {
	b.Helper()
	dir := b.TempDir()
	s := openBench(b, dir, DurabilityNormal)
	messages := storetest.Messages(1000)
	for range n/1000 - 1 {
		appendAll(b, s, "s", messages, 100)
	}
	appendAll(b, s, "s", messages, 1)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return dir
}

// Opening a store, reading the last 20 messages and appending one, behind
// 100,000 messages against behind 1,000.
func BenchmarkOpenLong(b *testing.B) {
	run := func(n int) func() {
		dir := longHistory(b, n)
		message := storetest.Messages(1)
		return func() {
			s, err := New(dir, &Options{Durability: DurabilityNormal})
			if err != nil {
				b.Fatal(err)
			}
			readLast(b, s, n)
			if _, err := s.Append(b.Context(), "s", message, nil); err != nil {
				b.Fatal(err)
			}
			n++
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	ratio.Report(b, "x-1000", run(1000), run(100_000))
}

// Eight goroutines that append to 1,000 sessions against the same with write(2)
// on files that are kept open. Target: at least 0.4 times as fast.
func BenchmarkAppendParallel(b *testing.B) {
	for _, open := range []int{0, 64} {
		b.Run(fmt.Sprint("MaxOpenFiles=", open), func(b *testing.B) {
			const writers, sessions, each = 8, 1000, 1000
			messages := storetest.Messages(4)
			lines := storedLines(b, messages)
			s, err := New(b.TempDir(), &Options{Durability: DurabilityNormal, MaxOpenFiles: open})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { s.Close() })
			ids, files := make([]string, sessions), make([]*os.File, sessions)
			dir := b.TempDir()
			for i := range ids {
				ids[i] = fmt.Sprint("user-", i%50, "/s", i)
				appendAll(b, s, ids[i], messages[:1], 1)
				if files[i], err = os.OpenFile(filepath.Join(dir, fmt.Sprint(i)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
					b.Fatal(err)
				}
				defer files[i].Close()
			}
			together := func(do func(session, i int) error) func() {
				return func() {
					var wg sync.WaitGroup
					for w := range writers {
						wg.Go(func() {
							for i := range each {
								if err := do((w*each+i)*7%sessions, i%4); err != nil {
									b.Error(err)
								}
							}
						})
					}
					wg.Wait()
				}
			}
			r := ratio.Report(b, "x-floor", together(func(n, i int) error {
				_, err := files[n].Write(lines[i])
				return err
			}), together(func(n, i int) error {
				_, err := s.Append(b.Context(), ids[n], messages[i:i+1], nil)
				return err
			}))
			b.ReportMetric(1/r, "times-floor")
		})
	}
}

// BenchmarkStore is the suite's.
func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(tb testing.TB) session.Store {
		s, err := New(tb.TempDir(), &Options{Durability: DurabilityNormal})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { s.Close() })
		return s
	})
}
