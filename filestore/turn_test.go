package filestore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

func TestMarkTurnStart(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	if pid, live := s.TurnPID(); pid != 0 || live {
		t.Errorf("TurnPID before a turn = %d, %v", pid, live)
	}
	end, err := s.MarkTurnStart()
	if err != nil {
		t.Fatal(err)
	}
	if pid, live := openSession(t, m, "demo").TurnPID(); pid != os.Getpid() || !live {
		t.Errorf("TurnPID = %d, %v, want this process", pid, live)
	}
	data, err := os.ReadFile(s.TurnPIDPath())
	if first, _, _ := strings.Cut(string(data), "\n"); err != nil || first != fmt.Sprint(os.Getpid()) {
		t.Errorf("the first line of turn.pid is %q, %v", first, err)
	}
	if _, err := s.MarkTurnStart(); !errors.Is(err, session.ErrLocked) {
		t.Errorf("MarkTurnStart during a turn = %v, want ErrLocked", err)
	}
	if names, err := m.ActiveTurns(); err != nil || !cmp.Equal(names, []string{"demo"}) {
		t.Errorf("ActiveTurns = %v, %v, want demo", names, err)
	}
	end()
	if pid, live := s.TurnPID(); pid != 0 || live {
		t.Errorf("TurnPID after the turn = %d, %v", pid, live)
	}
	next, err := s.MarkTurnStart()
	if err != nil {
		t.Fatal(err)
	}
	end() // again, which must not end the next turn
	if _, live := s.TurnPID(); !live {
		t.Error("ending a turn twice has ended the next one")
	}
	next()
	if names, err := m.ActiveTurns(); err != nil || len(names) != 0 {
		t.Errorf("ActiveTurns without one = %v, %v", names, err)
	}
}

// TestTurnPIDOfOthers checks records of processes that are not what they seem.
func TestTurnPIDOfOthers(t *testing.T) {
	s := openSession(t, newManager(t), "demo")
	birth, running := processBirth(os.Getpid())
	if !running {
		t.Fatal("this process does not run")
	}
	if birth == "" {
		t.Skip("this system does not tell when processes were started")
	}
	for what, c := range map[string]struct {
		text string
		pid  int
		live bool
	}{
		"this process":                        {fmt.Sprintf("%d\n%s\n", os.Getpid(), birth), os.Getpid(), true},
		"an earlier process with this number": {fmt.Sprintf("%d\n%s1\n", os.Getpid(), birth), os.Getpid(), false},
		"a number alone":                      {fmt.Sprintf("%d", os.Getpid()), os.Getpid(), false},
		"nothing":                             {"", 0, false},
		"no number":                           {"abc\n", 0, false},
		"a negative number":                   {"-1\n", 0, false},
		"NULs":                                {strings.Repeat("\x00", 10), 0, false},
	} {
		if err := os.WriteFile(s.TurnPIDPath(), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		pid, live := s.TurnPID()
		if live != c.live || c.pid > 0 && pid != c.pid {
			t.Errorf("TurnPID with %s = %d, %v, want %d, %v", what, pid, live, c.pid, c.live)
		}
		if end, err := s.MarkTurnStart(); (err == nil) == c.live {
			t.Errorf("MarkTurnStart with %s = %v", what, err)
		} else if err == nil {
			end()
		}
	}
}

// TestTurnPIDAfterKill kills a process in the middle of a turn.
func TestTurnPIDAfterKill(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	cmd, _, _ := startAgent(t, "turn", m)
	if pid, live := s.TurnPID(); pid != cmd.Process.Pid || !live {
		t.Errorf("TurnPID = %d, %v, want %d", pid, live, cmd.Process.Pid)
	}
	cmd.Process.Kill()
	for end := time.Now().Add(10 * time.Second); ; { // a process that nobody has waited for is no live turn either
		pid, live := s.TurnPID()
		if pid != cmd.Process.Pid {
			t.Errorf("TurnPID = %d, want %d", pid, cmd.Process.Pid)
		}
		if !live {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a killed process still has its turn")
		}
		time.Sleep(time.Millisecond)
	}
	cmd.Wait()
	end, err := s.MarkTurnStart()
	if err != nil {
		t.Fatalf("MarkTurnStart after a kill = %v", err)
	}
	end()
}

func turnAgent(m *Manager, _ []string) error {
	s, err := m.Open("demo")
	if err != nil {
		return err
	}
	if _, err := s.MarkTurnStart(); err != nil {
		return err
	}
	fmt.Println("turn")
	time.Sleep(time.Minute) // until it is killed
	return nil
}

// TestActiveTurnOfLongName runs the first turn of a session whose directory's
// name doesn't tell its own.
func TestActiveTurnOfLongName(t *testing.T) {
	m := newManager(t)
	name := strings.Repeat("Я", 40)
	end, err := openSession(t, m, name).MarkTurnStart()
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if names, err := m.ActiveTurns(); err != nil || !cmp.Equal(names, []string{name}) {
		t.Errorf("ActiveTurns = %v, %v, want the session", names, err)
	}
}
