package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/dynamostore"
	"github.com/holdfast-go/session/internal/dynamotest"
	"github.com/holdfast-go/session/storetest"
)

// faulty opens a store whose calls go through faults.
func faulty(t *testing.T, f *tables, table string, faults *dynamotest.Faults) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.New(f.server.Client(faults.Wrap), table, &f.opts)
	check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// everyFault is a bit of everything.
var everyFault = map[dynamotest.Fault]float64{
	dynamotest.NotSent:         0.02,
	dynamotest.ReplyLost:       0.05,
	dynamotest.Throughput:      0.02,
	dynamotest.Throttling:      0.02,
	dynamotest.ServerError:     0.02,
	dynamotest.ServerErrorDone: 0.03,
	dynamotest.Slow:            0.02,
	dynamotest.Partial:         0.2,
}

// Clients whose calls go wrong agree on one history, whether their stores have
// the time to try again or give up at once.
func TestLinearizableUnderFaults(t *testing.T) {
	for name, test := range map[string]struct {
		opts  dynamostore.Options
		share float64 // of everyFault
	}{
		"Patient": {share: 1},
		// A write of which nobody knows whether it was made is hard to judge.
		"Impatient": {opts: dynamostore.Options{RetryTime: time.Nanosecond, Uncompressed: true}, share: 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			shares := make(map[dynamotest.Fault]float64)
			for fault, share := range everyFault {
				shares[fault] = share * test.share
			}
			dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
				f := &tables{server: s, opts: test.opts}
				table := s.Table(t, createTable)
				var all []*dynamotest.Faults
				var stores []session.Log
				for i := range uint64(3) {
					faults := &dynamotest.Faults{Choose: dynamotest.Random(i, shares), Delay: 5 * time.Millisecond}
					all = append(all, faults)
					stores = append(stores, faulty(t, f, table, faults))
				}
				rounds := 25
				if testing.Short() {
					rounds = 5
				}
				storetest.Linearizable(t, stores, &storetest.LinearOptions{Rounds: rounds, AllowFailures: true})
				for fault := range everyFault {
					n := 0
					for _, f := range all {
						n += f.Count(fault)
					}
					t.Logf("%v: %d calls", fault, n)
					if n == 0 && fault != dynamotest.Partial {
						t.Errorf("%v never happened", fault)
					}
				}
			})
		})
	}
}

// No append is lost or made twice when replies are.
func TestAppendsWithLostReplies(t *testing.T) {
	const sessions, writers = 12, 4 // a session has one writer
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		total := 10_000
		if s.Embedded || testing.Short() {
			total = 2000
		}
		f := &tables{server: s}
		table := s.Table(t, createTable)
		var wg sync.WaitGroup
		lost := 0
		faults := make([]*dynamotest.Faults, writers)
		for w := range writers {
			faults[w] = &dynamotest.Faults{Choose: dynamotest.Random(uint64(w), map[dynamotest.Fault]float64{dynamotest.ReplyLost: 0.05})}
			store := faulty(t, f, table, faults[w])
			wg.Go(func() {
				for n := w; n < total; n += writers {
					if _, err := store.Append(t.Context(), fmt.Sprint("s", n%sessions), user(fmt.Sprint(n)), nil); err != nil {
						t.Errorf("append %d: %v", n, err)
					}
				}
			})
		}
		wg.Wait()
		for _, f := range faults {
			lost += f.Count(dynamotest.ReplyLost)
		}
		reader := f.in(t, table)
		seen := make(map[string]int)
		for i := range sessions {
			for _, text := range texts(t, reader, fmt.Sprint("s", i)) {
				seen[text]++
			}
		}
		n := 0
		for text, times := range seen {
			if n += times; times != 1 {
				t.Errorf("message %s is stored %d times", text, times)
			}
		}
		if n != total {
			t.Errorf("%d messages are stored, want %d", n, total)
		}
		t.Logf("%d appends, %d replies lost, %d messages stored", total, lost, n)
		if lost < total/25 {
			t.Errorf("only %d replies were lost", lost)
		}
	})
}

// batchLines are lines that fill a number of items: each is too large to share
// one.
func batchLines(n int) []session.Message {
	messages := make([]session.Message, n)
	for i := range messages {
		messages[i] = session.UserText(fmt.Sprint(i, " ") + strings.Repeat("x", 33<<10))
	}
	return messages
}

