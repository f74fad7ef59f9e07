package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

var modelRules = []rule{{
	"Model/AgreesWithMemstore",
	"Whatever calls are made, in whatever order, they return what a memstore returns.",
	[]Feature{Log, Catalog}, modelAgreesWithMemstore,
}}

// modelTime is after how long no more random calls are made, unless the flag
// -rapid.checks says how many.
const modelTime = 3 * time.Second

// modelAgreesWithMemstore makes random calls of the store and of a memstore.
// A backend is worth a long run with -rapid.checks=10000 now and then.
func modelAgreesWithMemstore(tb testing.TB, s *subject) {
	peers := s.peers(tb, 2)
	timed := true
	flag.Visit(func(f *flag.Flag) { timed = timed && f.Name != "rapid.checks" })
	start, runs, failing := time.Now(), 0, false
	rapid.Check(tb, func(t *rapid.T) {
		if timed && !failing && time.Since(start) > modelTime {
			return
		}
		runs++
		m := newModel(t, peers, fmt.Sprintf("run%d/", runs))
		defer m.reference.Close()
		failing = true // until the end: a run that fails is run again, to find a shorter one
		t.Repeat(m.actions())
		failing = false
	})
}

// model is one run of random calls: the store under test, through two handles,
// and a memstore that is given the same calls.
type model struct {
	ctx       context.Context
	done      context.Context // one that is cancelled
	opts      Options
	stores    []*subject
	reference *memstore.Store
	clock     *Clock
	ahead     time.Duration // how far the store's clock is ahead of clock
	folder    string        // what the IDs of this run begin with

	versions map[string][]versionPair            // by session, all that were seen
	paired   map[session.Version]session.Version // the store's to the reference's
	taken    map[session.Version]session.Version // and back
	before   map[string]session.Snapshot         // the store's, as it was last seen
	written  int                                 // messages, so that no two are the same
}

// versionPair is what one version is to the store and to the reference.
type versionPair struct{ got, want session.Version }

// modelIDs collide in stores that fold case, cut paths or escape badly. One is
// used more than the others, so that much happens to it.
var modelIDs = []string{"a", "a", "a", "A", "a/b", "a%2Fb"}

func newModel(t *rapid.T, stores []*subject, folder string) *model {
	o := stores[0].opts
	m := &model{
		ctx: stores[0].ctx, opts: o, stores: stores, clock: NewClock(), folder: folder,
		versions: make(map[string][]versionPair), before: make(map[string]session.Snapshot),
		paired: map[session.Version]session.Version{session.Absent: session.Absent},
		taken:  map[session.Version]session.Version{session.Absent: session.Absent},
	}
	var cancel context.CancelFunc
	m.done, cancel = context.WithCancel(m.ctx)
	cancel()
	m.reference = memstore.New(&memstore.Options{TTL: o.TTL, Clock: m.clock.Now})
	if o.Advance == nil {
		return m
	}
	// The store's clock can't be read, but it stands still.
	if err := m.stores[0].store.Save(m.ctx, folder+"clock", nil); err != nil {
		t.Fatalf("Save: %v", err)
	}
	info, err := m.stores[0].catalog.Info(m.ctx, folder+"clock")
	if err != nil {
		t.Fatalf("Info: %v", err)
	}
	m.ahead = info.Created.Sub(m.clock.Now())
	if err := m.stores[0].catalog.Delete(m.ctx, folder+"clock", nil); err != nil {
		t.Fatalf("Delete: %v", err)
	}
	return m
}

// actions are the calls that a run is made of, each with a check of what both
// stores then hold.
func (m *model) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"Save": m.save, "Append": m.append, "Append again": m.append, "Replace": m.replace, "Truncate": m.truncate, "Truncate again": m.truncate,
		"Read": m.read, "Update": m.update, "Update again": m.update, "Delete": m.delete, "Bad": m.bad,
	}
	if m.opts.ListLag == 0 {
		actions["List"] = m.list
	}
	if m.opts.Advance != nil {
		actions["Advance"] = m.advance
	}
	return actions
}

// pick draws a handle and a session.
func (m *model) pick(t *rapid.T) (s *subject, id string) {
	s = m.stores[rapid.IntRange(0, len(m.stores)-1).Draw(t, "handle")]
	return s, m.folder + rapid.SampledFrom(modelIDs).Draw(t, "id")
}

// messages draws up to four messages.
func (m *model) messages(t *rapid.T) []session.Message {
	messages := make([]session.Message, rapid.IntRange(0, 4).Draw(t, "messages"))
	all := conversation()
	for i := range messages {
		messages[i] = all[m.written%len(all)]
		m.written++
		messages[i].ID = fmt.Sprint("m", m.written)
	}
	return messages
}

