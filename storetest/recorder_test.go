package storetest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is a testing.TB that keeps what a rule reports to itself. What it
// does not override is the embedded test's.
type recorder struct {
	testing.TB
	ctx  context.Context
	stop context.CancelFunc

	mu       sync.Mutex
	failed   bool
	skipped  bool
	panicked any
	errors   []string
	cleanups []func()
}

// record runs f on a recorder, which ends when f has returned or called FailNow
// or SkipNow, and returns it. f that does not return in time fails tb.
func record(tb testing.TB, patience time.Duration, f func(testing.TB)) *recorder {
	tb.Helper()
	r := &recorder{TB: tb}
	r.ctx, r.stop = context.WithCancel(tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.end()
		defer func() { r.panicked = recover() }()
		f(r)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		tb.Fatalf("a rule has not returned after %v; until then it reported: %s", patience, r.first())
	}
	return r
}

func (r *recorder) end() {
	r.stop()
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		f := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		f()
	}
}

// first returns the first line of the first thing that was reported.
func (r *recorder) first() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errors) == 0 {
		return "nothing"
	}
	line, _, _ := strings.Cut(r.errors[0], "\n")
	return cut(line, 250)
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) report(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.errors = append(r.errors, text)
}

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Skipped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped
}

func (r *recorder) SkipNow() {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) FailNow()                        { r.Fail(); runtime.Goexit() }
func (r *recorder) Error(args ...any)               { r.report(fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, args ...any)    { r.report(fmt.Sprintf(f, args...)) }
func (r *recorder) Fatal(args ...any)               { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, args ...any)    { r.Errorf(f, args...); runtime.Goexit() }
func (r *recorder) Skip(args ...any)                { r.SkipNow() }
func (r *recorder) Skipf(format string, a ...any)   { r.SkipNow() }
func (r *recorder) Log(args ...any)                 {}
func (r *recorder) Logf(format string, args ...any) {}
func (r *recorder) Helper()                         {}