func numbersOf(t *testing.T, s session.Store, id string) (all []string) {
	t.Helper()
	for _, text := range texts(t, s, id) {
		number, _, _ := strings.Cut(text, " ")
		all = append(all, number)
	}
	return all
}

func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// A batch of which a part is left unprocessed is not taken for done.
func TestUnprocessedItems(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		f := &tables{server: s}
		table := s.Table(t, createTable)
		for _, n := range []int{10, 26, 60} {
			id := fmt.Sprint("s", n)
			faults := &dynamotest.Faults{}
			faults.Choose = func(c dynamotest.Call) dynamotest.Fault {
				if c.N%3 != 0 {
					return dynamotest.Partial
				}
				return dynamotest.None
			}
			store := faulty(t, f, table, faults)
			_, err := store.Append(t.Context(), id, batchLines(n), nil)
			check(t, err)
			if n := faults.Count(dynamotest.Partial); n == 0 {
				t.Fatal("no batch was left unprocessed")
			}
			if got := numbersOf(t, f.in(t, table), id); !slices.Equal(got, numbers(n)) {
				t.Errorf("%d messages: %v are stored", n, got)
			}
			if calls := faults.Calls("BatchWriteItem"); n > 25 && calls < 2 {
				t.Errorf("%d messages took %d calls, want more", n, calls)
			}
			check(t, store.Delete(t.Context(), id, nil))
			if got := sortKeys(t, s.Client(), table, ":"+id); len(got) > 1 {
				t.Errorf("after Delete these are left, beside a tombstone: %v", got)
			}
			if got := numbersOf(t, f.in(t, table), id); len(got) > 0 {
				t.Errorf("after Delete %v are stored", got)
			}
		}
	})
}

// Items that are never processed are an error, in the time that there is, and
// what was stored before stays.
func TestNeverProcessed(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		table := s.Table(t, createTable)
		f := &tables{server: s, opts: dynamostore.Options{RetryTime: 100 * time.Millisecond}}
		add(t, f.in(t, table), "s", "before")
		never := func(c dynamotest.Call) dynamotest.Fault {
			if c.Operation == "BatchWriteItem" {
				return dynamotest.Throttling
			}
			return dynamotest.None
		}
		store := faulty(t, f, table, &dynamotest.Faults{Choose: never})
		if _, err := store.Append(t.Context(), "s", batchLines(60), nil); err == nil {
			t.Error("Append of what is never processed = nil, want an error")
		}
		f.opts.RetryTime = time.Hour
		patient := faulty(t, f, table, &dynamotest.Faults{Choose: never})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := patient.Append(ctx, "s", batchLines(60), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Append with a deadline = %v, want DeadlineExceeded", err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("Append with a deadline of 300 ms took %v", took)
		}
		reader := f.in(t, table)
		if got := texts(t, reader, "s"); len(got) != 1 || got[0] != "before" {
			t.Errorf("stored is %q, want what was there before", got)
		}
		add(t, reader, "s", "after")
		if got := texts(t, f.in(t, table), "s"); len(got) != 2 {
			t.Errorf("stored is %q, want two messages", got)
		}
	})
}

// Keys that are left unprocessed are asked for again, or a list would miss
// sessions.
func TestUnprocessedKeys(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		f := &tables{server: s}
		table := s.Table(t, createTable)
		store := f.in(t, table)
		want := make(map[string]bool)
		for i := range 40 {
			id := fmt.Sprint("s", i)
			add(t, store, id, "x")
			want[id] = true
		}
		faults := &dynamotest.Faults{Choose: func(c dynamotest.Call) dynamotest.Fault {
			if c.N%4 != 0 {
				return dynamotest.Partial
			}
			return dynamotest.None
		}}
		for _, id := range ids(t, faulty(t, f, table, faults), nil) {
			delete(want, id)
		}
		if len(want) > 0 {
			t.Errorf("List misses %v", want)
		}
		if faults.Count(dynamotest.Partial) == 0 {
			t.Error("no batch was left unprocessed")
		}
	})
}

