package filestore

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/crashtest"
)

// agents are what other processes do.
var agents = map[string]crashtest.Role{
	"lock":  agentRole(lockAgent),
	"hold":  agentRole(holdAgent),
	"turn":  agentRole(turnAgent),
	"drain": agentRole(drainAgent),
	"meta":  agentRole(metaAgent),
}

// agentRole opens a manager in the first argument's directory.
func agentRole(do func(m *Manager, args []string) error) crashtest.Role {
	return func(args []string) error {
		m, err := NewManagerIn(args[0])
		if err != nil {
			return err
		}
		return errors.Join(do(m, args[1:]), m.Close())
	}
}

// agent returns a command that runs one of agents in a process of its own, with
// a manager of the same directory.
func agent(t *testing.T, what string, m *Manager, args ...string) *exec.Cmd {
	t.Helper()
	cmd := crashtest.Command(t.Context(), t, what, append([]string{m.BaseDir()}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// startAgent starts an agent and waits for the first line that it prints.
func startAgent(t *testing.T, what string, m *Manager) (cmd *exec.Cmd, lines *bufio.Reader, first string) {
	t.Helper()
	cmd = agent(t, what, m)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines = bufio.NewReader(out)
	if first, err = lines.ReadString('\n'); err != nil {
		t.Fatalf("the process says %q, %v", first, err)
	}
	return cmd, lines, strings.TrimSuffix(first, "\n")
}

func kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

func TestLockFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b, c := open(), open(), open()
	lock := func(f *os.File, exclusive bool, want error) {
		t.Helper()
		if err := lockFile(f, exclusive, false); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("lockFile(exclusive %v) = %v, want %v", exclusive, err, want)
		}
	}
	lock(a, true, nil)
	lock(b, true, errWouldBlock)
	lock(b, false, errWouldBlock)
	if err := unlockFile(a); err != nil {
		t.Error(err)
	}
	lock(a, false, nil)
	lock(b, false, nil)
	lock(c, true, errWouldBlock)
	unlockFile(a)
	b.Close()
	lock(c, true, nil)

	got := make(chan error, 1)
	go func() { got <- lockFile(a, true, true) }()
	select {
	case err := <-got:
		t.Errorf("lockFile of what is locked = %v, want it to wait", err)
	case <-time.After(20 * time.Millisecond):
	}
	c.Close()
	if err := <-got; err != nil {
		t.Errorf("lockFile after a wait = %v", err)
	}
	a.Close()
	if err := lockFile(a, true, false); !errors.Is(err, os.ErrClosed) {
		t.Errorf("lockFile of a closed file = %v, want ErrClosed", err)
	}
}

// TestAcquireLockExcludes has three processes take and release a session's
// lock, and looks whether two ever had it at once.
func TestAcquireLockExcludes(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds = 100
	}
	m := newManager(t)
	record := filepath.Join(t.TempDir(), "record")
	var children []*exec.Cmd
	for range 3 {
		cmd := agent(t, "lock", m, record, fmt.Sprint(rounds))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a process failed: %v", err)
		}
	}
	f, err := os.Open(record)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	holder, n := "", 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		what, pid, _ := strings.Cut(lines.Text(), " ")
		switch {
		case what == "begin" && holder == "":
			holder = pid
		case what == "end" && holder == pid:
			holder = ""
			n++
		default:
			t.Fatalf("after %d rounds: %q while %q has the lock", n, lines.Text(), holder)
		}
	}
	if n != 3*rounds {
		t.Errorf("%d rounds, want %d", n, 3*rounds)
	}
}

func lockAgent(m *Manager, args []string) error {
	record, err := os.OpenFile(args[0], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer record.Close()
	rounds, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for done := 0; done < rounds; {
		release, err := m.AcquireLock("demo")
		if errors.Is(err, session.ErrLocked) {
			time.Sleep(200 * time.Microsecond)
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(record, "begin %d\n", os.Getpid())
		if done%20 == 0 {
			time.Sleep(time.Millisecond)
		}
		fmt.Fprintf(record, "end %d\n", os.Getpid())
		release()
		done++
	}
	return nil
}

// TestAcquireLockAfterKill kills a process that holds a lock.
func TestAcquireLockAfterKill(t *testing.T) {
	m := newManager(t)
	cmd, _, _ := startAgent(t, "hold", m)
	if _, err := m.AcquireLock("demo"); !errors.Is(err, session.ErrLocked) {
		t.Errorf("AcquireLock while another process has it = %v, want ErrLocked", err)
	}
	kill(cmd)
	release, err := m.AcquireLock("demo")
	if err != nil {
		t.Fatalf("AcquireLock after the holder was killed = %v", err)
	}
	release()
	release()
	if release, err = m.AcquireLock("demo"); err != nil {
		t.Errorf("AcquireLock after release = %v", err)
	} else {
		release()
	}
}

func holdAgent(m *Manager, _ []string) error {
	if _, err := m.AcquireLock("demo"); err != nil {
		return err
	}
	fmt.Println("locked")
	time.Sleep(time.Minute) // until it is killed
	return nil
}

// TestAcquireLockTwice checks that two handles of one process exclude each
// other, and that a lock of a session that was deleted is of no other.
func TestAcquireLockTwice(t *testing.T) {
	m := newManager(t)
	s, err := m.Open("demo")
	if err != nil {
		t.Fatal(err)
	}
	release, err := s.AcquireLock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.AcquireLock("demo"); !errors.Is(err, session.ErrLocked) {
		t.Errorf("a second AcquireLock = %v, want ErrLocked", err)
	}
	if err := m.DeleteSession("demo"); err != nil {
		t.Fatal(err)
	}
	again, err := m.AcquireLock("demo") // of another session
	if err != nil {
		t.Fatalf("AcquireLock of a session begun anew = %v", err)
	}
	release() // must not release the other one's
	if _, err := m.AcquireLock("demo"); !errors.Is(err, session.ErrLocked) {
		t.Errorf("AcquireLock after the release of the old session's = %v, want ErrLocked", err)
	}
	again()
}

// TestLockNameThroughDeletion waits for a lock while the session is deleted and
// begun anew.
func TestLockNameThroughDeletion(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	old, err := m.store.lockName(s.dir, lockName, true)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan *os.File)
	go func() {
		f, err := m.store.lockName(s.dir, lockName, true)
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	time.Sleep(20 * time.Millisecond) // until it waits, or the test shows nothing
	if err := m.DeleteSession("demo"); err != nil {
		t.Fatal(err)
	}
	openSession(t, m, "demo")
	held, err := m.store.lockName(s.dir, lockName, true)
	if err != nil {
		t.Fatal(err)
	}
	old.Close()
	select {
	case <-got:
		t.Error("two have the lock")
	case <-time.After(20 * time.Millisecond):
		held.Close()
		(<-got).Close()
	}
}