// options draws WriteOptions, as the store and as the reference take them.
func (m *model) options(t *rapid.T, id string) (got, want *session.WriteOptions) {
	var g, w session.WriteOptions
	switch rapid.IntRange(0, 7).Draw(t, "IfVersion") {
	case 0, 1: // the last that was seen, probably current
		if seen := m.versions[id]; len(seen) > 0 {
			g.IfVersion, w.IfVersion = seen[len(seen)-1].got, seen[len(seen)-1].want
		}
	case 2: // any that was seen, probably stale
		if seen := m.versions[id]; len(seen) > 0 {
			v := seen[rapid.IntRange(0, len(seen)-1).Draw(t, "version")]
			g.IfVersion, w.IfVersion = v.got, v.want
		}
	case 3:
		g.IfVersion = rapid.SampledFrom([]session.Version{session.Absent, "nonsense", "1", "\x00"}).Draw(t, "version")
		w.IfVersion = g.IfVersion
	default:
	}
	if rapid.IntRange(0, 2).Draw(t, "keyed") == 0 {
		// Few enough that none is ever forgotten.
		g.Key = rapid.SampledFrom([]string{"k", "K"}).Draw(t, "key")
		w.Key = g.Key
	}
	return &g, &w
}

func (m *model) save(t *rapid.T) {
	s, id := m.pick(t)
	messages := m.grown(t, id)
	err := s.store.Save(m.ctx, id, messages)
	m.sameError(t, id, err, m.reference.Save(m.ctx, id, messages))
	m.sameSession(t, id, true)
}

// grown draws a history: a new one, the stored one, or either end of it with
// something new.
func (m *model) grown(t *rapid.T, id string) []session.Message {
	history, err := m.reference.Load(m.ctx, id)
	if err != nil {
		t.Fatalf("memstore: Load: %v", err)
	}
	fresh := m.messages(t)
	switch rapid.IntRange(0, 3).Draw(t, "history") {
	case 0:
		return fresh
	case 1:
		return append(history[:rapid.IntRange(0, len(history)).Draw(t, "keep")], fresh...)
	case 2:
		return append(fresh, history...)
	default:
		return append(history, fresh...)
	}
}

func (m *model) append(t *rapid.T) {
	s, id := m.pick(t)
	messages := m.messages(t)
	g, w := m.options(t, id)
	got, err := s.log.Append(m.ctx, id, messages, g)
	want, wantErr := m.reference.Append(m.ctx, id, messages, w)
	m.sameWrite(t, id, got, want, err, wantErr, false)
}

func (m *model) replace(t *rapid.T) {
	s, id := m.pick(t)
	messages := m.grown(t, id)
	g, w := m.options(t, id)
	got, err := s.log.Replace(m.ctx, id, messages, g)
	want, wantErr := m.reference.Replace(m.ctx, id, messages, w)
	m.sameWrite(t, id, got, want, err, wantErr, true)
}

func (m *model) truncate(t *rapid.T) {
	s, id := m.pick(t)
	keep := rapid.IntRange(0, 8).Draw(t, "keep")
	g, w := m.options(t, id)
	got, err := s.log.Truncate(m.ctx, id, keep, g)
	want, wantErr := m.reference.Truncate(m.ctx, id, keep, w)
	m.sameWrite(t, id, got, want, err, wantErr, false)
}

func (m *model) read(t *rapid.T) {
	s, id := m.pick(t)
	opts := session.ReadOptions{After: rapid.IntRange(0, 9).Draw(t, "After")}
	n := rapid.IntRange(0, 9).Draw(t, "n")
	if rapid.Bool().Draw(t, "Last") {
		opts.Last = n
	} else {
		opts.Limit = n
	}
	got, err := s.log.Read(m.ctx, id, &opts)
	want, wantErr := m.reference.Read(m.ctx, id, &opts)
	m.sameError(t, id, err, wantErr)
	m.sameSnapshot(t, id, got, want)
	m.sameSession(t, id, false)
}

func (m *model) update(t *rapid.T) {
	s, id := m.pick(t)
	n := rapid.IntRange(0, 3).Draw(t, "meta")
	refused := errors.New("refused")
	change := func(meta *session.Meta) error {
		switch n {
		case 0:
			return refused
		case 1:
			*meta = session.Meta{}
		case 2:
			*meta = fullMeta()
		default:
			meta.SummaryThrough++
			meta.Labels = map[string]string{"n": fmt.Sprint(meta.SummaryThrough)}
		}
		return nil
	}
	got, err := s.catalog.Update(m.ctx, id, change)
	want, wantErr := m.reference.Update(m.ctx, id, change)
	m.sameError(t, id, err, wantErr)
	if errors.Is(err, refused) != errors.Is(wantErr, refused) {
		t.Errorf("Update(%q): error = %v, want %v", id, err, wantErr)
	}
	if err == nil && wantErr == nil {
		m.sameInfo(t, got, want)
	}
	m.sameSession(t, id, false)
}

