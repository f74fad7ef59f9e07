package sqlitestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// childEnv makes the test binary a child process: what it does, the file, and
// its name.
const childEnv = "SQLITESTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if child := strings.Split(os.Getenv(childEnv), "\n"); len(child) == 3 {
		run := map[string]func(s *Store, name string) error{"append": appendChild, "write": writeChild}[child[0]]
		s, err := Open(context.Background(), child[1], nil)
		if err == nil {
			err = errors.Join(run(s, child[2]), s.Close())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func childCommand(t *testing.T, what, file, name string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{what, file, name}, "\n"))
	return cmd
}

const childAppends = 2000

func appendChild(s *Store, name string) error {
	for n := range childAppends {
		_, err := s.Append(context.Background(), "s", []session.Message{session.UserText(fmt.Sprint(name, " ", n))}, nil)
		if err != nil {
			return fmt.Errorf("append %d: %w", n, err)
		}
	}
	return nil
}

// TestTwoProcesses lets two processes append to one session.
func TestTwoProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.db")
	s := open(t, file, nil)
	names := []string{"a", "b"}
	outputs := make([]strings.Builder, len(names))
	var cmds []*exec.Cmd
	for i, name := range names {
		cmd := childCommand(t, "append", file, name)
		cmd.Stderr = &outputs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %s: %v\n%s", names[i], err, outputs[i].String())
		}
	}
	got, err := s.Load(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	for _, m := range got {
		var name string
		var n int
		fmt.Sscan(m.Text(), &name, &n)
		if n != next[name] {
			t.Fatalf("message %d of process %s, want %d", n, name, next[name])
		}
		next[name]++
	}
	if len(got) != 2*childAppends {
		t.Errorf("%d messages, want %d", len(got), 2*childAppends)
	}
	wantNoDamage(t, s.driver)
}

// writeChild appends batches of three to several sessions at once, and prints
// each batch when it is acknowledged.
func writeChild(s *Store, name string) error {
	acknowledged := make(chan string)
	for w := range 4 {
		go func() {
			for n := 0; ; n++ {
				id := fmt.Sprint("s", w)
				var batch []session.Message
				for i := range 3 {
					batch = append(batch, session.UserText(fmt.Sprintf("%s %d %d %s", name, n, i, strings.Repeat("x", n%9*300))))
				}
				if _, err := s.Append(context.Background(), id, batch, nil); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				acknowledged <- fmt.Sprint(id, " ", name, " ", n)
			}
		}()
	}
	for line := range acknowledged {
		fmt.Println(line) // unbuffered
	}
	return nil
}

// TestKilledWriter kills a process that writes, again and again. What it had
// acknowledged is there, and each batch is whole or absent.
func TestKilledWriter(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 5
	}
	file := filepath.Join(t.TempDir(), "x.db")
	type batch struct {
		id, round string
		n         int
	}
	acknowledged := map[batch]bool{}
	for round := range rounds {
		cmd := childCommand(t, "write", file, fmt.Sprint("r", round))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for kill := 10 + rand.IntN(90); lines.Scan(); {
			if kill--; kill == 0 {
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			var b batch
			if _, err := fmt.Sscan(lines.Text(), &b.id, &b.round, &b.n); err == nil {
				acknowledged[b] = true
			}
		}
		cmd.Wait() // "signal: killed"
		if stderr.Len() > 0 {
			t.Fatalf("round %d: the writer failed: %s", round, stderr.String())
		}
		if round%5 != 4 && round != rounds-1 {
			continue
		}
		s := open(t, file, nil)
		stored := map[batch]bool{}
		for w := range 4 {
			id := fmt.Sprint("s", w)
			got, err := s.Load(t.Context(), id)
			if err != nil {
				t.Fatalf("round %d: Load(%q): %v", round, id, err)
			}
			for i, m := range got {
				var name string
				var n, part int
				fmt.Sscan(m.Text(), &name, &n, &part)
				if part != i%3 {
					t.Fatalf("round %d: part %d of a batch at position %d of %q", round, part, i+1, id)
				}
				stored[batch{id, name, n}] = true
			}
			if len(got)%3 != 0 {
				t.Errorf("round %d: %q has %d messages, not whole batches of 3", round, id, len(got))
			}
		}
		for b := range acknowledged {
			if !stored[b] {
				t.Fatalf("round %d: batch %+v was acknowledged and is not there", round, b)
			}
		}
		wantNoDamage(t, s.driver)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
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
	start := time.Now()
	_, err := s.driver.Head(t.Context(), "s")
	if err != nil || time.Since(start) > 100*time.Millisecond {
		t.Errorf("a read waits for a writer: %v, %v", time.Since(start), err)
	}
	err = s.driver.Commit(t.Context(), "new", newSession("new", `{}`))
	if !isBusy(err) || errors.Is(err, session.ErrConflict) {
		t.Errorf("Commit while the database is locked = %v, want SQLITE_BUSY", err)
	}
	if took := time.Since(start); took < 200*time.Millisecond || took > 5*time.Second {
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
