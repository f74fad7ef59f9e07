package storetest

import (
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Broken stores fail on purpose: neither note how nor look for the
	// shortest way.
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestMemstore(t *testing.T) {
	Run(t, func(testing.TB) session.Store { return memstore.New(nil) }, nil)
}

func TestMemstoreWithTTL(t *testing.T) {
	clock := NewClock()
	Run(t, func(testing.TB) session.Store {
		return memstore.New(&memstore.Options{TTL: time.Hour, Clock: clock.Now})
	}, &Options{TTL: time.Hour, Advance: clock.Advance})
}

// TestLiftedDriver shows that what the broken stores are made of is sound.
func TestLiftedDriver(t *testing.T) {
	t.Parallel()
	env := newEnvironment(func(*broken) {})
	Run(t, env.open, env.options())
}

// plain offers no more than session.Store.
type plain struct{ session.Store }

func TestStoreAlone(t *testing.T) {
	Run(t, func(testing.TB) session.Store { return plain{memstore.New(nil)} }, &Options{Lacks: []Feature{Log, Catalog, Locker, Closer}})
}

// TestUndeclaredGapFails shows that what a store lacks has to be declared.
func TestUndeclaredGapFails(t *testing.T) {
	for _, r := range rules() {
		if len(r.needs) == 0 || r.needs[0] != Log {
			continue
		}
		rec := record(t, time.Minute, func(tb testing.TB) {
			r.runOn(tb, func(testing.TB) session.Store { return plain{memstore.New(nil)} }, nil)
		})
		if !rec.Failed() && !rec.Skipped() {
			t.Errorf("%s passes on a store without session.Log", r.name)
		}
	}
}

// breakages are all broken stores.
var breakages = slices.Concat(
	brokenStores, brokenReads, brokenMessages, brokenOwnership, brokenVersions, brokenKeys, brokenReopens, brokenIDs, brokenInfos,
	brokenUpdates, brokenExpiries, brokenLists, brokenLocks, brokenContexts, brokenCloses, brokenModels,
)

// TestBroken runs each rule on stores that break it.
func TestBroken(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, r := range rules() {
		known[r.name] = true
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for _, b := range breakages {
				if b.rule != r.name {
					continue
				}
				n++
				if !r.checked() {
					t.Skipf("it needs %s", r.needs)
				}
				var rec *recorder
				for range 3 { // a fault that is a race may need more than one run to show
					env := newEnvironment(b.make)
					opts := env.options()
					opts.patience = 2 * time.Second
					rec = record(t, time.Minute, func(tb testing.TB) { r.runOn(tb, env.open, opts) })
					if rec.Failed() {
						break
					}
				}
				switch {
				case rec.panicked != nil:
					t.Errorf("panics on the store that %s: %v", b.says, rec.panicked)
				case rec.Skipped():
					t.Errorf("skipped for the store that %s", b.says)
				case !rec.Failed():
					t.Errorf("does not catch the store that %s", b.says)
				default:
					t.Logf("%s catches the store that %s: %s", r.name, b.says, rec.first())
				}
			}
			if n == 0 {
				t.Error("no broken store shows that this rule catches anything")
			}
		})
	}
	for _, b := range breakages {
		if !known[b.rule] {
			t.Errorf("there is no rule %s for the store that %s", b.rule, b.says)
		}
	}
}

// checked reports whether the rule is checked in this run.
func (r rule) checked() bool { return !slices.Contains(r.needs, large) || !testing.Short() }
