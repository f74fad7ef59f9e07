// Package faults says which calls of a test go wrong, and counts them. How they
// do is the matter of the packages that stand between a client and its server.
package faults

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// Random returns a function that lets each fault happen to a share of the
// calls, 0 to 1, the same ones for the same seed and order of calls. The zero
// fault is none.
func Random[Call any, Fault ~int](seed uint64, shares map[Fault]float64) func(Call) Fault {
	random := rand.New(rand.NewPCG(seed, 0))
	order := slices.Sorted(maps.Keys(shares))
	return func(Call) Fault {
		at := random.Float64()
		for _, f := range order {
			if at < shares[f] {
				return f
			}
			at -= shares[f]
		}
		return 0
	}
}

// Picker picks the faults of calls and counts them. The zero Picker is ready
// for use, by any number of goroutines.
type Picker[Fault ~int] struct {
	mu     sync.Mutex
	off    bool
	calls  int
	named  map[string]int
	counts map[Fault]int
}

// Pick returns what becomes of a call of the given name: what choose says, and
// the zero fault after Stop. n is the how-manyth call it is, from 1. choose is
// never called twice at once.
func (p *Picker[Fault]) Pick(name string, choose func(n int) Fault) (fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts == nil {
		p.named, p.counts = make(map[string]int), make(map[Fault]int)
	}
	p.calls++
	p.named[name]++
	if !p.off {
		fault = choose(p.calls)
	}
	p.counts[fault]++
	return fault
}

// Stop lets all later calls be.
func (p *Picker[Fault]) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
}

// Count returns how many calls had a fault.
func (p *Picker[Fault]) Count(fault Fault) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[fault]
}

// Calls returns how many calls of a name there were, of all with "".
func (p *Picker[Fault]) Calls(name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == "" {
		return p.calls
	}
	return p.named[name]
}