// A delete whose reply is lost does not delete what was created since, and a
// creation whose reply is lost does not create twice.
func TestLostRepliesAndRecreation(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		f := &tables{server: s}
		table := s.Table(t, createTable)
		peer := f.in(t, table)
		interfere := func() {}
		var puts int
		faults := &dynamotest.Faults{Choose: func(c dynamotest.Call) dynamotest.Fault {
			if c.Operation != "PutItem" && c.Operation != "UpdateItem" || !strings.Contains(string(c.Body), `"h"`) {
				return dynamotest.None
			}
			if puts++; puts == 1 {
				return dynamotest.ReplyLost
			}
			interfere()
			return dynamotest.None
		}}
		store := faulty(t, f, table, faults)

		interfere = func() { check(t, peer.Delete(t.Context(), "a", nil)) }
		// What became of it can't be told any more, so an error is right too.
		_, _ = store.Append(t.Context(), "a", user("once"), nil)
		if got := texts(t, peer, "a"); len(got) > 0 {
			t.Errorf("after a creation, and a Delete before its second try, %q is stored, want nothing", got)
		}

		add(t, peer, "b", "old")
		puts, interfere = 0, func() { add(t, peer, "b", "new") }
		check(t, store.Delete(t.Context(), "b", nil))
		if got := texts(t, peer, "b"); !slices.Equal(got, []string{"new"}) {
			t.Errorf("after a Delete, and a creation before its second try, %q is stored, want the new session", got)
		}
	})
}

// A process that dies in a write, wherever that is, leaves a session that is as
// before or as after, and nothing for ever.
func TestDeathInAWrite(t *testing.T) {
	x, y := strings.Repeat("x", 20<<10), strings.Repeat("y", 20<<10)
	first := []string{"one", "two", "three"}
	for name, write := range map[string]struct {
		make    func(ctx context.Context, s session.Backend) error
		becomes string
	}{
		"Append": {func(ctx context.Context, s session.Backend) error {
			_, err := s.Append(ctx, "s", batchLines(30), nil)
			return err
		}, fmt.Sprint(x, append(slices.Clone(first), textsOf(batchLines(30))...))},
		"Save":   {func(ctx context.Context, s session.Backend) error { return s.Save(ctx, "s", batchLines(3)) }, fmt.Sprint(x, textsOf(batchLines(3)))},
		"Delete": {func(ctx context.Context, s session.Backend) error { return s.Delete(ctx, "s", nil) }, "absent"},
		"Truncate": {func(ctx context.Context, s session.Backend) error {
			_, err := s.Truncate(ctx, "s", 1, nil)
			return err
		}, fmt.Sprint(x, first[:1])},
		"Update": {func(ctx context.Context, s session.Backend) error {
			_, err := s.Update(ctx, "s", func(m *session.Meta) error { m.Summary = y; return nil })
			return err
		}, fmt.Sprint(y, first)},
	} {
		t.Run(name, func(t *testing.T) {
			f := &tables{server: dynamotest.Minidyn(), opts: dynamostore.Options{RetryTime: time.Nanosecond}}
			for die := 1; ; die++ {
				table := f.server.Table(t, createTable)
				before := f.in(t, table)
				add(t, before, "s", first...)
				_, err := before.Update(t.Context(), "s", func(m *session.Meta) error { m.Summary = x; return nil })
				check(t, err)
				old := stateOf(t, before)
				dead := false
				faults := &dynamotest.Faults{Choose: func(c dynamotest.Call) dynamotest.Fault {
					if dead = dead || c.N >= die; dead {
						return dynamotest.NotSent
					}
					return dynamotest.None
				}}
				err = write.make(t.Context(), faulty(t, f, table, faults))
				after := f.in(t, table)
				if got := stateOf(t, after); got != write.becomes && (err == nil || got != old) {
					t.Errorf("after a %s that died at call %d (%v) the session is %.100s", name, die, err, got)
				}
				// Later writes clean up: what is left is what is alive.
				check(t, after.Save(t.Context(), "s", user("last")))
				check(t, f.in(t, table).Save(t.Context(), "s", user("the very last")))
				if got := texts(t, f.in(t, table), "s"); !slices.Equal(got, []string{"the very last"}) {
					t.Errorf("after a %s that died at call %d, and a Save, stored is %q", name, die, got)
				}
				if !dead {
					return
				}
			}
		})
	}
}

// stateOf returns what a session is, as text.
func stateOf(t *testing.T, s session.Backend) string {
	t.Helper()
	info, err := s.Info(t.Context(), "s")
	if errors.Is(err, session.ErrNotFound) {
		return "absent"
	}
	check(t, err)
	return fmt.Sprint(info.Meta.Summary, texts(t, s, "s"))
}