func (m *model) delete(t *rapid.T) {
	s, id := m.pick(t)
	g, w := m.options(t, id)
	err := s.catalog.Delete(m.ctx, id, g)
	m.sameError(t, id, err, m.reference.Delete(m.ctx, id, w))
	m.sameSession(t, id, false)
}

// bad makes a call that is refused before anything is looked at.
func (m *model) bad(t *rapid.T) {
	s, id := m.pick(t)
	calls := []func(ctx context.Context, b session.Log) error{
		func(_ context.Context, b session.Log) error { _, err := b.Load(m.done, id); return err },
		func(_ context.Context, b session.Log) error {
			_, err := b.Append(m.done, id, userTexts("a"), nil)
			return err
		},
		func(ctx context.Context, b session.Log) error { return b.Save(ctx, strings.Repeat("x", 513), nil) },
		func(ctx context.Context, b session.Log) error { _, err := b.Read(ctx, "\xff", nil); return err },
		func(ctx context.Context, b session.Log) error {
			_, err := b.Read(ctx, id, &session.ReadOptions{Limit: 1, Last: 1})
			return err
		},
		func(ctx context.Context, b session.Log) error { _, err := b.Truncate(ctx, id, -1, nil); return err },
		func(ctx context.Context, b session.Log) error {
			_, err := b.Append(ctx, id, userTexts("\xff"), nil)
			return err
		},
		func(ctx context.Context, b session.Log) error {
			_, err := b.Replace(ctx, id, nil, key(strings.Repeat("k", 65)))
			return err
		},
	}
	call := rapid.SampledFrom(calls).Draw(t, "call")
	m.sameError(t, id, call(m.ctx, s.log), call(m.ctx, m.reference))
	m.sameSession(t, id, false)
}

func (m *model) advance(t *rapid.T) {
	least := -5
	if m.opts.TTL > 0 {
		least = 0 // what expires when, if the clock goes back, is not told
	}
	d := time.Duration(rapid.IntRange(least, 60).Draw(t, "seconds")) * time.Second
	if m.opts.TTL > 0 && rapid.IntRange(0, 4).Draw(t, "to expiry") == 0 {
		d = m.opts.TTL * time.Duration(rapid.IntRange(1, 5).Draw(t, "quarters")) / 4
		d = d.Round(time.Second) + time.Second
	}
	m.opts.Advance(d)
	m.clock.Advance(d)
	for _, id := range modelIDs {
		m.sameSession(t, m.folder+id, false)
	}
}

func (m *model) list(t *rapid.T) {
	s, _ := m.pick(t)
	opts := session.ListOptions{Prefix: m.folder + rapid.SampledFrom([]string{"", "a", "a/", "a%", "."}).Draw(t, "Prefix")}
	got, want := m.listed(t, s.catalog, opts), m.listed(t, m.reference, opts)
	if m.opts.Advance == nil {
		if !slices.IsSortedFunc(got, newestFirst) {
			t.Errorf("List(%+v) = %s, want newest update first, ties by ID", opts, brief(got))
		}
		byID := func(a, b session.Info) int { return strings.Compare(a.ID, b.ID) }
		slices.SortFunc(got, byID)
		slices.SortFunc(want, byID)
	} else if len(want) > 0 {
		// Where the clock stands still, pages and times can be told.
		at := rapid.IntRange(0, len(want)-1).Draw(t, "at")
		if slices.Equal(ids(got), ids(want)) {
			limit := rapid.IntRange(0, 3).Draw(t, "Limit")
			gotOpts, wantOpts := opts, opts
			gotOpts.Limit, gotOpts.After, gotOpts.UpdatedSince = limit, &got[at], got[len(got)-1].Updated.Add(1)
			wantOpts.Limit, wantOpts.After, wantOpts.UpdatedSince = limit, &want[at], want[len(want)-1].Updated.Add(1)
			m.sameList(t, gotOpts, m.listed(t, s.catalog, gotOpts), m.listed(t, m.reference, wantOpts))
		}
	}
	m.sameList(t, opts, got, want)
}

func (m *model) listed(t *rapid.T, c session.Catalog, opts session.ListOptions) []session.Info {
	var infos []session.Info
	for info, err := range c.List(m.ctx, &opts) {
		if err != nil {
			t.Fatalf("List(%+v): %v", opts, err)
		}
		infos = append(infos, info)
	}
	return infos
}

func (m *model) sameList(t *rapid.T, opts session.ListOptions, got, want []session.Info) {
	if !slices.Equal(ids(got), ids(want)) {
		t.Fatalf("List(%+v) = %q, want %q", opts, ids(got), ids(want))
	}
	for i := range want {
		m.sameInfo(t, got[i], want[i])
	}
}
