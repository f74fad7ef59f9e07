package redistest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session/internal/redistest"
)

func TestEachHasAServerOfAFreshPrefix(t *testing.T) {
	redistest.Each(t, func(t *testing.T, s *redistest.Server) {
		client := s.Client(t)
		var left string
		t.Run("Child", func(t *testing.T) {
			left = s.Prefix(t)
			if left == s.Prefix(t) {
				t.Error("two prefixes are the same")
			}
			for _, key := range []string{left, "{tag}" + left + ":x", "x" + left} {
				if err := client.Set(t.Context(), key, "v", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if keys := s.Keys(t, left); len(keys) != 3 {
				t.Errorf("Keys = %q, want three", keys)
			}
			if err := client.Set(t.Context(), "other"+left[:6], "v", time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		})
		if keys := s.Keys(t, left); len(keys) > 0 {
			t.Errorf("keys %q are left of a test that has ended", keys)
		}
		if n := client.Exists(t.Context(), "other"+left[:6]).Val(); n != 1 {
			t.Error("a key of somebody else was removed")
		}
		if err := client.Del(t.Context(), "other"+left[:6]).Err(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRestart(t *testing.T) {
	for _, test := range []struct {
		name       string
		appendOnly bool
		end        func(p *redistest.Program) error
		want       int64
	}{
		{"StopWithoutAOF", false, (*redistest.Program).Stop, 0},
		{"StopWithAOF", true, (*redistest.Program).Stop, 1},
		{"KillWithAOF", true, func(p *redistest.Program) error { p.Kill(); return nil }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := redistest.StartProgram(t, &redistest.ProgramOptions{AppendOnly: test.appendOnly})
			client := p.Client(t)
			if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := test.end(p); err != nil {
				t.Fatal(err)
			}
			if err := p.Client(t, once).Ping(t.Context()).Err(); err == nil {
				t.Error("the server answers although it was ended")
			}
			if err := p.Start(t); err != nil {
				t.Fatal(err)
			}
			if n, err := client.Exists(t.Context(), "k").Result(); err != nil || n != test.want {
				t.Errorf("%d keys after a restart, %v, want %d", n, err, test.want)
			}
		})
	}
}

func TestFullMemory(t *testing.T) {
	p := redistest.StartProgram(t, &redistest.ProgramOptions{MaxMemory: 3 << 20})
	client := p.Client(t)
	var err error
	for i := 0; i < 100 && err == nil; i++ {
		err = client.Set(t.Context(), fmt.Sprint(i), strings.Repeat("x", 100_000), 0).Err()
	}
	if err == nil || !redis.HasErrorPrefix(err, "OOM") {
		t.Errorf("writes of 10 MB = %v, want OOM", err)
	}
}

func TestPassword(t *testing.T) {
	p := redistest.StartProgram(t, &redistest.ProgramOptions{Password: "secret"})
	if err := p.Client(t).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Errorf("Set with the password = %v", err)
	}
	wrong := p.Client(t, func(o *redis.UniversalOptions) { o.Password = "wrong" })
	if err := wrong.Set(t.Context(), "k", "v", 0).Err(); err == nil {
		t.Error("Set with a wrong password = nil, want an error")
	}
}

func TestReplica(t *testing.T) {
	p := redistest.StartProgram(t, &redistest.ProgramOptions{Password: "secret"})
	replica := redistest.StartProgram(t, &redistest.ProgramOptions{ReplicaOf: p})
	client := p.Client(t)
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Do(t.Context(), "WAIT", 1, 10_000).Int(); err != nil || n != 1 {
		t.Fatalf("Wait = %d, %v, want one replica", n, err)
	}
	if v, err := replica.Client(t).Get(t.Context(), "k").Result(); err != nil || v != "v" {
		t.Errorf("Get from the replica = %q, %v, want v", v, err)
	}
	if err := replica.Client(t, once).Set(t.Context(), "k", "w", 0).Err(); !redis.IsReadOnlyError(err) {
		t.Errorf("Set at the replica = %v, want READONLY", err)
	}
}

func TestSuspend(t *testing.T) {
	p := redistest.StartProgram(t, nil)
	client := p.Client(t, once)
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := p.Suspend(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	silent := p.Client(t, once, func(o *redis.UniversalOptions) { o.ReadTimeout = 50 * time.Millisecond })
	if err := silent.Ping(t.Context()).Err(); err == nil {
		t.Error("a server that stands still has answered")
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("Ping after Resume = %v", err)
	}
}

// The numbers are of the specification and of a real cluster.
func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"123456789":             0x31c3,
		"hist:s-204:messages":   1895,
		"hist:s-204:meta":       8283,
		"hist:index":            10550,
		"hist:{s-204}:messages": 9499,
		"hist:{s-204}:meta":     9499,
	} {
		if got := redistest.Slot(key); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, nil)
	client := c.Client(t)
	prefix := c.Prefix(t)
	keys := func(tag string) []string {
		return []string{prefix + "{" + tag + "}a", prefix + "{" + tag + "}b", prefix + "{" + tag + "}c"}
	}
	for _, key := range []string{"", "x", "{", "}{", "{}x", "a{b}c", "{{b}}", "{b}{c}", "é{"} {
		if got, err := client.ClusterKeySlot(t.Context(), key).Result(); err != nil || int(got) != redistest.Slot(key) {
			t.Errorf("Slot(%q) = %d, the server says %d, %v", key, redistest.Slot(key), got, err)
		}
	}
	for i := range 20 {
		for _, k := range keys(fmt.Sprint(i)) {
			if err := client.Set(t.Context(), k, "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if all := c.Keys(t, prefix); len(all) != 60 {
		t.Errorf("Keys returns %d keys, want 60", len(all))
	}
	moving := keys("7")
	get := func(when string) {
		t.Helper()
		for _, k := range moving {
			if v, err := client.Get(t.Context(), k).Result(); err != nil || v != "v" {
				t.Errorf("Get %s = %q, %v, want v", when, v, err)
			}
		}
	}
	slot := redistest.Slot(moving[0])
	before := master(t, c, slot)
	var split error
	c.MoveSlot(t, slot, func() {
		get("halfway")
		one := c.Client(t, func(o *redis.UniversalOptions) { o.MaxRetries = -1 })
		split = one.MGet(t.Context(), moving...).Err()
	})
	if !redis.IsTryAgainError(split) {
		t.Errorf("MGET of keys that two masters have = %v, want TRYAGAIN", split)
	}
	get("after the move")
	if after := master(t, c, slot); after == before {
		t.Errorf("the master of slot %d is %s, as it was before the move", slot, after)
	}
}

func TestClusterFailover(t *testing.T) {
	c := redistest.StartCluster(t, &redistest.ClusterOptions{Replicas: 1, NodeTimeout: time.Second})
	client := c.Client(t)
	slot := redistest.Slot("k")
	set := func(value string) {
		t.Helper()
		err := client.Set(t.Context(), "k", value, 0).Err()
		for deadline := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(deadline); {
			client.(*redis.ClusterClient).ReloadState(t.Context()) // it would learn of the new master in a minute
			err = client.Set(t.Context(), "k", value, 0).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := client.Get(t.Context(), "k").Result(); err != nil || got != value {
			t.Errorf("Get = %q, %v, want %q", got, err, value)
		}
	}
	set("1")
	first := master(t, c, slot)
	c.Failover(t, slot)
	second := master(t, c, slot)
	if second == first {
		t.Errorf("the master after Failover is %s, as before", second)
	}
	if got, err := client.Get(t.Context(), "k").Result(); err != nil || got != "1" {
		t.Errorf("Get after Failover = %q, %v, want 1", got, err)
	}
	set("2")
	c.KillMaster(t, slot)
	set("3")
	c.KillMaster(t, slot)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := client.Set(ctx, "other", "v", 0).Err(); err == nil {
		t.Error("Set in a cluster that is down = nil, want an error")
	}
}

// master returns the address of a slot's master.
func master(t *testing.T, c *redistest.Cluster, slot int) string {
	t.Helper()
	var addresses []string
	ranges, err := c.Client(t).ClusterSlots(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ranges {
		if r.Start <= slot && slot <= r.End {
			addresses = append(addresses, r.Nodes[0].Addr)
		}
	}
	if len(slices.Compact(addresses)) != 1 {
		t.Fatalf("masters of slot %d: %q, want one", slot, addresses)
	}
	return addresses[0]
}
