package filestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

// childEnv makes the test binary a child process: what it does, the directory,
// and its name.
const childEnv = "FILESTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	beAgent()
	if child := strings.Split(os.Getenv(childEnv), "\n"); len(child) == 3 {
		if child[0] == "serve" {
			if err := serveChild(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
		run := map[string]func(s *Store, name string) error{"append": appendChild, "write": writeChild}[child[0]]
		s, err := New(child[1], &Options{Durability: DurabilityNormal, MaxOpenFiles: 2})
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

func childCommand(t *testing.T, what, dir, name string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{what, dir, name}, "\n"))
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

// TestTwoProcesses lets two processes append to one session, while a third reads
// it.
func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	s, told := openStore(t, dir, nil)
	names := []string{"a", "b"}
	outputs := make([]strings.Builder, len(names))
	done := make(chan error, len(names))
	for i, name := range names {
		cmd := childCommand(t, "append", dir, name)
		cmd.Stderr = &outputs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { done <- cmd.Wait() }()
	}
	for running := len(names); running > 0; {
		select {
		case err := <-done:
			if running--; err != nil {
				t.Error(err)
			}
		default:
			if _, err := s.Read(t.Context(), "s", &session.ReadOptions{Last: 5}); err != nil {
				t.Fatalf("Read beside writers: %v", err)
			}
		}
	}
	for i := range outputs {
		if outputs[i].Len() > 0 {
			t.Errorf("process %s: %s", names[i], outputs[i].String())
		}
	}
	again, _ := openStore(t, dir, nil)
	for _, s := range []*Store{s, again} {
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
	}
	if d := told.take(); len(d) > 0 {
		t.Errorf("damage: %v", d)
	}
}

// writeChild writes batches of three to several sessions at once, some of them
// large, and prints each batch when it is acknowledged. From time to time it
// drops the last batch again.
func writeChild(s *Store, name string) error {
	acknowledged := make(chan string)
	for w := range 4 {
		go func() {
			id := fmt.Sprint("s", w)
			for n := 0; ; n++ {
				var batch []session.Message
				for i := range 3 {
					batch = append(batch, session.UserText(fmt.Sprintf("%s %d %d %s", name, n, i, strings.Repeat("x", n%9*n%9*3000))))
				}
				if err := writeBatch(s, id, batch, n); err != nil {
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

func writeBatch(s *Store, id string, batch []session.Message, n int) error {
	ctx := context.Background()
	if _, err := s.Append(ctx, id, batch, nil); err != nil {
		return err
	}
	if n%7 == 3 {
		info, err := s.Info(ctx, id)
		if err != nil {
			return err
		}
		if _, err := s.Truncate(ctx, id, info.Messages-3, nil); err != nil {
			return err
		}
		_, err = s.Append(ctx, id, batch, nil)
		return err
	}
	if n%11 == 5 {
		_, err := s.Update(ctx, id, func(m *session.Meta) error { m.Title = fmt.Sprint(n); return nil })
		return err
	}
	return nil
}

// storedBatch is a batch that writeChild writes.
type storedBatch struct {
	id, round string
	n         int
}

// TestKilledWriter kills a process that writes, again and again. What it had
// acknowledged is there, and each batch is whole or absent.
func TestKilledWriter(t *testing.T) {
	rounds := 100
	if testing.Short() {
		rounds = 5
	}
	dir := t.TempDir()
	acknowledged := map[storedBatch]bool{}
	for round := range rounds {
		killWriter(t, dir, fmt.Sprint("r", round), acknowledged)
		if round%5 == 4 || round == rounds-1 {
			checkBatches(t, dir, round, acknowledged)
		}
	}
}

// killWriter runs a writer, kills it after some batches and notes which it has
// acknowledged.
func killWriter(t *testing.T, dir, name string, acknowledged map[storedBatch]bool) {
	cmd := childCommand(t, "write", dir, name)
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
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		var b storedBatch
		if _, err := fmt.Sscan(lines.Text(), &b.id, &b.round, &b.n); err == nil {
			acknowledged[b] = true
		}
	}
	cmd.Wait() // "signal: killed"
	if stderr.Len() > 0 {
		t.Fatalf("round %s: the writer failed: %s", name, stderr.String())
	}
}

func checkBatches(t *testing.T, dir string, round int, acknowledged map[storedBatch]bool) {
	s, _ := openStore(t, dir, nil)
	stored := map[storedBatch]bool{}
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
			stored[storedBatch{id, name, n}] = true
		}
		if len(got)%3 != 0 {
			t.Errorf("round %d: %q has %d messages, not whole batches of 3", round, id, len(got))
		}
		if _, err := s.Info(t.Context(), id); err != nil {
			t.Errorf("round %d: Info(%q): %v", round, id, err)
		}
	}
	for b := range acknowledged {
		if !stored[b] {
			t.Fatalf("round %d: batch %+v was acknowledged and is not there", round, b)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
