package faults_test

import (
	"testing"

	"github.com/holdfast-go/session/internal/faults"
)

type fault int

func TestRandomFaultsAreTheSameAgain(t *testing.T) {
	shares := map[fault]float64{4: 0.2, 1: 0.1}
	a, b := faults.Random[string](7, shares), faults.Random[string](7, shares)
	counts := make(map[fault]int)
	for range 10_000 {
		x, y := a(""), b("")
		if x != y {
			t.Fatalf("faults differ: %v and %v", x, y)
		}
		counts[x]++
	}
	for fault, share := range map[fault]float64{4: 0.2, 1: 0.1, 0: 0.7} {
		if got := float64(counts[fault]) / 10_000; got < share*0.9 || got > share*1.1 {
			t.Errorf("%v: a share of %v, want about %v", fault, got, share)
		}
	}
}

func TestPicker(t *testing.T) {
	var p faults.Picker[fault]
	second := func(n int) fault {
		if n == 2 {
			return 3
		}
		return 0
	}
	for i, want := range []fault{0, 3, 0} {
		if got := p.Pick("get", second); got != want {
			t.Errorf("call %d: fault %v, want %v", i+1, got, want)
		}
	}
	p.Stop()
	if got := p.Pick("put", func(int) fault { return 3 }); got != 0 {
		t.Errorf("after Stop: fault %v, want none", got)
	}
	if p.Count(3) != 1 || p.Count(0) != 3 || p.Calls("get") != 3 || p.Calls("put") != 1 || p.Calls("") != 4 {
		t.Errorf("counts %d, %d, calls %d, %d, %d; want 1, 3 and 3, 1, 4",
			p.Count(3), p.Count(0), p.Calls("get"), p.Calls("put"), p.Calls(""))
	}
}
