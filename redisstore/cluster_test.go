package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/redistest"
	"github.com/holdfast-go/session/redisstore"
)

// slotOf returns the slot that all keys of the sessions of a prefix are in.
func slotOf(t *testing.T, server *redistest.Server, prefix string) int {
	t.Helper()
	slot := -1
	for _, k := range server.Keys(t, prefix) {
		if !strings.HasSuffix(k, "{}:all") && !strings.HasSuffix(k, "/}:in") { // the indexes are no session's
			if s := redistest.Slot(k); slot >= 0 && s != slot {
				t.Errorf("key %q is in slot %d, another key of its session in %d", k, s, slot)
			} else {
				slot = s
			}
		}
	}
	if slot < 0 {
		t.Fatal("the session has no keys")
	}
	return slot
}

// Whatever an ID looks like, all keys of its session are in one slot, and that
// is the session's own.
func TestKeysOfASessionAreInOneSlot(t *testing.T) {
	slots := make(map[int][]string)
	for _, id := range []string{"s-204", "s-205", "a{b}c", "a{b}d", "{}x", "{}y", "}{", "{", "}", "{}", "{a}", "%7D", strings.Repeat("é", 256), strings.Repeat("}", 512)} {
		server := redistest.Miniredis(t)
		const prefix = "test:"
		s := openAt(t, server.Client(t), &redisstore.Options{Prefix: prefix, TTL: time.Hour})
		mustAppend(t, s, id, "1")
		if _, err := s.Update(t.Context(), id, func(m *session.Meta) error { m.Title = "x"; return nil }); err != nil {
			t.Fatal(err)
		}
		slot := slotOf(t, server, prefix)
		slots[slot] = append(slots[slot], id)
		var expiries []time.Duration
		for _, k := range server.Keys(t, prefix) {
			for _, part := range []string{"head", "messages", "meta"} {
				if strings.HasSuffix(k, "}:"+part) {
					expiries = append(expiries, server.Mini.TTL(k))
				}
			}
		}
		if len(expiries) != 3 || expiries[0] != expiries[1] || expiries[1] != expiries[2] || expiries[0] == 0 {
			t.Errorf("the keys of %.20q expire in %v, want three times the same", id, expiries)
		}
		if err := s.Delete(t.Context(), id, nil); err != nil {
			t.Fatal(err)
		}
		slotOf(t, server, prefix) // of what remembers the removal
	}
	for slot, ids := range slots {
		if len(ids) > 1 {
			t.Errorf("the sessions %.20q share slot %d", ids, slot)
		}
	}
}

