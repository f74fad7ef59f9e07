package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/session"
)

var linearRules = []rule{{
	"Linear/IsOneHistory",
	"What concurrent calls through several handles return could have come of some order of them, one after another, that keeps each call within its time.",
	[]Feature{Log}, func(tb testing.TB, s *subject) {
		var logs []session.Log
		for _, p := range s.peers(tb, 3) {
			logs = append(logs, p.log)
		}
		Linearizable(tb, logs, &LinearOptions{Timeout: s.opts.patience})
	},
}}

// LinearOptions are the options of Linearizable. nil and zero values are the
// defaults.
type LinearOptions struct {
	// Rounds is how many histories are made and judged, each on sessions of
	// its own. 0: 12.
	Rounds int
	// Clients is how many goroutines make one, at the same time. 0: 5.
	Clients int
	// Calls is how many calls each makes. 0: 12.
	Calls int
	// Sessions is how many sessions they share. 0: 2.
	Sessions int
	// Seed chooses the calls. 0: 1.
	Seed uint64
	// Prefix is what the sessions' IDs begin with, for a store that is used
	// more than once.
	Prefix string
	// AllowFailures is for stores whose connection is made to fail: a call may
	// return any error, and unless it is one that says that nothing was
	// written, the write may have been made, or may yet be. Otherwise such an
	// error fails the test.
	AllowFailures bool
	// Timeout bounds the judgement of a round, and each of its calls. 0: one
	// minute.
	Timeout time.Duration
}

// Linearizable tests that what stores, all of the same data, return to
// concurrent clients is linearizable: reads of wholes and parts, appends,
// replacements and truncations, with and without IfVersion and Key, and
// deletions by those that are a [session.Catalog]. Versions must agree too.
// Client i uses store i modulo their number.
func Linearizable(t testing.TB, stores []session.Log, opts *LinearOptions) {
	t.Helper()
	var o LinearOptions
	if opts != nil {
		o = *opts
	}
	o.Rounds, o.Clients, o.Calls = orDefault(o.Rounds, 12), orDefault(o.Clients, 5), orDefault(o.Calls, 12)
	o.Sessions, o.Seed = orDefault(o.Sessions, 2), orDefault(o.Seed, 1)
	o.Timeout = orDefault(o.Timeout, time.Minute)
	for round := range o.Rounds {
		l := &linear{stores: stores, opts: o, round: round, start: time.Now()}
		history, err := l.record(t.Context())
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		for _, part := range partition(history) {
			switch porcupine.CheckOperationsTimeout(linearModel, part, o.Timeout) {
			case porcupine.Illegal:
				t.Fatalf("round %d, seed %d: no order of these calls explains what they returned:\n%s", round, o.Seed, describeHistory(part))
			case porcupine.Unknown:
				t.Fatalf("round %d: %d calls could not be judged within %v", round, len(part), o.Timeout)
			}
		}
	}
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// linear records one history.
type linear struct {
	stores []session.Log
	opts   LinearOptions
	round  int
	start  time.Time

	mu       sync.Mutex
	versions map[string][]session.Version // by session, as they were returned
	lost     int                          // writes of which nobody knows whether they were made
}

// maxLost ends a history: to judge it takes time exponential in their number.
const maxLost = 5

// record lets all clients make their calls.
func (l *linear) record(ctx context.Context) ([]porcupine.Operation, error) {
	l.versions = make(map[string][]session.Version)
	histories := make([][]porcupine.Operation, l.opts.Clients)
	errs := make([]error, l.opts.Clients)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for c := range l.opts.Clients {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(l.opts.Seed, uint64(l.round*1000+c)))
			<-start
			for n := 0; n < l.opts.Calls && !l.over(); n++ {
				runtime.Gosched() // a fast store would let one client go after the other
				op, err := l.call(ctx, c, n, random)
				histories[c] = append(histories[c], op)
				if err != nil {
					errs[c] = fmt.Errorf("client %d: %s: %w", c, op.Input.(linearCall), err)
					return
				}
			}
		})
	}
	close(start)
	wg.Wait()
	return slices.Concat(histories...), errors.Join(errs...)
}

// call draws one call, makes it, and notes what it returned and when. The error
// is one that the store has no right to.
func (l *linear) call(ctx context.Context, client, n int, random *rand.Rand) (porcupine.Operation, error) {
	log := l.stores[client%len(l.stores)]
	in := l.draw(client, n, random)
	if _, ok := log.(session.Catalog); in.op == "delete" && !ok {
		in.op = "read"
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	defer cancel()
	op := porcupine.Operation{ClientId: client, Input: in, Call: int64(time.Since(l.start))}
	out, err := in.make(ctx, log)
	op.Return = int64(time.Since(l.start))
	var e *session.Error
	switch {
	case err == nil:
		l.saw(in.id, out.version)
	case errors.Is(err, session.ErrConflict) && errors.As(err, &e):
		out = linearResult{conflict: true, version: e.Current}
		l.saw(in.id, e.Current)
	case !l.opts.AllowFailures:
		return op, err
	default:
		out = linearResult{unknown: in.add}
		if nothingWritten(err) {
			out.unknown = nothing
		} else if in.writes() {
			op.Return = math.MaxInt64 // it may yet be made
			l.lose()
		}
	}
	op.Output = out
	return op, nil
}

// nothing is the name of all errors that say that nothing was written.
const nothing = "nothing"

// nothingWritten reports whether an error says so.
func nothingWritten(err error) bool {
	for _, s := range sentinels {
		if errors.Is(err, s) && s != session.ErrCorrupt {
			return true
		}
	}
	return false
}

func (l *linear) saw(id string, v session.Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.versions[id] = append(l.versions[id], v)
}

func (l *linear) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost++
}

// over reports whether the history has enough of writes that were lost.
func (l *linear) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost >= maxLost
}

// draw chooses a call. Versions to require are recent ones, so that some hold.
func (l *linear) draw(client, n int, random *rand.Rand) linearCall {
	c := linearCall{
		id:  fmt.Sprintf("%sround%d/%d", l.opts.Prefix, l.round, random.IntN(l.opts.Sessions)),
		op:  []string{"append", "append", "append", "read", "read", "replace", "truncate", "delete"}[random.IntN(8)],
		add: fmt.Sprintf("%d.%d", client, n),
		n:   random.IntN(4),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if seen := l.versions[c.id]; len(seen) > 0 && c.writes() && random.IntN(3) == 0 {
		c.ifVersion = seen[max(0, len(seen)-1-random.IntN(3))]
	}
	if c.op == "delete" || c.op == "replace" {
		if random.IntN(2) == 0 { // or else hardly anything ever grows
			c.op = "append"
		}
	} else if c.writes() && random.IntN(3) == 0 {
		c.key = fmt.Sprint("k", random.IntN(6))
	}
	return c
}
