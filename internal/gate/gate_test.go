package gate

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestCloseWaitsForRunningCalls(t *testing.T) {
	g := New()
	for range 2 {
		if !g.Enter() {
			t.Fatal("Enter() = false on an open gate")
		}
	}
	var closed atomic.Bool
	done := make(chan bool)
	go func() {
		first := g.Close()
		closed.Store(true)
		done <- first
	}()
	<-g.Closing()
	for g.Enter() { // Close has begun; its mark follows at once
		g.Leave()
	}
	g.Leave()
	if closed.Load() {
		t.Error("Close returned while a call was running")
	}
	g.Leave()
	if first := <-done; !first {
		t.Error("Close() = false, want true for the first")
	}
	if g.Close() {
		t.Error("second Close() = true, want false")
	}
	if g.Enter() {
		t.Error("Enter() = true after Close")
	}
}

func TestConcurrentUse(t *testing.T) {
	g := New()
	var running atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for g.Enter() {
				running.Add(1)
				running.Add(-1)
				g.Leave()
			}
		})
	}
	g.Close()
	if n := running.Load(); n != 0 {
		t.Errorf("%d calls running after Close", n)
	}
	wg.Wait()
}
