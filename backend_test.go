package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/storetest"
)

func TestLift(t *testing.T) {
	storetest.RunDriver(t, func(testing.TB) session.Driver { return newMemDriver() },
		&storetest.DriverOptions{Peer: func(_ testing.TB, d session.Driver) session.Driver { return d }})
}

func TestLiftWithDefaults(t *testing.T) {
	storetest.Run(t, func(testing.TB) session.Store { return session.NewBackend(newMemDriver(), nil) }, nil)
}

var errInjected = errors.New("injected fault")

// faultyDriver loses a part of what its driver is told, or of what it answers.
// It is one process's; line is shared by all, and held from a lost reply to the
// look at what became of the write, so that the test does not depend on how
// much the others write meanwhile.
type faultyDriver struct {
	*memDriver
	line  *sync.Mutex
	holds bool
	lost  *atomic.Int64
}

func (d *faultyDriver) Head(ctx context.Context, id string) (session.Head, error) {
	if d.holds {
		d.holds = false
		defer d.line.Unlock()
	}
	return d.memDriver.Head(ctx, id)
}

func (d *faultyDriver) Commit(ctx context.Context, id string, c session.Commit) error {
	const percent = 5
	d.line.Lock()
	fault := rand.IntN(100)
	if fault < percent { // the request does not arrive
		d.line.Unlock()
		return errInjected
	}
	err := d.memDriver.Commit(ctx, id, c)
	if err != nil || fault >= 3*percent {
		d.line.Unlock()
		return err
	}
	d.lost.Add(1) // the reply does not arrive
	d.holds = true
	if fault < 2*percent {
		return errInjected
	}
	if err = d.memDriver.Commit(ctx, id, c); errors.Is(err, session.ErrConflict) { // and the driver tries again
		err = errInjected // of the first try
	}
	return err
}

