package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/crashtest"
)

func TestMain(m *testing.M) {
	crashtest.Main(m, crashtest.Writing[*Store]{
		Open: func(file string) (*Store, error) { return Open(context.Background(), file, nil) },
		Size: func(n int) int { return n % 9 * 300 },
	}.Roles())
}

func TestTwoProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	s := open(t, file, nil)
	crashtest.TwoProcesses(t, file, nil)
	crashtest.CheckTwoProcesses(t, s)
	wantNoDamage(t, s.driver)
}

func TestKilledWriter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	crashtest.KilledWriter(t, file, 50, func(checkBatches func(session.Backend)) {
		s := open(t, file, nil)
		checkBatches(s)
		wantNoDamage(t, s.driver)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWaitsForOtherProcess holds the write lock as another process would.
func TestWaitsForOtherProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	s := open(t, file, &Options{BusyTimeout: 200 * time.Millisecond})
	appendText(t, s, "s", "a")
	db := rawDB(t, file)
	db.SetMaxOpenConns(1)
	hold := func() {
		t.Helper()
		if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
	}
	release := func() {
		t.Helper()
		if _, err := db.Exec("COMMIT"); err != nil {
			t.Fatal(err)
		}
	}

	hold()
	reader := open(t, file, &Options{BusyTimeout: time.Minute})
	start := time.Now()
	_, err := reader.driver.Head(t.Context(), "s")
	if err != nil || time.Since(start) > 20*time.Second {
		t.Errorf("a read waits for a writer: %v, %v", time.Since(start), err)
	}
	start = time.Now()
	err = s.driver.Commit(t.Context(), "new", newSession("new", `{}`))
	if !isBusy(err) || errors.Is(err, session.ErrConflict) {
		t.Errorf("Commit while the database is locked = %v, want SQLITE_BUSY", err)
	}
	if took := time.Since(start); took < 200*time.Millisecond || took > 20*time.Second {
		t.Errorf("Commit gave up after %v, want about 200ms", took)
	}

	// The context ends a wait, of the leader's own and of those who wait with it.
	s.driver.writer.db.opts.BusyTimeout = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	errs := make(chan error)
	for i := range 3 {
		id := fmt.Sprint("ctx", i)
		go func() { errs <- s.driver.Commit(ctx, id, newSession(id, `{}`)) }()
	}
	for range 3 {
		select {
		case err := <-errs:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Commit = %v, want the context's error", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("Commit does not return when its context ends")
		}
	}
	release()
	for i := range 3 {
		if h, err := s.driver.Head(t.Context(), fmt.Sprint("ctx", i)); err != nil || h.Rev != "" {
			t.Errorf("Head after a write that was cancelled = %+v, %v", h, err)
		}
	}

	// A lock that is released in time is waited for.
	hold()
	go func() { errs <- s.driver.Commit(t.Context(), "later", newSession("later", `{}`)) }()
	select {
	case err := <-errs:
		t.Errorf("Commit returned %v while the database was locked", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	if err := <-errs; err != nil {
		t.Errorf("Commit after the lock was released: %v", err)
	}
}

// newSession returns a commit that creates a session.
func newSession(id string, lines ...string) session.Commit {
	c := session.Commit{SetMeta: true, Head: &session.Head{
		ID: id, Rev: "1-" + id, Base: "1-" + id, Count: len(lines), Updated: start, Record: []byte("record"),
	}}
	for _, l := range lines {
		c.Add = append(c.Add, []byte(l))
	}
	return c
}
