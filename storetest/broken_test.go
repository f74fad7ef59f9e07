package storetest

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// breakage is a store that breaks one rule.
type breakage struct {
	rule string
	says string // what is wrong with it
	make func(b *broken)
}

// broken is a correct store, the lift of a memDriver, but for what a breakage
// has replaced: methods of the store or of its driver. Each handle is one.
type broken struct {
	whole  *session.DriverBackend
	env    *environment
	driver *brokenDriver

	load     func(ctx context.Context, id string) ([]session.Message, error)
	save     func(ctx context.Context, id string, messages []session.Message) error
	read     func(ctx context.Context, id string, opts *session.ReadOptions) (session.Snapshot, error)
	append   func(ctx context.Context, id string, messages []session.Message, opts *session.WriteOptions) (session.Version, error)
	replace  func(ctx context.Context, id string, messages []session.Message, opts *session.WriteOptions) (session.Version, error)
	truncate func(ctx context.Context, id string, keep int, opts *session.WriteOptions) (session.Version, error)
	info     func(ctx context.Context, id string) (session.Info, error)
	list     func(ctx context.Context, opts *session.ListOptions) iter.Seq2[session.Info, error]
	update   func(ctx context.Context, id string, change func(*session.Meta) error) (session.Info, error)
	delete   func(ctx context.Context, id string, opts *session.WriteOptions) error
	lock     func(ctx context.Context, id string, opts *session.LockOptions) (session.Lease, error)
	salvage  func(ctx context.Context, id string) (session.Snapshot, []session.Damage, error)
	close    func() error

	as func(b *broken) session.Store // what open returns, if not b
}

// environment is what the handles of one store share.
type environment struct {
	*Clock
	make   func(b *broken)
	driver *memDriver

	sharing sync.Mutex
	shared  map[string]any // by type, what handles share beside the data
}

const brokenTTL = time.Hour

func newEnvironment(make func(b *broken)) *environment {
	return &environment{Clock: NewClock(), make: make}
}

// options are those of a store that offers all there is.
func (e *environment) options() *Options {
	return &Options{TTL: brokenTTL, Advance: e.Clock.Advance, Peer: func(testing.TB, session.Store) session.Store { return e.handle() }}
}

// open returns a new store.
func (e *environment) open(testing.TB) session.Store {
	e.driver = newMemDriver()
	e.shared = make(map[string]any)
	return e.handle()
}

// handle returns another handle on the same data.
func (e *environment) handle() session.Store {
	d := newBrokenDriver(e.driver)
	w := session.NewBackend(d, &session.BackendOptions{TTL: brokenTTL, Clock: e.Now})
	b := &broken{
		whole: w, env: e, driver: d,
		load: w.Load, save: w.Save, read: w.Read, append: w.Append, replace: w.Replace, truncate: w.Truncate,
		info: w.Info, list: w.List, update: w.Update, delete: w.Delete, lock: w.Lock, salvage: w.Salvage, close: w.Close,
	}
	e.make(b)
	if b.as != nil {
		return b.as(b)
	}
	return b
}

func (b *broken) Load(ctx context.Context, id string) ([]session.Message, error) {
	return b.load(ctx, id)
}

func (b *broken) Save(ctx context.Context, id string, messages []session.Message) error {
	return b.save(ctx, id, messages)
}

func (b *broken) Read(ctx context.Context, id string, opts *session.ReadOptions) (session.Snapshot, error) {
	return b.read(ctx, id, opts)
}

func (b *broken) Append(ctx context.Context, id string, messages []session.Message, opts *session.WriteOptions) (session.Version, error) {
	return b.append(ctx, id, messages, opts)
}

func (b *broken) Replace(ctx context.Context, id string, messages []session.Message, opts *session.WriteOptions) (session.Version, error) {
	return b.replace(ctx, id, messages, opts)
}

func (b *broken) Truncate(ctx context.Context, id string, keep int, opts *session.WriteOptions) (session.Version, error) {
	return b.truncate(ctx, id, keep, opts)
}

func (b *broken) Info(ctx context.Context, id string) (session.Info, error) {
	return b.info(ctx, id)
}

func (b *broken) List(ctx context.Context, opts *session.ListOptions) iter.Seq2[session.Info, error] {
	return b.list(ctx, opts)
}

func (b *broken) Update(ctx context.Context, id string, change func(*session.Meta) error) (session.Info, error) {
	return b.update(ctx, id, change)
}

func (b *broken) Delete(ctx context.Context, id string, opts *session.WriteOptions) error {
	return b.delete(ctx, id, opts)
}

func (b *broken) Lock(ctx context.Context, id string, opts *session.LockOptions) (session.Lease, error) {
	return b.lock(ctx, id, opts)
}

func (b *broken) Salvage(ctx context.Context, id string) (session.Snapshot, []session.Damage, error) {
	return b.salvage(ctx, id)
}

func (b *broken) Close() error { return b.close() }

// brokenDriver is a correct driver but for the methods that a breakage has
// replaced.
type brokenDriver struct {
	head   func(ctx context.Context, id string) (session.Head, error)
	lines  func(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error)
	commit func(ctx context.Context, id string, c session.Commit) error
	heads  func(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error]
	close  func() error
}

func newBrokenDriver(d session.Driver) *brokenDriver {
	return &brokenDriver{head: d.Head, lines: d.Range, commit: d.Commit, heads: d.Heads, close: d.Close}
}

func (d *brokenDriver) Head(ctx context.Context, id string) (session.Head, error) {
	return d.head(ctx, id)
}

func (d *brokenDriver) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	return d.lines(ctx, id, h, from, to)
}

func (d *brokenDriver) Commit(ctx context.Context, id string, c session.Commit) error {
	return d.commit(ctx, id, c)
}

func (d *brokenDriver) Heads(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
	return d.heads(ctx, q)
}

func (d *brokenDriver) Close() error { return d.close() }
