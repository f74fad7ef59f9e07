package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/redisstore"
)

// openAt opens a store on a client that ends with the test.
func openAt(tb testing.TB, client redis.UniversalClient, opts *redisstore.Options) *redisstore.Store {
	tb.Helper()
	s, err := redisstore.New(client, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

// mustAppend appends a text.
func mustAppend(tb testing.TB, s session.Log, id, text string) {
	tb.Helper()
	if _, err := s.Append(tb.Context(), id, []session.Message{session.UserText(text)}, nil); err != nil {
		tb.Fatalf("Append to %q: %v", id, err)
	}
}

// texts returns the history of a session.
func texts(tb testing.TB, s session.Store, id string) []string {
	tb.Helper()
	messages, err := s.Load(tb.Context(), id)
	if err != nil {
		tb.Fatalf("Load of %q: %v", id, err)
	}
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = m.Text()
	}
	return all
}

// writers append to one session, each its own numbers from 0 on, while
// something happens to the servers. An append that failed is made again if it
// does not show. A reader watches that the history never gets shorter.
type writers struct {
	id       string
	failures atomic.Int64 // of appends and reads
	appended atomic.Int64

	stop    chan struct{}
	running sync.WaitGroup
	counts  []int // by writer, after end
}

// begin lets one writer append through each store.
func begin(tb testing.TB, id string, stores []*redisstore.Store) *writers {
	tb.Helper()
	w := &writers{id: id, stop: make(chan struct{}), counts: make([]int, len(stores))}
	for i, s := range stores {
		w.running.Go(func() { w.counts[i] = w.write(tb, i, s) })
	}
	w.running.Go(func() { w.watch(tb, stores[0]) })
	tb.Cleanup(w.halt)
	return w
}

func (w *writers) write(tb testing.TB, i int, s *redisstore.Store) int {
	for n := 0; ; {
		select {
		case <-w.stop:
			return n
		default:
		}
		text := fmt.Sprint(i, " ", n)
		_, err := s.Append(tb.Context(), w.id, []session.Message{session.UserText(text)}, nil)
		if err != nil {
			w.failures.Add(1)
			if err := w.resolve(tb, s, text, err); errors.Is(err, errMissing) {
				continue
			} else if err != nil {
				tb.Error(err)
				return n
			}
		}
		w.appended.Add(1)
		n++
	}
}

var errMissing = errors.New("the message is not there")

// resolve finds out whether a message is there whose append has failed.
func (w *writers) resolve(tb testing.TB, s *redisstore.Store, text string, failed error) error {
	if errors.Is(failed, session.ErrCorrupt) {
		return failed
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) && tb.Context().Err() == nil; {
		// A commit of any kind: behind it, the one that failed can't come any more.
		_, err := s.Update(tb.Context(), w.id, func(m *session.Meta) error { m.Cost++; return nil })
		var messages []session.Message
		if err == nil || errors.Is(err, session.ErrNotFound) {
			messages, err = s.Load(tb.Context(), w.id)
		}
		if err != nil {
			w.failures.Add(1)
			failed = err
			continue
		}
		for _, m := range messages {
			if m.Text() == text {
				return nil
			}
		}
		return errMissing
	}
	return fmt.Errorf("nothing can be read for a minute: %w", failed)
}

func (w *writers) watch(tb testing.TB, s *redisstore.Store) {
	longest := 0
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		snapshot, err := s.Read(tb.Context(), w.id, &session.ReadOptions{Last: 1})
		switch {
		case errors.Is(err, session.ErrCorrupt):
			tb.Errorf("a reader was told of damage: %v", err)
			return
		case err != nil:
			w.failures.Add(1)
		case snapshot.Total < longest:
			tb.Errorf("a history of %d messages was read as one of %d", longest, snapshot.Total)
			return
		}
		longest = max(longest, snapshot.Total)
	}
}

// until waits until the writers have appended n more messages.
func (w *writers) until(tb testing.TB, n int64) {
	tb.Helper()
	goal := w.appended.Load() + n
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	for w.appended.Load() < goal && !tb.Failed() {
		select {
		case <-ctx.Done():
			tb.Fatalf("the writers are stuck at %d appends", w.appended.Load())
		case <-time.After(time.Millisecond):
		}
	}
}

func (w *writers) halt() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.running.Wait()
}

// end lets the writers end, and checks that the history has each message once,
// each writer's in order.
func (w *writers) end(tb testing.TB, s session.Store) {
	tb.Helper()
	w.halt()
	checkHistory(tb, texts(tb, s, w.id), w.counts)
	tb.Logf("%d appends, %d calls failed", w.appended.Load(), w.failures.Load())
}

// checkHistory checks that a history has of each writer the numbers up to its
// count, in order.
func checkHistory(tb testing.TB, history []string, counts []int) {
	tb.Helper()
	next := make([]int, len(counts))
	for at, text := range history {
		writer, number, _ := strings.Cut(text, " ")
		i, err := strconv.Atoi(writer)
		n, nErr := strconv.Atoi(number)
		if err != nil || nErr != nil || i >= len(counts) {
			tb.Fatalf("message %d is %q, which nobody wrote", at+1, text)
		}
		if n != next[i] {
			tb.Fatalf("message %d is writer %d's %d, want its %d", at+1, i, n, next[i])
		}
		next[i]++
	}
	for i, n := range next {
		if n != counts[i] {
			tb.Errorf("%d messages of writer %d, want %d", n, i, counts[i])
		}
	}
}
