package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/redistest"
	"github.com/holdfast-go/session/internal/testserver"
	"github.com/holdfast-go/session/redisstore"
)

// once lets a client fail at once.
func once(o *redis.UniversalOptions) { o.MaxRetries, o.DialerRetries = -1, 1 }

// What was acknowledged survives crashes of a server that syncs each write.
func TestCrashesWithAOF(t *testing.T) {
	p := redistest.StartProgram(t, &redistest.ProgramOptions{AppendOnly: true})
	var s []*redisstore.Store
	for range 3 {
		s = append(s, openAt(t, p.Client(t, quick), nil))
	}
	w := begin(t, "s", s)
	for range 3 {
		w.until(t, 200)
		p.Kill()
		if err := p.Start(t); err != nil {
			t.Fatal(err)
		}
	}
	w.until(t, 200)
	w.end(t, openAt(t, p.Client(t), nil))
}

// A server that comes back empty has no sessions, and they begin anew.
func TestRestartWithoutAOF(t *testing.T) {
	p := redistest.StartProgram(t, nil)
	s := openAt(t, p.Client(t), nil)
	mustAppend(t, s, "s", "before")
	mustAppend(t, s, "other", "before")
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Load(t.Context(), "other"); err != nil || len(got) != 0 {
		t.Errorf("Load from a server that is empty = %d messages, %v, want 0", len(got), err)
	}
	mustAppend(t, s, "s", "after")
	if got := texts(t, s, "s"); len(got) != 1 || got[0] != "after" {
		t.Errorf("history = %q, want the one message since", got)
	}
	var listed []string
	for info, err := range s.List(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, info.ID)
	}
	if len(listed) != 1 || listed[0] != "s" {
		t.Errorf("List = %q, want s", listed)
	}
}