// Calls on sessions with such IDs work in a cluster.
func TestIDsInACluster(t *testing.T) {
	c := redistest.StartCluster(t, nil)
	s := openAt(t, c.Client(t), &redisstore.Options{Prefix: c.Prefix(t), TTL: time.Hour})
	ids := []string{"s-204", "a{b}c", "{}x", "}{", "{", "a/{b}/c", strings.Repeat("x", 512)}
	for _, id := range ids {
		mustAppend(t, s, id, id)
		if _, err := session.Fork(t.Context(), s, id, id[:len(id)-1]+"'", nil); err != nil {
			t.Errorf("Fork of %.20q: %v", id, err)
		}
	}
	n := 0
	for _, err := range s.List(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2*len(ids) {
		t.Errorf("List yields %d sessions, want %d", n, 2*len(ids))
	}
	for _, id := range ids {
		if got := texts(t, s, id); len(got) != 1 || got[0] != id {
			t.Errorf("history of %.20q = %q", id, got)
		}
		if err := s.Delete(t.Context(), id, nil); err != nil {
			t.Errorf("Delete of %.20q: %v", id, err)
		}
	}
}

// A slot moves to another master and back, while writers append and a reader
// reads. While some of the session's keys have gone and others have not, calls
// may fail, but never show less than there is.
func TestSlotMigration(t *testing.T) {
	c := redistest.StartCluster(t, nil)
	opts := &redisstore.Options{Prefix: c.Prefix(t)}
	var s []*redisstore.Store
	for range 3 {
		s = append(s, openAt(t, c.Client(t), opts))
	}
	mustAppend(t, s[0], "other", "x")
	w := begin(t, "s", s)
	w.until(t, 50)
	slot := redistest.Slot(opts.Prefix + "{s}")
	for range 4 {
		c.MoveSlot(t, slot, func() {
			if got := texts(t, s[0], "other"); len(got) != 1 {
				t.Errorf("a session whose slot does not move has the history %q", got)
			}
			checkReads(t, s[1], "s", w.appended.Load())
		})
		w.until(t, 50)
	}
	w.end(t, s[0])
}

// checkReads reads a session several times, which may fail, but never shows
// less than n messages.
func checkReads(t *testing.T, s *redisstore.Store, id string, n int64) {
	t.Helper()
	for range 5 {
		messages, err := s.Load(t.Context(), id)
		switch {
		case err == nil && int64(len(messages)) < n:
			t.Errorf("Load of a session on its way = %d messages, want %d at least or an error", len(messages), n)
		case err != nil && !errors.Is(err, redisstore.ErrUnavailable):
			t.Errorf("Load of a session on its way = %v, want ErrUnavailable", err)
		}
		if _, err := s.Info(t.Context(), id); errors.Is(err, session.ErrNotFound) {
			t.Error("Info of a session on its way = ErrNotFound")
		}
	}
}

// A replica takes over in order, and nothing is lost or doubled.
func TestFailover(t *testing.T) {
	c := redistest.StartCluster(t, &redistest.ClusterOptions{Replicas: 1})
	opts := &redisstore.Options{Prefix: c.Prefix(t)}
	var s []*redisstore.Store
	for range 3 {
		s = append(s, openAt(t, c.Client(t), opts))
	}
	w := begin(t, "s", s)
	slot := redistest.Slot(opts.Prefix + "{s}")
	for range 2 { // to the replica and back
		w.until(t, 100)
		c.Failover(t, slot)
	}
	w.until(t, 100)
	w.end(t, s[0])
}

// A master dies. Redis may lose its last writes, but no more, and what is left
// is whole.
func TestCrashOfAMaster(t *testing.T) {
	c := redistest.StartCluster(t, &redistest.ClusterOptions{Replicas: 1, NodeTimeout: time.Second})
	opts := &redisstore.Options{Prefix: "test:"}
	s := openAt(t, c.Client(t), opts)
	acknowledged := 0
	enough := make(chan struct{}) // of acknowledged writes
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			_, err := s.Append(t.Context(), "s", []session.Message{session.UserText(fmt.Sprint("0 ", acknowledged))}, nil)
			if err != nil {
				stopped <- err
				return
			}
			if acknowledged++; acknowledged == 200 {
				close(enough)
			}
		}
	}()
	select {
	case <-enough:
	case err := <-stopped:
		t.Fatal(err)
	}
	c.KillMaster(t, redistest.Slot("test:{s}"))
	close(stop)
	err := <-stopped
	if err != nil && !errors.Is(err, redisstore.ErrUnavailable) {
		t.Errorf("Append while the master is gone = %v, want ErrUnavailable", err)
	}
	fresh := openAt(t, c.Client(t), opts)
	history := texts(t, fresh, "s")
	checkHistory(t, history, []int{len(history)})
	if lost := acknowledged - len(history); lost > 0 {
		t.Logf("the crash has cost %d of %d writes", lost, acknowledged)
	}
	mustAppend(t, fresh, "s", fmt.Sprint("0 ", len(history)))
	// The client that knew the old master finds the new one.
	start := time.Now()
	for ; time.Since(start) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		if _, err = s.Load(t.Context(), "s"); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("after %v a client has not found the new master: %v", time.Since(start), err)
	}
	t.Logf("a client that knew the old master found the new one after %v", time.Since(start))
}
