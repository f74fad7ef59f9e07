package sqlitestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

func wantNoDamage(t *testing.T, d *database) {
	t.Helper()
	found, err := d.check(t.Context())
	if err != nil {
		t.Errorf("Check: %v", err)
	}
	for _, f := range found {
		t.Errorf("Check found: %s, position %d: %v", f.Where, f.Position, f.Err)
	}
}

// TestCheckFinds breaks each thing that Check looks at.
func TestCheckFinds(t *testing.T) {
	for _, tc := range []struct{ name, script, where, what string }{
		{"gap", "DELETE FROM messages WHERE key & 0xff = 2", `session "s"`, "the message before it is missing"},
		{"lost head", "UPDATE messages SET rev = NULL WHERE key & 0xff = 5", `session "s"`, "lost its head"},
		{"lost end", "DELETE FROM messages WHERE key & 0xff = 5", `session "s"`, "lost its head"},
		{"second head", "UPDATE messages SET rev = '1-x' WHERE key & 0xff = 1", `session "s"`, "not the last"},
		{"no body", "UPDATE messages SET body = NULL WHERE key & 0xff = 3", `session "s"`, "without a message"},
		{"not a message", "UPDATE messages SET body = '{' WHERE key & 0xff = 3", `session "s"`, ""},
		{"orphan", "INSERT INTO messages (key, body) VALUES ((99 << 24) + 1, '{}')", "messages", "number 99"},
		{"position 0", "INSERT INTO messages (key, body) SELECT number << 24, '{}' FROM sessions", `session "s"`, "position 0"},
		{"listed", "UPDATE sessions SET listed = listed + 1000000000", `session "s"`, "listed"},
		{"listed too early", "UPDATE sessions SET listed = listed - 10000000000", `session "s"`, "listed"},
		{"not listed", "UPDATE sessions SET listed = NULL", `session "s"`, "listed"},
		{"due", "UPDATE sessions SET due = 1", `session "s"`, "due"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.db")
			s := open(t, file, nil)
			for i := range 5 {
				appendText(t, s, "s", fmt.Sprint(i))
			}
			wantNoDamage(t, s.driver)
			rawDB(t, file, tc.script)
			found, err := s.Check(t.Context())
			if err != nil {
				t.Fatalf("Check: %v", err)
			}
			for _, f := range found {
				if f.Where == tc.where && errors.Is(f.Err, session.ErrCorrupt) && strings.Contains(f.Err.Error(), tc.what) {
					return
				}
			}
			t.Errorf("Check = %v, want one at %s that says %q", found, tc.where, tc.what)
		})
	}
}

// TestDamagedPage overwrites a page of messages: the others can still be read.
func TestDamagedPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	s, err := Open(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		appendText(t, s, "s", fmt.Sprint(i, strings.Repeat("x", 1000)))
	}
	var page, cells int64
	err = s.driver.readers.QueryRow("SELECT pageno, ncell FROM dbstat WHERE name = 'messages' AND pagetype = 'leaf' ORDER BY path LIMIT 1 OFFSET 3").Scan(&page, &cells)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(strings.Repeat("\xff", 4096)), (page-1)*4096); err != nil {
		t.Fatal(err)
	}
	f.Close()

	s = open(t, file, nil)
	if _, err := s.Load(t.Context(), "s"); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Load = %v, want ErrCorrupt", err)
	}
	got, damage, err := s.Salvage(t.Context(), "s")
	if err != nil || int64(len(damage)) != cells || int64(len(got.Messages)) != 40-cells || got.Total != 40 {
		t.Errorf("Salvage = %d messages of %d, %d damaged, %v; want %d damaged of 40", len(got.Messages), got.Total, len(damage), err, cells)
	}
	found, err := s.Check(t.Context())
	if len(found) == 0 && !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Check = %v, %v, want damage", found, err)
	}
	appendText(t, s, "s", "goes on")
}

// TestSweep lets sessions expire.
func TestSweep(t *testing.T) {
	var now atomic.Int64
	now.Store(start.UnixNano())
	file := filepath.Join(t.TempDir(), "x.db")
	s := open(t, file, &Options{TTL: time.Hour, Clock: func() time.Time { return timeOf(now.Load()) }})
	sweep := func(want int) {
		t.Helper()
		s.driver.sweeps.wait()
		if n, err := s.Sweep(t.Context()); err != nil || n != want {
			t.Errorf("Sweep = %d, %v, want %d", n, err, want)
		}
	}
	count := func(table string, want int) {
		t.Helper()
		var n int
		if err := s.driver.readers.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil || n != want {
			t.Errorf("%d %s, %v, want %d", n, table, err, want)
		}
	}
	const sessions = 200
	for i := range sessions {
		appendText(t, s, fmt.Sprint("s", i), "a")
	}
	sweep(0)
	now.Add(int64(50 * time.Minute))
	appendText(t, s, "s7", "b") // starts a sweep, and stays behind in sessions.due
	sweep(0)
	now.Add(int64(10 * time.Minute))
	count("sessions", sessions)
	sweep(sessions - 1)
	count("sessions", 1)
	count("messages", 2)
	wantNoDamage(t, s.driver)
	appendText(t, s, "s7", "c")
	s.driver.sweeps.wait()
	now.Add(int64(time.Hour))
	sweep(1)
	count("messages", 0)

	// A write removes some by itself.
	for i := range 10 {
		appendText(t, s, fmt.Sprint("s", i), "a")
	}
	s.driver.sweeps.wait()
	now.Add(int64(2 * time.Hour))
	appendText(t, s, "new", "a")
	s.driver.sweeps.wait()
	count("sessions", 1)
	wantNoDamage(t, s.driver)
}