// A full server refuses writes whole, and what is there can be read and
// removed.
func TestFullMemory(t *testing.T) {
	p := redistest.StartProgram(t, &redistest.ProgramOptions{MaxMemory: 6 << 20})
	client := p.Client(t)
	s := openAt(t, client, nil)
	ctx := t.Context()
	large := func(n int) []session.Message {
		return []session.Message{session.UserText(fmt.Sprint(n, strings.Repeat("x", 10_000)))}
	}
	acknowledged := 0
	for ; acknowledged < 100; acknowledged++ {
		if _, err := s.Append(ctx, "s", large(acknowledged), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int{100_000, 1000, 10} { // up to the last byte
		var err error
		for i := 0; err == nil; i++ {
			err = client.Set(ctx, fmt.Sprint("filler ", size, " ", i), strings.Repeat("x", size), 0).Err()
		}
		if !redis.HasErrorPrefix(err, "OOM") {
			t.Fatal(err)
		}
	}
	wantFull := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, redisstore.ErrFull) {
			t.Errorf("%s on a full server = %v, want ErrFull", what, err)
		}
	}
	_, err := s.Append(ctx, "s", large(0), nil)
	wantFull("Append", err)
	wantFull("Save", s.Save(ctx, "s", large(1)))
	_, err = s.Append(ctx, "new", large(0), nil)
	wantFull("Append to a new session", err)
	_, err = s.Update(ctx, "s", func(m *session.Meta) error { m.Summary = strings.Repeat("x", 10_000); return nil })
	wantFull("Update", err)
	if got := texts(t, s, "s"); len(got) != acknowledged {
		t.Errorf("%d messages, want the %d that were acknowledged", len(got), acknowledged)
	}
	if info, err := s.Info(ctx, "s"); err != nil || info.Summary != "" {
		t.Errorf("Info = a summary of %d bytes, %v, want none", len(info.Summary), err)
	}
	if _, err := s.Info(ctx, "new"); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Info of a session whose creation was refused = %v, want ErrNotFound", err)
	}
	if err := s.Delete(ctx, "s", nil); err != nil {
		t.Errorf("Delete on a full server = %v", err)
	}
	// The server frees in the background what was removed.
	full := func() bool {
		_, err := s.Append(ctx, "new", []session.Message{session.UserText("x")}, nil)
		if err != nil && !errors.Is(err, redisstore.ErrFull) {
			t.Fatal(err)
		}
		return err != nil
	}
	for deadline := time.Now().Add(30 * time.Second); full(); {
		if time.Now().After(deadline) {
			t.Fatal("the server is still full after Delete")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestReadOnlyReplica(t *testing.T) {
	p := redistest.StartProgram(t, nil)
	replica := redistest.StartProgram(t, &redistest.ProgramOptions{ReplicaOf: p})
	client := p.Client(t)
	mustAppend(t, openAt(t, client, nil), "s", "x")
	if n, err := client.Do(t.Context(), "WAIT", 1, 10_000).Int(); err != nil || n != 1 {
		t.Fatalf("WAIT = %d, %v, want one replica", n, err)
	}
	s := openAt(t, replica.Client(t, quick), nil)
	if got := texts(t, s, "s"); len(got) != 1 {
		t.Errorf("history on the replica = %q, want x", got)
	}
	_, err := s.Append(t.Context(), "s", []session.Message{session.UserText("y")}, nil)
	if !errors.Is(err, redisstore.ErrUnavailable) || !redis.HasErrorPrefix(err, "READONLY") {
		t.Errorf("Append on a replica = %v, want ErrUnavailable and READONLY", err)
	}
}

// TestErrors lets servers be wrong in all kinds of ways. Each call says so, in
// good time and without a password.
func TestErrors(t *testing.T) {
	const password = "correct-horse"
	locked := redistest.StartProgram(t, &redistest.ProgramOptions{Password: password})
	limited := redistest.StartProgram(t, nil)
	if err := limited.Client(t).Do(t.Context(), "ACL", "SETUSER", "default", "-@scripting").Err(); err != nil {
		t.Fatal(err)
	}
	nobody := fmt.Sprint("127.0.0.1:", testserver.Port(t))
	for _, test := range []struct {
		name, url string
		client    redis.UniversalClient
		want      error
	}{
		{"WrongPassword", "redis://:batterystaple@" + locked.Addrs[0],
			locked.Client(t, once, func(o *redis.UniversalOptions) { o.Password = "batterystaple" }), redisstore.ErrAccess},
		{"NoPassword", "redis://" + locked.Addrs[0], locked.Client(t, once, func(o *redis.UniversalOptions) { o.Password = "" }), redisstore.ErrAccess},
		{"NoPermission", "", limited.Client(t, once), redisstore.ErrAccess},
		{"Nobody", "redis://user:batterystaple@" + nobody,
			redis.NewClient(&redis.Options{Addr: nobody, Password: "batterystaple", MaxRetries: -1}), redisstore.ErrUnavailable},
		{"NobodyInACluster", "redis+cluster://user:batterystaple@" + nobody,
			redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nobody}, Password: "batterystaple", MaxRedirects: -1}), redisstore.ErrUnavailable},
		{"NoSuchHost", "redis://user:batterystaple@host.invalid",
			redis.NewClient(&redis.Options{Addr: "host.invalid:6379", Password: "batterystaple", MaxRetries: -1}), redisstore.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Cleanup(func() { test.client.Close() })
			check := func(call string, err, want error) {
				t.Helper()
				if !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("%s = %v, want %v", call, err, want)
				}
				if err != nil && (strings.Contains(err.Error(), "battery") || strings.Contains(err.Error(), password)) {
					t.Errorf("%s: the error shows a password: %v", call, err)
				}
			}
			s := openAt(t, test.client, nil)
			_, err := s.Append(t.Context(), "s", []session.Message{session.UserText("x")}, nil)
			check("Append", err, test.want)
			_, err = s.Load(t.Context(), "s")
			check("Load", err, test.want)
			for _, err := range s.List(t.Context(), nil) {
				check("List", err, test.want)
			}
			_, err = s.Lock(t.Context(), "s", &session.LockOptions{NoWait: true})
			check("Lock", err, test.want)
			if test.url != "" {
				b, err := redisstore.OpenURL(t.Context(), test.url)
				if check("OpenURL", err, test.want); b != nil {
					t.Error("OpenURL returned a Backend and an error")
				}
			}
		})
	}
}

// A cluster that has lost a master is down for all.
func TestClusterDown(t *testing.T) {
	c := redistest.StartCluster(t, &redistest.ClusterOptions{NodeTimeout: time.Second})
	prefix := c.Prefix(t)
	s := openAt(t, c.Client(t, quick), &redisstore.Options{Prefix: prefix})
	mustAppend(t, s, "s", "x")
	slot := redistest.Slot("s")
	c.KillMaster(t, (slot+8192)%16384) // two masters' slots are less than that apart
	for _, id := range []string{"s", "t", "u"} {
		_, err := s.Append(t.Context(), id, []session.Message{session.UserText("y")}, nil)
		if !errors.Is(err, redisstore.ErrUnavailable) {
			t.Errorf("Append to %q in a cluster that is down = %v, want ErrUnavailable", id, err)
		}
		if _, err := s.Load(t.Context(), id); !errors.Is(err, redisstore.ErrUnavailable) {
			t.Errorf("Load of %q in a cluster that is down = %v, want ErrUnavailable", id, err)
		}
	}
}

// A call ends with its context although the server stands still.
func TestSilentServer(t *testing.T) {
	p := redistest.StartProgram(t, nil)
	s := openAt(t, p.Client(t, func(o *redis.UniversalOptions) { o.ContextTimeoutEnabled = true }), nil)
	mustAppend(t, s, "s", "x")
	if err := p.Suspend(); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Load(ctx, "s"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Load from a server that stands still = %v, want DeadlineExceeded", err)
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, s, "s"); len(got) != 1 {
		t.Errorf("history = %q, want x", got)
	}
}
