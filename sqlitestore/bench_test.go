package sqlitestore_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/ratio"
	"github.com/holdfast-go/session/sqlitestore"
	"github.com/holdfast-go/session/storetest"
)

// Each benchmark runs rounds of a floor, which is what SQLite takes for the
// same bytes without a store, and of the store, one after the other. Both have a
// context that can be cancelled, as a server's calls do; the driver starts a
// goroutine a statement for it, which the store has found a way around.

func lines(b *testing.B, messages []session.Message) []string {
	b.Helper()
	all := make([]string, len(messages))
	for i, m := range messages {
		line, err := session.AppendMessage(nil, m)
		if err != nil {
			b.Fatal(err)
		}
		all[i] = string(line)
	}
	return all
}

func openBench(b *testing.B, durability sqlitestore.Durability) *sqlitestore.Store {
	b.Helper()
	s, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "sessions.db"), &sqlitestore.Options{Durability: durability})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// floor is one connection with the pragmas and the table of a store.
type floor struct {
	db     *sql.DB
	insert *sql.Stmt
	next   int64
}

func openFloor(b *testing.B, durability sqlitestore.Durability) *floor {
	b.Helper()
	name := map[sqlitestore.Durability]string{sqlitestore.DurabilityFull: "FULL", sqlitestore.DurabilityNormal: "NORMAL"}[durability]
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "floor.db")+
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)&_pragma=cache_size(-16384)&_pragma=wal_autocheckpoint(4000)&_pragma=synchronous("+name+")")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { db.Close() })
	_, err = db.Exec(`CREATE TABLE messages (key INTEGER PRIMARY KEY, rev TEXT, updated INTEGER, expires INTEGER, record BLOB, body TEXT) STRICT`)
	if err != nil {
		b.Fatal(err)
	}
	insert, err := db.Prepare(`INSERT INTO messages (key, body) VALUES (?, ?)`)
	if err != nil {
		b.Fatal(err)
	}
	return &floor{db: db, insert: insert, next: 1 << 32}
}

func (f *floor) add(b *testing.B, line string) {
	f.next++
	if _, err := f.insert.ExecContext(b.Context(), f.next, line); err != nil {
		b.Fatal(err)
	}
}

