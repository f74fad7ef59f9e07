package crashtest

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

// TwoProcesses lets two processes append to one session of the store at a
// place, and calls beside, unless it is nil, until both have ended.
// CheckTwoProcesses tells whether all is there.
func TwoProcesses(t *testing.T, place string, beside func()) {
	t.Helper()
	names := []string{"a", "b"}
	outputs := make([]strings.Builder, len(names))
	ended := make(chan error, len(names))
	for i, name := range names {
		cmd := Command(t.Context(), t, "append", place, name)
		cmd.Stderr = &outputs[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- cmd.Wait() }()
	}
	for running := len(names); running > 0; {
		if beside != nil && len(ended) == 0 {
			beside()
			continue
		}
		running--
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for i := range outputs {
		if outputs[i].Len() > 0 {
			t.Errorf("process %s: %s", names[i], outputs[i].String())
		}
	}
}

// CheckTwoProcesses checks that a store has what both processes have appended,
// each one's messages in order.
func CheckTwoProcesses(t *testing.T, s session.Store) {
	t.Helper()
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
	if len(got) != 2*appends {
		t.Errorf("%d messages, want %d", len(got), 2*appends)
	}
}

// batch is a batch that a writer wrote.
type batch struct {
	id, round string
	n         int
}

// KilledWriter kills a process that writes to the store at a place, again and
// again; with -short a few times only. What it had acknowledged is there, and
// each batch is whole or absent. Every fifth round check opens the store, has it
// checked and does what else it wants.
func KilledWriter(t *testing.T, place string, rounds int, check func(checkBatches func(session.Backend))) {
	t.Helper()
	if testing.Short() {
		rounds = min(rounds, 5)
	}
	acknowledged := map[batch]bool{}
	for round := range rounds {
		killWriter(t, place, fmt.Sprint("r", round), acknowledged)
		if round%5 == 4 || round == rounds-1 {
			check(func(s session.Backend) { checkBatches(t, s, round, acknowledged) })
		}
	}
}

// killWriter runs a writer, kills it after some batches and notes which it has
// acknowledged.
func killWriter(t *testing.T, place, name string, acknowledged map[batch]bool) {
	cmd := Command(t.Context(), t, "write", place, name)
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
		var b batch
		if _, err := fmt.Sscan(lines.Text(), &b.id, &b.round, &b.n); err == nil {
			acknowledged[b] = true
		}
	}
	cmd.Wait() // "signal: killed"
	if stderr.Len() > 0 {
		t.Fatalf("round %s: the writer failed: %s", name, stderr.String())
	}
}

func checkBatches(t *testing.T, s session.Backend, round int, acknowledged map[batch]bool) {
	stored := map[batch]bool{}
	for i := range writtenSessions {
		id := fmt.Sprint("s", i)
		got, err := s.Load(t.Context(), id)
		if err != nil {
			t.Fatalf("round %d: Load(%q): %v", round, id, err)
		}
		for i, m := range got {
			b := batch{id: id}
			var part int
			fmt.Sscan(m.Text(), &b.round, &b.n, &part)
			if part != i%batchMessages {
				t.Fatalf("round %d: part %d of a batch at position %d of %q", round, part, i+1, id)
			}
			stored[b] = true
		}
		if _, err := s.Info(t.Context(), id); err != nil {
			t.Errorf("round %d: Info(%q): %v", round, id, err)
		}
		if len(got)%batchMessages != 0 {
			t.Errorf("round %d: %q has %d messages, not whole batches of %d", round, id, len(got), batchMessages)
		}
	}
	for b := range acknowledged {
		if !stored[b] {
			t.Fatalf("round %d: batch %+v was acknowledged and is not there", round, b)
		}
	}
}
