package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/storetest"
)

// indexed is a store over an embedded server, whose keys the test may look at.
type indexed struct {
	*Store
	client *redis.Client
	clock  *storetest.Clock
}

func openIndexed(t *testing.T, o Options) indexed {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { client.Close() })
	clock := storetest.NewClock()
	o.Clock = clock.Now
	s, err := New(client, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return indexed{s, client, clock}
}

func (x indexed) append(t *testing.T, id string) {
	t.Helper()
	if _, err := x.Append(t.Context(), id, []session.Message{session.UserText("hi")}, nil); err != nil {
		t.Fatalf("Append to %q: %v", id, err)
	}
}

func (x indexed) list(t *testing.T, opts *session.ListOptions) []string {
	t.Helper()
	ids := []string{}
	for info, err := range x.List(t.Context(), opts) {
		if err != nil {
			t.Fatalf("List: %v", err)
		}
		ids = append(ids, info.ID)
	}
	return ids
}

func (x indexed) inIndex(t *testing.T, id string) bool {
	t.Helper()
	err := x.client.ZScore(t.Context(), "session:{}:all", id).Err()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	return err == nil
}

func TestListForgetsSessionsThatAreNotThere(t *testing.T) {
	x := openIndexed(t, Options{})
	x.append(t, "gone")
	x.append(t, "here")
	x.client.Del(t.Context(), "session:{gone}:head", "session:{gone}:messages")
	if got := x.list(t, nil); !slices.Equal(got, []string{"here"}) {
		t.Errorf("List = %q, want here alone", got)
	}
	if !x.inIndex(t, "gone") {
		t.Error("an entry that may be about to be written was taken from the index")
	}
	x.clock.Advance(aboutToBeWritten)
	x.list(t, nil)
	if x.inIndex(t, "gone") || !x.inIndex(t, "here") {
		t.Errorf("after a list gone is in the index: %v, here: %v; want false, true", x.inIndex(t, "gone"), x.inIndex(t, "here"))
	}
}

// between lets a test act between any two commands of a pipeline, as another
// client may.
type between func()

func (between) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (act between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := next(ctx, []redis.Cmder{cmd}); err != nil {
				return err
			}
			act()
		}
		return nil
	}
}

