package redisstore_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/redistest"
	"github.com/holdfast-go/session/redisstore"
)

// scripts begin the requests that commit.
var scripts = []string{"evalsha", "eval", "asking"}

// quick lets a client try again soon.
func quick(o *redis.UniversalOptions) {
	o.MinRetryBackoff, o.MaxRetryBackoff = time.Millisecond, 8*time.Millisecond
}

// stubborn lets a client try so often that not all tries fail by chance.
func stubborn(o *redis.UniversalOptions) {
	quick(o)
	o.MaxRetries, o.MaxRedirects = 8, 8
}

// appendAll lets writers append to one session, and checks the history.
func appendAll(t *testing.T, s []*redisstore.Store, each int) {
	t.Helper()
	counts := make([]int, len(s))
	var wg sync.WaitGroup
	for w := range s {
		wg.Go(func() {
			for n := range each {
				if _, err := s[w].Append(t.Context(), "s", []session.Message{session.UserText(fmt.Sprint(w, " ", n))}, nil); err != nil {
					t.Errorf("Append: %v", err)
					return
				}
				counts[w]++
			}
		})
	}
	wg.Wait()
	checkHistory(t, texts(t, s[0], "s"), counts)
}

func TestAppendsWhoseRepliesAreLost(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 appends: left out by -short")
	}
	const writers, each, share = 4, 2500, 0.05
	onEach(t, func(t *testing.T, server *redistest.Server) {
		faults := &redistest.Faults{Choose: redistest.Only(redistest.Random(1, map[redistest.Fault]float64{redistest.ReplyLost: share}), scripts...)}
		prefix := server.Prefix(t)
		var s []*redisstore.Store
		for range writers {
			s = append(s, openAt(t, server.Client(t, redistest.Through(faults), stubborn), &redisstore.Options{Prefix: prefix}))
		}
		appendAll(t, s, each)
		lost := faults.Count(redistest.ReplyLost)
		if want := int(writers * each * share * 0.8); lost < want {
			t.Errorf("%d replies were lost, want %d at least", lost, want)
		}
		t.Logf("%d of %d replies were lost", lost, faults.Calls("evalsha"))
	})
}

// Every kind of fault at once, those of reads too, on a client of one retry.
func TestAppendsOverBadConnections(t *testing.T) {
	onEach(t, func(t *testing.T, server *redistest.Server) {
		faults := &redistest.Faults{Delay: 2 * time.Millisecond, Choose: redistest.Random(2, map[redistest.Fault]float64{
			redistest.NotSent: 0.02, redistest.HalfSent: 0.02, redistest.Late: 0.03, redistest.ReplyLost: 0.03, redistest.ReplyCut: 0.02, redistest.Slow: 0.01,
		})}
		opts := &redisstore.Options{Prefix: server.Prefix(t)}
		var s []*redisstore.Store
		for range 3 {
			s = append(s, openAt(t, server.Client(t, redistest.Through(faults), quick, func(o *redis.UniversalOptions) { o.MaxRetries = 1 }), opts))
		}
		w := begin(t, "s", s)
		w.until(t, 1500)
		w.halt()
		faults.Stop()
		w.end(t, openAt(t, server.Client(t), opts))
	})
}

// A commit of a large batch is cut in the middle of its bytes.
func TestLargeBatchCutInTheMiddle(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		var next atomic.Int64
		faults := &redistest.Faults{Choose: redistest.Only(func(redistest.Request) redistest.Fault {
			return redistest.Fault(next.Swap(int64(redistest.None)))
		}, scripts...)}
		s := openAt(t, server.Client(t, redistest.Through(faults), quick), &redisstore.Options{Prefix: server.Prefix(t)})
		batch := make([]session.Message, 3000)
		for i := range batch {
			batch[i] = session.UserText(fmt.Sprint("0 ", i))
		}
		for _, fault := range []redistest.Fault{redistest.HalfSent, redistest.ReplyLost, redistest.ReplyCut, redistest.NotSent, redistest.Late} {
			id := fault.String()
			mustAppend(t, s, id, "first")
			next.Store(int64(fault))
			if _, err := s.Append(t.Context(), id, batch, nil); err != nil {
				t.Fatalf("Append of a batch, %v: %v", fault, err)
			}
			faults.Stop()
			history := texts(t, s, id)
			if history[0] != "first" {
				t.Errorf("%v: the history begins with %q", fault, history[0])
			}
			checkHistory(t, history[1:], []int{len(batch)})
		}
	})
}

func TestScriptFlush(t *testing.T) {
	onEach(t, func(t *testing.T, server *redistest.Server) {
		opts := &redisstore.Options{Prefix: server.Prefix(t)}
		client := server.Client(t)
		var s []*redisstore.Store
		for range 3 {
			s = append(s, openAt(t, server.Client(t), opts))
		}
		w := begin(t, "s", s)
		for range 50 {
			w.until(t, 5)
			if err := client.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		w.end(t, s[0])
		if n := w.failures.Load(); n > 0 {
			t.Errorf("%d calls failed because scripts were flushed", n)
		}
	})
}

// A server that is away for a while is an error, and nothing is lost.
func TestServerAwayForAWhile(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		faults := &redistest.Faults{}
		opts := &redisstore.Options{Prefix: server.Prefix(t)}
		once := func(o *redis.UniversalOptions) { o.MaxRetries, o.DialerRetries = -1, 1 }
		s := []*redisstore.Store{
			openAt(t, server.Client(t, redistest.Through(faults), once), opts),
			openAt(t, server.Client(t, redistest.Through(faults), once), opts),
		}
		w := begin(t, "s", s)
		for range 3 {
			w.until(t, 50)
			faults.Refuse()
			failures := w.failures.Load()
			for w.failures.Load() < failures+10 && !t.Failed() {
				time.Sleep(time.Millisecond)
			}
			faults.Accept()
		}
		w.until(t, 50)
		w.end(t, s[0])
	})
}
