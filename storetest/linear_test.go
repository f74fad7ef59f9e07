package storetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var errLost = errors.New("connection reset")

// flaky makes every few calls of the driver fail: one in three of those is
// made all the same.
func (d *brokenDriver) flaky() {
	var calls atomic.Int64
	fails := func() (before, after bool) {
		n := calls.Add(1)
		return n%5 == 0 && n%3 > 0, n%5 == 0 && n%3 == 0
	}
	head, commit := d.head, d.commit
	d.head = func(ctx context.Context, id string) (session.Head, error) {
		if before, after := fails(); before || after {
			return session.Head{}, errLost
		}
		return head(ctx, id)
	}
	d.commit = func(ctx context.Context, id string, c session.Commit) error {
		before, after := fails()
		if before {
			return errLost
		}
		err := commit(ctx, id, c)
		if after {
			return errLost
		}
		return err
	}
}

func logsOf(env *environment, n int) []session.Log {
	logs := []session.Log{env.open(nil).(session.Log)}
	for len(logs) < n {
		logs = append(logs, env.handle().(session.Log))
	}
	return logs
}

func TestLinearizableWithFailures(t *testing.T) {
	env := newEnvironment(func(b *broken) { b.driver.flaky() })
	Linearizable(t, logsOf(env, 3), &LinearOptions{AllowFailures: true, Rounds: 30})
}

func TestLinearizableCatchesBlindRetries(t *testing.T) {
	env := newEnvironment(func(b *broken) {
		b.driver.flaky()
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			for {
				v, err := b.whole.Append(ctx, id, m, &writeOpts{IfVersion: optionsOf(o).IfVersion})
				if !errors.Is(err, errLost) {
					return v, err
				}
			}
		}
	})
	rec := record(t, time.Minute, func(tb testing.TB) {
		Linearizable(tb, logsOf(env, 3), &LinearOptions{AllowFailures: true, Rounds: 100})
	})
	if !rec.Failed() {
		t.Error("a store that retries without looking whether the first try was made passes")
	}
}

func TestLinearizableReportsFailures(t *testing.T) {
	env := newEnvironment(func(b *broken) { b.driver.flaky() })
	rec := record(t, time.Minute, func(tb testing.TB) { Linearizable(tb, logsOf(env, 1), nil) })
	if !rec.Failed() {
		t.Error("errors that the store has no right to pass without AllowFailures")
	}
}

// TestLinearStep shows what the model allows, call by call.
func TestLinearStep(t *testing.T) {
	some := linearState{history: "a#0 a#1", version: "v1", keys: "k" + isAt + "v1" + next}
	lost := linearState{history: "a#0", version: unseen + "e", keys: "k" + isAt + unseen + "e" + next}
	for _, c := range []struct {
		what  string
		state linearState
		call  linearCall
		got   linearResult
		ok    bool
		then  linearState
	}{
		{"append", linearState{version: session.Absent}, linearCall{op: "append", add: "b", n: 1}, linearResult{version: "v1"}, true,
			linearState{history: "b#0", version: "v1"}},
		{"append that returns the old version", some, linearCall{op: "append", add: "b", n: 1}, linearResult{version: "v1"}, false, linearState{}},
		{"retry", some, linearCall{op: "append", add: "b", n: 1, key: "k", ifVersion: "v0"}, linearResult{version: "v1"}, true, some},
		{"retry that conflicts", some, linearCall{op: "append", add: "b", n: 1, key: "k", ifVersion: "v0"}, linearResult{version: "v1", conflict: true}, false, linearState{}},
		{"conflict", some, linearCall{op: "truncate", ifVersion: "v0"}, linearResult{version: "v1", conflict: true}, true, some},
		{"conflict at the required version", some, linearCall{op: "truncate", ifVersion: "v1"}, linearResult{version: "v1", conflict: true}, false, linearState{}},
		{"write at another version", some, linearCall{op: "truncate", ifVersion: "v0"}, linearResult{version: "v2"}, false, linearState{}},
		{"read", some, linearCall{op: "read", n: 1}, linearResult{version: "v1", history: "a#1", total: 2}, true, some},
		{"read of the wrong end", some, linearCall{op: "read", n: 1}, linearResult{version: "v1", history: "a#0", total: 2}, false, linearState{}},
		{"read of what an error left", lost, linearCall{op: "read"}, linearResult{version: "v7", history: "a#0", total: 1}, true,
			linearState{history: "a#0", version: "v7", keys: "k" + isAt + "v7" + next}},
		{"write that failed", some, linearCall{op: "replace", add: "b", n: 1}, linearResult{unknown: "e"}, true,
			linearState{history: "b#0", version: unseen + "e", keys: some.keys}},
		{"write that was refused", some, linearCall{op: "replace", add: "b", n: 1}, linearResult{unknown: nothing}, true, some},
		{"delete", some, linearCall{op: "delete"}, linearResult{version: session.Absent}, true, linearState{version: session.Absent}},
	} {
		ok, then := linearModel.Step(c.state, c.call, c.got)
		if ok != c.ok || ok && then != any(c.then) {
			t.Errorf("%s: Step = %v, %+v, want %v, %+v", c.what, ok, then, c.ok, c.then)
		}
	}
}
