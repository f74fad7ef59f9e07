// Package gate lets a store's Close wait for the calls that are running, and
// turn away those that come later.
package gate

import (
	"math"
	"sync"
	"sync/atomic"
)

// Gate counts running calls and, once closed, admits no more. Make one with New.
type Gate struct {
	calls   atomic.Int64 // running ones; plus shut once closed
	shut    sync.Once
	closing chan struct{}
	drain   sync.Once
	drained chan struct{}
}

// shut is so low that the count of calls can't make it positive again.
const shut = math.MinInt64 / 2

// New returns an open gate.
func New() *Gate {
	return &Gate{closing: make(chan struct{}), drained: make(chan struct{})}
}

// Enter admits a call, which calls Leave when it ends. It returns false if the
// gate has been closed.
func (g *Gate) Enter() bool {
	if g.calls.Add(1) > 0 {
		return true
	}
	g.Leave()
	return false
}

// Leave ends a call that Enter has admitted.
func (g *Gate) Leave() {
	if g.calls.Add(-1) == shut {
		g.drain.Do(func() { close(g.drained) })
	}
}

// Closing returns a channel that is closed when Close begins: calls that wait
// for something give up.
func (g *Gate) Closing() <-chan struct{} { return g.closing }

// Close shuts the gate and waits until no call is running. It reports whether
// it is the first Close.
func (g *Gate) Close() (first bool) {
	g.shut.Do(func() {
		first = true
		close(g.closing)
		g.calls.Add(shut + 1) // Close itself counts as a call until here
		g.Leave()
	})
	<-g.drained
	return first
}
