// Package crashtest tests stores whose sessions several processes write, or one
// that is killed.
package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

// childEnv makes a test binary a child process: its role and the arguments, a
// line each.
const childEnv = "SESSION_TEST_CHILD"

// A Role is what a child process does.
type Role func(args []string) error

// Main runs a package's tests or, in a process that Command has started, the
// role that it was given.
func Main(m *testing.M, roles map[string]Role) {
	child, ok := os.LookupEnv(childEnv)
	if !ok {
		os.Exit(m.Run())
	}
	args := strings.Split(child, "\n")
	if err := roles[args[0]](args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Command returns a process of this test binary that has a role. It is killed
// when ctx is done.
func Command(ctx context.Context, tb testing.TB, role string, args ...string) *exec.Cmd {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(append([]string{role}, args...), "\n"))
	return cmd
}

// Writing is how the child processes of TwoProcesses and KilledWriter write.
type Writing[S session.Backend] struct {
	Open func(place string) (S, error)
	// Size is how long the texts of a batch are. n counts from 0.
	Size func(n int) int
	// Batch stores a batch. nil: it is appended.
	Batch func(ctx context.Context, s S, id string, batch []session.Message, n int) error
}

// Roles are what Main has to know of it.
func (w Writing[S]) Roles() map[string]Role {
	return map[string]Role{"append": w.append, "write": w.write}
}

const appends = 2000

// append appends to a session, one by one.
func (w Writing[S]) append(args []string) error {
	place, name := args[0], args[1]
	s, err := w.Open(place)
	if err != nil {
		return err
	}
	for n := range appends {
		if _, err = s.Append(context.Background(), "s", []session.Message{session.UserText(fmt.Sprint(name, " ", n))}, nil); err != nil {
			err = fmt.Errorf("append %d: %w", n, err)
			break
		}
	}
	return errors.Join(err, s.Close())
}

const (
	writtenSessions = 4
	batchMessages   = 3
)

// write writes batches to several sessions at once, until it is killed, and
// prints each when it is acknowledged.
func (w Writing[S]) write(args []string) error {
	place, name := args[0], args[1]
	s, err := w.Open(place)
	if err != nil {
		return err
	}
	acknowledged, failed := make(chan string), make(chan error)
	for i := range writtenSessions {
		id := fmt.Sprint("s", i)
		go func() {
			for n := 0; ; n++ {
				if err := w.writeBatch(s, id, name, n); err != nil {
					failed <- err
					return
				}
				acknowledged <- fmt.Sprint(id, " ", name, " ", n)
			}
		}()
	}
	for {
		select {
		case line := <-acknowledged:
			fmt.Println(line) // unbuffered
		case err := <-failed:
			return err
		}
	}
}

func (w Writing[S]) writeBatch(s S, id, name string, n int) error {
	var batch []session.Message
	for i := range batchMessages {
		batch = append(batch, session.UserText(fmt.Sprintf("%s %d %d %s", name, n, i, strings.Repeat("x", w.Size(n)))))
	}
	if w.Batch != nil {
		return w.Batch(context.Background(), s, id, batch, n)
	}
	_, err := s.Append(context.Background(), id, batch, nil)
	return err
}