// ratio reports median(ours) / median(floor) of the times that rounds take.
func median[T int64 | time.Duration](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

func perDurability(b *testing.B, run func(b *testing.B, d sqlitestore.Durability)) {
	b.Run("Normal", func(b *testing.B) { run(b, sqlitestore.DurabilityNormal) })
	b.Run("Full", func(b *testing.B) { run(b, sqlitestore.DurabilityFull) })
}

func appendAll(b *testing.B, s session.Log, id string, messages []session.Message, batch int) {
	for part := range slices.Chunk(messages, batch) {
		if _, err := s.Append(b.Context(), id, part, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStore is the suite's.
func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, (&files{}).open)
}

// Appends one by one. Target: 1.35 at Normal, 1.15 at Full.
func BenchmarkAppend(b *testing.B) {
	perDurability(b, func(b *testing.B, d sqlitestore.Durability) {
		messages := storetest.Messages(400)
		s, f, all := openBench(b, d), openFloor(b, d), lines(b, messages)
		round := 0
		ratio.Report(b, "x-floor", func() {
			for _, l := range all {
				f.add(b, l)
			}
		}, func() { round++; appendAll(b, s, fmt.Sprint("s", round), messages, 1) })
	})
}

// Batches of four against four INSERTs. Target: 0.6.
func BenchmarkAppendFour(b *testing.B) {
	perDurability(b, func(b *testing.B, d sqlitestore.Durability) {
		messages := storetest.Messages(400)
		s, f, all := openBench(b, d), openFloor(b, d), lines(b, messages)
		round := 0
		ratio.Report(b, "x-floor", func() {
			for _, l := range all {
				f.add(b, l)
			}
		}, func() { round++; appendAll(b, s, fmt.Sprint("s", round), messages, 4) })
	})
}

// Appends behind 10,000 against the first ones. Target: 1.1.
func BenchmarkAppendGrowth(b *testing.B) {
	messages := storetest.Messages(100)
	s := openBench(b, sqlitestore.DurabilityNormal)
	appendAll(b, s, "long", storetest.Messages(10_000), 1000)
	round := 0
	ratio.Report(b, "x-first", func() { round++; appendAll(b, s, fmt.Sprint("short", round), messages, 1) },
		func() { appendAll(b, s, "long", messages, 1) })
}

// Bytes written by appends, without checkpoints. Target: 1.4.
func BenchmarkAppendBytes(b *testing.B) {
	messages := storetest.Messages(400)
	all := lines(b, messages)
	var o, f []int64
	for b.Loop() {
		s, fl := openBench(b, sqlitestore.DurabilityNormal), openFloor(b, sqlitestore.DurabilityNormal)
		before := written(b)
		appendAll(b, s, "s", messages, 1)
		between := written(b)
		for _, l := range all {
			fl.add(b, l)
		}
		o, f = append(o, between-before), append(f, written(b)-between)
	}
	b.ReportMetric(float64(median(o))/float64(median(f)), "x-floor")
}

// written returns how many bytes this process has written.
func written(b *testing.B) int64 {
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Skip(err)
	}
	for line := range bytes.Lines(data) {
		if s, ok := strings.CutPrefix(string(line), "wchar: "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Skip("no wchar")
	return 0
}

// A load of 1,000 against SELECT and encoding/json. Target: 0.45.
func BenchmarkLoad(b *testing.B) {
	messages := storetest.Messages(1000)
	s, f := openBench(b, sqlitestore.DurabilityNormal), openFloor(b, sqlitestore.DurabilityNormal)
	appendAll(b, s, "s", messages, 1000)
	for _, l := range lines(b, messages) {
		f.add(b, l)
	}
	query, err := f.db.Prepare(`SELECT body FROM messages WHERE key > ? AND key <= ? ORDER BY key`)
	if err != nil {
		b.Fatal(err)
	}
	ratio.Report(b, "x-floor", func() {
		rows, err := query.QueryContext(b.Context(), int64(1)<<32, int64(2)<<32)
		if err != nil {
			b.Fatal(err)
		}
		defer rows.Close()
		var got []ratio.JSONMessage
		for rows.Next() {
			var body []byte
			var m ratio.JSONMessage
			if err := rows.Scan(&body); err != nil {
				b.Fatal(err)
			}
			if err := json.Unmarshal(body, &m); err != nil {
				b.Fatal(err)
			}
			got = append(got, m)
		}
		if len(got) != 1000 {
			b.Fatal(len(got))
		}
	}, func() {
		if got, err := s.Load(b.Context(), "s"); err != nil || len(got) != 1000 {
			b.Fatal(len(got), err)
		}
	})
}

// The last 20 of 10,000 against all. Target: 0.02.
func BenchmarkReadLast(b *testing.B) {
	s := openBench(b, sqlitestore.DurabilityNormal)
	appendAll(b, s, "s", storetest.Messages(10_000), 10_000)
	ratio.Report(b, "x-floor", func() {
		if got, err := s.Load(b.Context(), "s"); err != nil || len(got) != 10_000 {
			b.Fatal(len(got), err)
		}
	}, func() {
		if got, err := s.Read(b.Context(), "s", &session.ReadOptions{Last: 20}); err != nil || len(got.Messages) != 20 {
			b.Fatal(len(got.Messages), err)
		}
	})
}

// Save of the stored 1,000 and one more against encoding them and two appends.
// Target: 1.
func BenchmarkSaveExtending(b *testing.B) {
	messages := storetest.Messages(4000)
	s, other := openBench(b, sqlitestore.DurabilityNormal), openBench(b, sqlitestore.DurabilityNormal)
	n := 1000
	if err := s.Save(b.Context(), "s", messages[:n]); err != nil {
		b.Fatal(err)
	}
	appendAll(b, other, "s", messages[:n], n)
	ratio.Report(b, "x-floor", func() {
		lines(b, messages[:n+1])
		appendAll(b, other, "s", messages[n:n+2], 1)
	}, func() {
		n++
		if err := s.Save(b.Context(), "s", messages[:n]); err != nil {
			b.Fatal(err)
		}
	})
}

// Eight goroutines on 1,000 sessions against one autocommit connection; more
// is better. Target: 1.4 at Normal, 2.7 at Full.
func BenchmarkAppendParallel(b *testing.B) {
	perDurability(b, func(b *testing.B, d sqlitestore.Durability) {
		const writers, sessions, each = 8, 1000, 250
		messages := storetest.Messages(4)
		all := lines(b, messages)
		ids := make([]string, sessions)
		for i := range ids {
			ids[i] = fmt.Sprint("user-", i%50, "/s", i)
		}
		var ours, floors []time.Duration
		for b.Loop() {
			s, f := openBench(b, d), openFloor(b, d)
			for i, id := range ids {
				appendAll(b, s, id, messages[:1], 1)
				f.next = int64(i+1) << 32
				f.add(b, all[0])
			}
			var next [sessions]int64
			start := time.Now()
			for i := range writers * each {
				n := i * 7 % sessions
				next[n]++
				f.next = int64(n+1)<<32 + next[n]
				f.add(b, all[i%4])
			}
			floors = append(floors, time.Since(start))
			start = time.Now()
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						n := (w*each + i) * 7 % sessions
						if _, err := s.Append(b.Context(), ids[n], messages[i%4:i%4+1], nil); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			ours = append(ours, time.Since(start))
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(median(floors))/float64(median(ours)), "times-floor")
	})
}
