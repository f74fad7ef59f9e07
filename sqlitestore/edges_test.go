package sqlitestore

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// Close waits for a transaction that nobody waits for any more.
func TestCloseAfterWaitsWereWithdrawn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	o, err := (&Options{BusyTimeout: 3 * time.Second}).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDatabase(t.Context(), file, o)
	if err != nil {
		t.Fatal(err)
	}
	other := rawDB(t, file)
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	errs := make(chan error, 2)
	go func() { errs <- d.Commit(first, "a", newSession("a", `{}`)) }()
	for leading := false; !leading; {
		d.writer.mu.Lock()
		leading = d.writer.leading
		d.writer.mu.Unlock()
	}
	go func() { errs <- d.Commit(second, "b", newSession("b", `{}`)) }()
	awaitQueue(t, d.writer, 1)
	cancelFirst()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("Commit that was cancelled = %v", err)
	}
	cancelSecond() // by now or soon, the writer waits in BEGIN for nobody
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("Commit that was cancelled = %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if d.writer.more() {
		t.Error("the writer still leads after Close")
	}
}

// A row whose head was overwritten, because its body is big, is no head when
// what followed it is lost.
func TestLostEndBehindABigMessage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	s := open(t, file, nil)
	appendText(t, s, "s", "1")
	appendText(t, s, "s", strings.Repeat("x", 9000))
	appendText(t, s, "s", "3")
	rawDB(t, file, "DELETE FROM messages WHERE key & 0xff = 3")
	s = open(t, file, nil)
	if got, err := s.Load(t.Context(), "s"); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Load of a history that lost its end = %d messages, %v, want ErrCorrupt", len(got), err)
	}
	if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText("4")}, nil); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Append to a history that lost its end = %v, want ErrCorrupt", err)
	}
	if found, err := s.Check(t.Context()); err != nil || len(found) == 0 {
		t.Errorf("Check finds %v, %v, want the lost end", found, err)
	}
}

func TestHighestSessionNumber(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	s := open(t, file, nil)
	rawDB(t, file, "INSERT INTO sessions (number, id, base) VALUES (0x7ffffffffd, 'z', 'b')")
	appendText(t, s, "last", "1")
	appendText(t, s, "last", "2")
	if got, err := s.Load(t.Context(), "last"); err != nil || len(got) != 2 {
		t.Errorf("Load of the session of the highest number = %d messages, %v, want 2", len(got), err)
	}
}