// TestListBesideUpdates lists a session whose Meta comes, goes and changes all
// the time.
func TestListBesideUpdates(t *testing.T) {
	x := openIndexed(t, Options{})
	other := redis.NewClient(&redis.Options{Addr: x.client.Options().Addr})
	t.Cleanup(func() { other.Close() })
	s, err := New(other, nil)
	if err != nil {
		t.Fatal(err)
	}
	x.append(t, "s")
	n := 0
	x.client.AddHook(between(func() {
		n++
		_, err := s.Update(t.Context(), "s", func(m *session.Meta) error {
			if m.Title = ""; n%3 > 0 {
				m.Title = fmt.Sprint(n)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}))
	for range 30 {
		if got := x.list(t, nil); !slices.Equal(got, []string{"s"}) {
			t.Fatalf("List = %q, want s", got)
		}
	}
}

// A reader remembers late when a session was listed that is gone meanwhile.
func TestCreationIsListedWhateverIsRemembered(t *testing.T) {
	x := openIndexed(t, Options{})
	x.append(t, "s")
	d, err := newDriverOf(x)
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.Head(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Delete(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	h.Rev, h.Base, h.Count = "another", "another", 0
	if err := d.Commit(t.Context(), "s", session.Commit{Head: &h}); err != nil {
		t.Fatal(err)
	}
	if !x.inIndex(t, "s") {
		t.Error("a session that was created is not in the index")
	}
}

// A process whose clock is ahead has written before.
func TestLifeIsByTheWritersClock(t *testing.T) {
	x := openIndexed(t, Options{TTL: 30 * time.Minute})
	x.clock.Advance(time.Hour)
	x.append(t, "s")
	x.clock.Advance(-time.Hour)
	x.append(t, "s")
	if left := x.client.PTTL(t.Context(), "session:{s}:head").Val(); left < 30*time.Minute {
		t.Errorf("Redis removes the session in %v, before it expires", left)
	}
}

// A failover has lost the last commits.
func TestRangeBehindAFailover(t *testing.T) {
	x := openIndexed(t, Options{})
	x.append(t, "s")
	d, err := newDriverOf(x)
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.Head(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Range(t.Context(), "s", h, 0, h.Count+1); !errors.Is(err, session.ErrConflict) {
		t.Errorf("Range of more than there is = %v, want ErrConflict", err)
	}
}

// newDriverOf returns another driver of the same server.
func newDriverOf(x indexed) (*driver, error) {
	o := Options{Clock: x.clock.Now}
	o, err := o.withDefaults()
	return newDriver(x.client, o, nil), err
}

// TestWritesSweepTheIndex checks that an index that nobody lists does not keep
// what has expired.
func TestWritesSweepTheIndex(t *testing.T) {
	x := openIndexed(t, Options{TTL: time.Hour, IndexEvery: -1})
	for i := range 20 {
		x.append(t, fmt.Sprint("old", i))
	}
	for i := range 20 {
		x.client.Del(t.Context(), fmt.Sprintf("session:{old%d}:head", i), fmt.Sprintf("session:{old%d}:messages", i))
	}
	x.clock.Advance(2 * time.Hour)
	for range 500 {
		x.append(t, "new")
	}
	if n := x.client.ZCard(t.Context(), "session:{}:all").Val(); n != 1 {
		t.Errorf("the index holds %d sessions, want the one that is there", n)
	}
}

// TestListOfOneMoment checks that paging passes many entries of one time.
func TestListOfOneMoment(t *testing.T) {
	x := openIndexed(t, Options{})
	var want []string
	for i := range 3 * pageHeads {
		id := fmt.Sprintf("f/%04d", i)
		x.append(t, id)
		want = append(want, id)
	}
	if got := x.list(t, nil); !slices.Equal(got, want) {
		t.Errorf("List of all gave %d sessions, want %d in the order of their IDs", len(got), len(want))
	}
	if got := x.list(t, &session.ListOptions{Prefix: "f/00"}); !slices.Equal(got, want[:100]) {
		t.Errorf("List of a prefix gave %d sessions, want 100", len(got))
	}
}

// TestListIsInOrderBetweenIndexings updates sessions that stay where they stand
// in the index.
func TestListIsInOrderBetweenIndexings(t *testing.T) {
	x := openIndexed(t, Options{IndexEvery: time.Hour})
	for i := range 250 {
		x.append(t, fmt.Sprintf("%03d", i))
		x.clock.Advance(time.Millisecond)
	}
	want := []string{}
	for i := range 250 {
		x.append(t, fmt.Sprintf("%03d", i*7%250))
		want = append(want, fmt.Sprintf("%03d", i*7%250))
		x.clock.Advance(time.Millisecond)
	}
	slices.Reverse(want)
	if got := x.list(t, nil); !slices.Equal(got, want) {
		t.Errorf("List = %q, want %q", got, want)
	}
}

// TestRemovedSessionIsNotCreatedAgain sends a creation twice, as go-redis does
// after a lost reply, with a removal in between.
func TestRemovedSessionIsNotCreatedAgain(t *testing.T) {
	x := openIndexed(t, Options{})
	o, err := (*Options)(nil).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(x.client, o, nil)
	ctx := t.Context()
	create := func(rev string) session.Commit {
		return session.Commit{Add: [][]byte{[]byte(`{}`)}, Head: &session.Head{ID: "s", Rev: rev, Base: rev, Count: 1, Updated: x.clock.Now()}}
	}
	var removed []string
	for i := range 5 {
		rev := fmt.Sprint("rev", i)
		if err := d.Commit(ctx, "s", create(rev)); err != nil {
			t.Fatal(err)
		}
		if err := d.Commit(ctx, "s", session.Commit{IfRev: rev}); err != nil {
			t.Fatal(err)
		}
		removed = append(removed, rev)
		for _, late := range removed {
			if err := d.Commit(ctx, "s", create(late)); err != nil {
				t.Errorf("a creation sent again: error = %v, want nil", err)
			}
			if h, err := d.Head(ctx, "s"); err != nil || h.Rev != "" {
				t.Fatalf("after a creation sent again the head is %+v, error %v; want none", h, err)
			}
		}
	}
}