func TestAppendsUnderFaultsAreStoredOnce(t *testing.T) {
	const writers, each = 4, 500
	d := newMemDriver()
	var line sync.Mutex
	var lost atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		b := session.NewBackend(&faultyDriver{memDriver: d, line: &line, lost: &lost}, nil)
		wg.Go(func() {
			for i := range each {
				m := []session.Message{session.UserText(fmt.Sprint(w, " ", i))}
				opts := &session.WriteOptions{}
				if i%2 == 0 {
					opts.Key = fmt.Sprint("key ", w, " ", i)
				}
				for {
					_, err := b.Append(t.Context(), "s", m, opts)
					if err == nil {
						break
					}
					if !errors.Is(err, errInjected) {
						t.Errorf("Append() = %v, want nil or the injected fault", err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	got, err := session.NewBackend(d, nil).Load(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	next := make([]int, writers)
	for i, m := range got {
		var w, n int
		if _, err := fmt.Sscan(m.Text(), &w, &n); err != nil {
			t.Fatal(err)
		}
		if n != next[w] {
			t.Fatalf("message %d is the %dth of writer %d, want the %dth", i, n, w, next[w])
		}
		next[w]++
	}
	if len(got) != writers*each {
		t.Errorf("%d messages, want %d", len(got), writers*each)
	}
	if lost.Load() == 0 {
		t.Error("no reply was lost: the test shows nothing")
	}
}

// stepDriver lets a test act between a Commit and its reply.
type stepDriver struct {
	*memDriver
	after func(error) error // nil: nothing
}

func (d *stepDriver) Commit(ctx context.Context, id string, c session.Commit) error {
	err := d.memDriver.Commit(ctx, id, c)
	if after := d.after; after != nil {
		d.after = nil
		return after(err)
	}
	return err
}

func TestDeleteIsNotRepeatedOnASessionRecreatedSince(t *testing.T) {
	for _, reply := range []error{errInjected, session.ErrConflict} {
		d := &stepDriver{memDriver: newMemDriver()}
		b, other := session.NewBackend(d, nil), session.NewBackend(d.memDriver, nil)
		save(t, b, "s", "old")
		d.after = func(error) error {
			save(t, other, "s", "new")
			return reply
		}
		if err := b.Delete(t.Context(), "s", nil); err != nil {
			t.Errorf("Delete() = %v, want nil: the session that it was called for is gone", err)
		}
		if got := texts(t, other, "s"); len(got) != 1 || got[0] != "new" {
			t.Errorf("after a Delete with reply %v: %q, want the session as re-created", reply, got)
		}
	}
}

// A reply is lost, and the session is gone when the store looks what became of
// the Delete. With a version it matters who removed it, and that can't be told.
func TestDeleteWhoseReplyIsLost(t *testing.T) {
	d := &stepDriver{memDriver: newMemDriver()}
	b := session.NewBackend(d, nil)
	for _, test := range []struct {
		name    string
		version bool
		want    error
	}{
		{"AnyVersion", false, nil},
		{"IfVersion", true, errInjected},
	} {
		v, err := b.Append(t.Context(), "s", []session.Message{session.UserText("x")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var opts session.WriteOptions
		if test.version {
			opts.IfVersion = v
		}
		d.after = func(error) error { return errInjected }
		if err := b.Delete(t.Context(), "s", &opts); !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: Delete = %v, want %v", test.name, err, test.want)
		}
	}
}

// The reply to a keyed write that creates a session is lost; when the store
// looks, there is another session, created with the same key.
func TestAKeyInAnotherLifeIsNotTheWrites(t *testing.T) {
	d := &stepDriver{memDriver: newMemDriver()}
	b, other := session.NewBackend(d, nil), session.NewBackend(d.memDriver, nil)
	opts := &session.WriteOptions{Key: "k"}
	d.after = func(error) error {
		if err := other.Delete(t.Context(), "s", nil); err != nil {
			t.Error(err)
		}
		if _, err := other.Append(t.Context(), "s", []session.Message{session.UserText("theirs")}, opts); err != nil {
			t.Error(err)
		}
		return errInjected
	}
	if v, err := b.Append(t.Context(), "s", []session.Message{session.UserText("mine")}, opts); !errors.Is(err, errInjected) {
		t.Errorf("Append = %q, %v, want the error: the message is not there", v, err)
	}
	if got := texts(t, other, "s"); !slices.Equal(got, []string{"theirs"}) {
		t.Errorf("history = %q", got)
	}
}

func TestAWriteIsRecognisedAfterOthersFollowed(t *testing.T) {
	d := &stepDriver{memDriver: newMemDriver()}
	b, other := session.NewBackend(d, nil), session.NewBackend(d.memDriver, nil)
	save(t, b, "s", "0")
	d.after = func(error) error {
		for i := range 15 {
			if _, err := other.Append(t.Context(), "s", []session.Message{session.UserText(fmt.Sprint("other ", i))}, nil); err != nil {
				t.Fatal(err)
			}
		}
		return errInjected
	}
	v, err := b.Append(t.Context(), "s", []session.Message{session.UserText("mine")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(t, other, "s"); len(got) != 17 || got[1] != "mine" {
		t.Errorf("%q, want mine once and second", got)
	}
	if s, _ := other.Read(t.Context(), "s", nil); s.Version == v {
		t.Error("Append returned the version of a later write")
	}
}

func TestACancelledWriteThatWasMadeIsReportedAsMade(t *testing.T) {
	d := &stepDriver{memDriver: newMemDriver()}
	b := session.NewBackend(d, nil)
	ctx, cancel := context.WithCancel(t.Context())
	d.after = func(error) error {
		cancel()
		return ctx.Err()
	}
	if _, err := b.Append(ctx, "s", []session.Message{session.UserText("x")}, nil); err != nil {
		t.Errorf("Append() = %v, want nil: the message is stored", err)
	}
}

// countingDriver counts the calls and the bytes that reach its driver.
type countingDriver struct {
	*memDriver
	heads, ranges, added int
}

func (d *countingDriver) Head(ctx context.Context, id string) (session.Head, error) {
	d.heads++
	return d.memDriver.Head(ctx, id)
}

func (d *countingDriver) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	d.ranges++
	return d.memDriver.Range(ctx, id, h, from, to)
}

func (d *countingDriver) Commit(ctx context.Context, id string, c session.Commit) error {
	if c.Head != nil && len(c.Head.Record) >= 1<<10 {
		return fmt.Errorf("record of %d bytes, want under 1 KiB", len(c.Head.Record))
	}
	err := d.memDriver.Commit(ctx, id, c)
	if err == nil {
		d.added += len(c.Add)
	}
	return err
}

func TestCostFollowsTheNewMessages(t *testing.T) {
	d := &countingDriver{memDriver: newMemDriver()}
	b := session.NewBackend(d, nil)
	history := storetest.Messages(100)
	if err := b.Save(t.Context(), "s", history); err != nil {
		t.Fatal(err)
	}
	check := func(what string, wantHeads, wantAdded int, do func() error) {
		t.Helper()
		*d = countingDriver{memDriver: d.memDriver}
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if d.heads != wantHeads || d.ranges != 0 || d.added != wantAdded {
			t.Errorf("%s: %d heads and %d ranges read, %d messages written; want %d, 0, %d",
				what, d.heads, d.ranges, d.added, wantHeads, wantAdded)
		}
	}
	more := storetest.Messages(104)
	check("warm append", 0, 1, func() error {
		_, err := b.Append(t.Context(), "s", more[100:101], nil)
		return err
	})
	check("save with one new message", 0, 1, func() error { return b.Save(t.Context(), "s", more[:102]) })
	check("save of what is stored", 0, 0, func() error { return b.Save(t.Context(), "s", more[:102]) })
	cold := session.NewBackend(d, nil)
	check("cold save with one new message", 1, 1, func() error { return cold.Save(t.Context(), "s", more[:103]) })
	check("save behind another process", 1, 1, func() error { return b.Save(t.Context(), "s", more[:104]) })
	check("keyed appends", 1, 40, func() error {
		for i := range 40 {
			if _, err := cold.Append(t.Context(), "s", more[:1], &session.WriteOptions{Key: fmt.Sprint(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	check("save of another history", 1, 50, func() error { return b.Save(t.Context(), "s", more[1:51]) })
	if _, err := b.Truncate(t.Context(), "s", 20, nil); err != nil {
		t.Fatal(err)
	}
	check("save after truncate", 0, 21, func() error { return b.Save(t.Context(), "s", more[1:22]) })
	check("save after that", 0, 1, func() error { return b.Save(t.Context(), "s", more[1:23]) })
}

func TestMaxBatchBytes(t *testing.T) {
	b := session.NewBackend(newMemDriver(), &session.BackendOptions{MaxBatchBytes: 1000})
	half := session.UserText(strings.Repeat("x", 400))
	if _, err := b.Append(t.Context(), "s", []session.Message{half, half}, nil); err != nil {
		t.Errorf("Append of less than MaxBatchBytes = %v", err)
	}
	if err := b.Save(t.Context(), "s", []session.Message{half, half, half}); !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("Save of more than MaxBatchBytes = %v, want ErrTooLarge", err)
	}
	if got := texts(t, b, "s"); len(got) != 2 {
		t.Errorf("%d messages, want the 2 before", len(got))
	}
}

func TestSalvageReadsPastDamage(t *testing.T) {
	d := newMemDriver()
	b := session.NewBackend(d, nil)
	save(t, b, "s", "0", "1", "2", "3")
	d.sessions["s"].lines[1] = nil
	d.sessions["s"].lines[2] = []byte(`{"role":"us`)
	if _, err := b.Load(t.Context(), "s"); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Load() of a damaged history = %v, want ErrCorrupt", err)
	}
	if s, err := b.Read(t.Context(), "s", &session.ReadOptions{Last: 1}); err != nil || s.Messages[0].Text() != "3" {
		t.Errorf("Read() beside the damage = %v, %v, want message 3", s.Messages, err)
	}
	s, damage, err := b.Salvage(t.Context(), "s")
	if err != nil || len(s.Messages) != 2 || s.Total != 4 || len(damage) != 2 || damage[0].Position != 2 || damage[1].Position != 3 {
		t.Errorf("Salvage() = %d of %d messages, %v, %v; want 2 of 4, damage at 2 and 3", len(s.Messages), s.Total, damage, err)
	}
	head := d.sessions["s"]
	head.head.Record = head.head.Record[:10]
	d.sessions["s"] = head
	for op, err := range map[string]error{
		"Load":   second(session.NewBackend(d, nil).Load(t.Context(), "s")),
		"Info":   second(b.Info(t.Context(), "s")),
		"Append": second(session.NewBackend(d, nil).Append(t.Context(), "s", storetest.Messages(1), nil)),
	} {
		if !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s() with a damaged head = %v, want ErrCorrupt", op, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func save(t *testing.T, s session.Store, id string, texts ...string) {
	t.Helper()
	var m []session.Message
	for _, text := range texts {
		m = append(m, session.UserText(text))
	}
	if err := s.Save(t.Context(), id, m); err != nil {
		t.Fatal(err)
	}
}

func texts(t *testing.T, s session.Store, id string) (texts []string) {
	t.Helper()
	m, err := s.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range m {
		texts = append(texts, m.Text())
	}
	return texts
}

// An append beside an Update does not make it edit again.
func TestUpdateEditsOnceBesideAppends(t *testing.T) {
	d := &stepDriver{memDriver: newMemDriver()}
	b, other := session.NewBackend(d, nil), session.NewBackend(d.memDriver, nil)
	save(t, b, "s", "0")
	edits := 0
	info, err := b.Update(t.Context(), "s", func(m *session.Meta) error {
		if edits++; edits == 1 {
			if _, err := other.Append(t.Context(), "s", storetest.Messages(1), nil); err != nil {
				t.Fatal(err)
			}
		}
		m.Cost++
		return nil
	})
	if err != nil || edits != 1 || info.Cost != 1 || info.Messages != 2 {
		t.Errorf("Update beside an append: %d edits, %+v, %v; want one edit and both changes", edits, info, err)
	}
}

// hungDriver answers no Commit until it is released.
type hungDriver struct {
	*memDriver
	hung    atomic.Bool
	release chan struct{}
}

func (d *hungDriver) Commit(ctx context.Context, id string, c session.Commit) error {
	if d.hung.Load() {
		<-d.release // whatever the context says
	}
	return d.memDriver.Commit(ctx, id, c)
}

// A holder whose store hangs learns by the end of the term that others may have
// its lease.
func TestLeaseIsLostInTimeWhenTheDriverHangs(t *testing.T) {
	d := &hungDriver{memDriver: newMemDriver(), release: make(chan struct{})}
	b := session.NewBackend(d, nil)
	const term = 300 * time.Millisecond
	lease, err := b.Lock(t.Context(), "s", &session.LockOptions{Term: term})
	if err != nil {
		t.Fatal(err)
	}
	d.hung.Store(true)
	select {
	case <-lease.Done():
	case <-time.After(10 * term):
		t.Errorf("Done is not closed after %v, with a term of %v", 10*term, term)
	}
	d.hung.Store(false)
	close(d.release)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// One damaged session does not hide those behind it in a list.
func TestListContinuesBehindDamage(t *testing.T) {
	d := newMemDriver()
	b := session.NewBackend(d, nil)
	for _, id := range []string{"old", "damaged", "new"} {
		save(t, b, id, "x")
	}
	s := d.sessions["damaged"]
	s.head.Record = nil
	d.sessions["damaged"] = s
	var got []string
	var after *session.Info
	for range 3 {
		for info, err := range b.List(t.Context(), &session.ListOptions{After: after}) {
			if err != nil && !errors.Is(err, session.ErrCorrupt) {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(info.ID, " ", err == nil))
			after = &info
		}
	}
	if want := []string{"new true", "damaged false", "old true"}; !slices.Equal(got, want) {
		t.Errorf("List, continued: %q, want %q", got, want)
	}
}
