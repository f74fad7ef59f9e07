package redistest_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session/internal/redistest"
)

// once is a client without retries and without a pool: what fails, shows.
func once(o *redis.UniversalOptions) { o.MaxRetries, o.PoolSize = -1, 1 }

// chooseNext returns a Choose that lets a fault happen to the next of its
// commands after each store of one.
func chooseNext(next *atomic.Int64, commands ...string) func(redistest.Request) redistest.Fault {
	return redistest.Only(func(redistest.Request) redistest.Fault {
		return redistest.Fault(next.Swap(int64(redistest.None)))
	}, commands...)
}

func TestFaults(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		for _, test := range []struct {
			fault   redistest.Fault
			fails   bool
			written int64
		}{
			{redistest.None, false, 1},
			{redistest.NotSent, true, 0},
			{redistest.HalfSent, true, 0},
			{redistest.Late, true, 1},
			{redistest.ReplyLost, true, 1},
			{redistest.ReplyCut, true, 1},
			{redistest.Slow, false, 1},
		} {
			t.Run(test.fault.String(), func(t *testing.T) {
				// The large one takes several writes and reads.
				for _, size := range []int{10, 1 << 20} {
					key := s.Prefix(t)
					var next atomic.Int64
					faults := &redistest.Faults{Choose: chooseNext(&next, "rpush"), Delay: time.Millisecond}
					client := s.Client(t, redistest.Through(faults), once)
					if err := client.Ping(t.Context()).Err(); err != nil {
						t.Fatal(err)
					}
					next.Store(int64(test.fault))
					err := client.RPush(t.Context(), key, strings.Repeat("x", size)).Err()
					if failed := err != nil; failed != test.fails || failed && !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("RPush = %v, want a reset connection: %v", err, test.fails)
					}
					faults.Stop()
					if n, err := client.LLen(t.Context(), key).Result(); err != nil || n != test.written {
						t.Errorf("%d elements were written, %v, want %d", n, err, test.written)
					}
					if got := faults.Count(test.fault); test.fault != redistest.None && got != 1 {
						t.Errorf("Count(%v) = %d, want 1", test.fault, got)
					}
					if got := faults.Calls("rpush"); got != 1 {
						t.Errorf(`Requests("rpush") = %d, want 1`, got)
					}
				}
			})
		}
	})
}

// A late request comes when the client has tried again.
func TestLateRequestComesSecond(t *testing.T) {
	s := redistest.Miniredis(t)
	var next atomic.Int64
	faults := &redistest.Faults{Choose: chooseNext(&next, "rpush", "set"), Delay: 50 * time.Millisecond}
	client := s.Client(t, redistest.Through(faults))
	next.Store(int64(redistest.Late))
	if err := client.RPush(t.Context(), "k", "x").Err(); err != nil {
		t.Fatal(err)
	}
	if n := client.LLen(t.Context(), "k").Val(); n != 1 {
		t.Errorf("%d elements after the second try, want 1", n)
	}
	faults.Stop()
	if n := client.LLen(t.Context(), "k").Val(); n != 2 {
		t.Errorf("%d elements after the late first try, want 2", n)
	}
}

func TestReplyCutLeavesNoHalfList(t *testing.T) {
	s := redistest.Miniredis(t)
	for range 1000 {
		s.Mini.Push("k", strings.Repeat("x", 1000))
	}
	var next atomic.Int64
	client := s.Client(t, redistest.Through(&redistest.Faults{Choose: chooseNext(&next, "lrange")}), once)
	next.Store(int64(redistest.ReplyCut))
	if all, err := client.LRange(t.Context(), "k", 0, -1).Result(); err == nil {
		t.Errorf("LRange = %d elements, nil, want an error", len(all))
	}
}

func TestRefuseAndCut(t *testing.T) {
	s := redistest.Miniredis(t)
	faults := &redistest.Faults{}
	client := s.Client(t, redistest.Through(faults), once)
	ping := func() error { return client.Ping(t.Context()).Err() }
	if err := ping(); err != nil {
		t.Fatal(err)
	}
	dialled := faults.Dialled()
	faults.Refuse()
	for range 2 {
		if err := ping(); err == nil {
			t.Error("Ping of a server that refuses = nil, want an error")
		}
	}
	if got := faults.Dialled(); got != dialled {
		t.Errorf("%d connections were made, want %d as before", got, dialled)
	}
	faults.Accept()
	client = s.Client(t, redistest.Through(faults), once) // the old one does not try at once
	if err := ping(); err != nil {
		t.Errorf("Ping after Accept = %v", err)
	}
	faults.Cut()
	if err := ping(); err == nil {
		t.Error("Ping over a connection that was cut = nil, want an error")
	}
	if sent, received := faults.Bytes(); sent == 0 || received == 0 {
		t.Errorf("Bytes() = %d, %d, want some", sent, received)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := (&redistest.Faults{}).Dial(ctx, "tcp", redistest.Miniredis(t).Addrs[0])
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Dial = %v, %v, want context.Canceled", c, err)
	}
}
