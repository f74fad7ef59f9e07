// Package storetest tests that a store keeps the contract of
// [session.Backend]. The test of a backend is one call:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(tb testing.TB) session.Store {
//			return mystore.New(tb.TempDir(), nil)
//		}, nil)
//	}
//
// [Run] checks the rules one by one, each on a store of its own. [RunDriver]
// does the same for a [session.Driver].
package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// Feature is a part of the contract that a store may lack.
type Feature string

// The features of a [session.Backend], beyond those of a [session.Store].
const (
	Log     Feature = "session.Log"
	Catalog Feature = "session.Catalog"
	Locker  Feature = "session.Locker"
	Closer  Feature = "io.Closer"
)

// What some rules need beside features of the store. A rule that does not have
// it is skipped, and says so.
const (
	optional Feature = "session.Salvager" // an interface that no store has to offer
	clock    Feature = "Options.Advance"
	expiry   Feature = "Options.TTL and Options.Advance"
	peer     Feature = "Options.Peer"
	large    Feature = "a run without -short"
)

// Options tell Run about the stores under test. nil, or the zero value, is
// for a complete Backend that runs on the real clock and without a TTL.
//
// A backend with a TTL is worth two runs: one as most of its users open it,
// and one with TTL, Advance and Peer.
type Options struct {
	// Peer opens a second handle on a store's data, as another process would.
	// It may be called several times for one store. nil: rules about several
	// writers use the one handle, and rules about reopening are skipped.
	Peer func(testing.TB, session.Store) session.Store

	// TTL is the one that open's stores and their peers were opened with. 0:
	// they don't expire, and the rules of expiry are skipped.
	TTL time.Duration

	// Advance moves the clock of open's stores, peers included, by d, which
	// may be negative. The clock must stand still otherwise; see [Clock]. One
	// clock may serve all stores, since rules run one after another. nil: the
	// stores run on the real clock, and the rules that move it are skipped.
	Advance func(d time.Duration)

	// Lacks lists what the stores do not offer. The rules that need it are
	// skipped, but each of its methods must be missing or fail with
	// [errors.ErrUnsupported].
	Lacks []Feature

	// ListLag is how far List may lag behind, as the store documents it. The
	// rules of List repeat a list that long before they judge it. 0: List
	// shows every write that has returned.
	ListLag time.Duration

	// patience is how long a rule waits for what must happen. 0: 30 seconds.
	patience time.Duration
}

// rule is one rule of the contract.
type rule struct {
	name  string // theme, slash, what a store does
	says  string // the rule, as a failure prints it
	needs []Feature
	run   func(tb testing.TB, s *subject)
}

// rules returns all rules, in the order in which they are checked.
func rules() []rule {
	return slices.Concat(
		offerRules,
		storeRules,
		messageRules,
		caseRules,
		badMessageRules,
		ownershipRules,
		readRules,
		appendRules,
		saveRules,
		truncateRules,
		atomicityRules,
		versionRules,
		keyRules,
		idRules,
		catalogRules,
		listRules,
		updateRules,
		orderRules,
		expiryRules,
		lockRules,
		leaseRules,
		contextRules,
		errorRules,
		closeRules,
		limitRules,
		reopenRules,
		salvageRules,
		modelRules,
		linearRules,
	)
}

// Run tests that open's stores obey the contract of [session.Backend], except
// for what opts.Lacks. open returns an empty store each time; Run closes it. A
// rule is a subtest, named after it.
func Run(t *testing.T, open func(testing.TB) session.Store, opts *Options) {
	t.Helper()
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) { r.runOn(t, open, opts) })
	}
}

// runOn checks one rule on a new store.
func (r rule) runOn(tb testing.TB, open func(testing.TB) session.Store, opts *Options) {
	tb.Helper()
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if o.patience == 0 {
		o.patience = 30 * time.Second
	}
	for _, f := range r.needs {
		if !o.has(f) {
			tb.Skipf("not checked: %s\nIt needs %s.", r.says, f)
		}
	}
	defer func() {
		if tb.Failed() {
			tb.Logf("the rule: %s", r.says)
		}
	}()
	s := newSubject(tb, open(tb), o)
	for _, f := range r.needs {
		if f == optional && s.salvager == nil {
			tb.Skipf("not checked: %s\n%T has no optional %s.", r.says, s.store, f)
		}
		if !s.offers(f) {
			tb.Fatalf("%T does not implement %s, and Options.Lacks does not say so", s.store, f)
		}
	}
	r.run(tb, s)
}

// has reports whether a rule that needs f is to be checked.
func (o *Options) has(f Feature) bool {
	switch f {
	case clock:
		return o.Advance != nil
	case expiry:
		return o.Advance != nil && o.TTL > 0
	case peer:
		return o.Peer != nil
	case large:
		return !testing.Short()
	}
	return !slices.Contains(o.Lacks, f)
}
