package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/session"
)

// heldLease is a lease of which Done and Release can be replaced.
type heldLease struct {
	session.Lease
	done    <-chan struct{}
	release func(ctx context.Context) error
}

func (l *heldLease) Done() <-chan struct{}             { return l.done }
func (l *heldLease) Release(ctx context.Context) error { return l.release(ctx) }

// onLease lets f change the leases that Lock returns.
func (b *broken) onLease(f func(id string, l *heldLease)) {
	lock := b.lock
	b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
		l, err := lock(ctx, id, o)
		if err != nil {
			return nil, err
		}
		held := &heldLease{l, l.Done(), l.Release}
		f(id, held)
		return held, nil
	}
}

func lockError(id string, err error) error {
	return &session.Error{Op: "lock", SessionID: id, Err: err}
}

var brokenLocks = []breakage{
	{"Lock/KeepsOthersOut", "locks within one handle only", func(b *broken) {
		lock, name := b.lock, fmt.Sprintf("%p ", b)
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) { return lock(ctx, name+id, o) }
	}},
	{"Lock/KeepsOthersOut", "gives the holder a second lease", func(b *broken) {
		var mine noted[session.Lease]
		b.onLease(func(id string, l *heldLease) { mine.set(id, l) })
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			if l, ok := mine.get(id); ok && !ended(l) {
				return l, nil
			}
			return lock(ctx, id, o)
		}
	}},
	{"Lock/WaitsForRelease", "does not wait", func(b *broken) {
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			opts := optionsOf(o)
			opts.NoWait = true
			return lock(ctx, id, &opts)
		}
	}},
	{"Lock/WaitsForTheContext", "returns the context's error alone", func(b *broken) {
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			l, err := lock(ctx, id, o)
			if err != nil && ctx.Err() != nil {
				return nil, lockError(id, ctx.Err())
			}
			return l, err
		}
	}},
	{"Lock/LeavesNoTraceOfAWaiter", "gives the lease to one who has stopped waiting", (*broken).keepsWaiting},
	{"Lock/ExcludesEachOther", "lets the next in when the holder reads", func(b *broken) {
		turn := share[turnstile](b).init()
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			select {
			case turn <- struct{}{}:
				return &heldLease{done: make(chan struct{}), release: func(context.Context) error { return nil }}, nil
			case <-ctx.Done():
				return nil, lockError(id, ctx.Err())
			}
		}
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			<-turn
			time.Sleep(time.Millisecond)
			return load(ctx, id)
		}
	}},
	{"Lock/NeedsNoSession", "locks only sessions that exist", func(b *broken) {
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			if _, err := b.whole.Info(ctx, id); err != nil {
				return nil, err
			}
			return lock(ctx, id, o)
		}
	}},
	{"Lock/SurvivesDelete", "deletes the lease with the session", func(b *broken) {
		held := share[noted[session.Lease]](b)
		b.onLease(func(id string, l *heldLease) { held.set(id, l) })
		del := b.delete
		b.delete = func(ctx context.Context, id string, o *writeOpts) error {
			if l, ok := held.get(id); ok {
				l.Release(ctx)
			}
			return del(ctx, id, o)
		}
	}},
	{"Lock/DoesNotHinderWrites", "lets only the holder write", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			l, err := b.whole.Lock(ctx, id, noWait)
			if err != nil {
				return "", err
			}
			defer l.Release(ctx)
			return add(ctx, id, m, o)
		}
	}},
	{"Lock/RefusesBadTerms", "takes a bad Term for the default", func(b *broken) {
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			opts := optionsOf(o)
			if opts.Term < 50*time.Millisecond {
				opts.Term = 0
			}
			return lock(ctx, id, &opts)
		}
	}},

	{"Lease/EndsWithRelease", "knows no second Release", func(b *broken) {
		b.onLease(func(id string, l *heldLease) {
			release, inner := l.release, l.Lease
			l.release = func(ctx context.Context) error {
				if ended(inner) {
					return errors.New("not the holder")
				}
				return release(ctx)
			}
		})
	}},
	{"Lease/EndsWithRelease", "does not close Done", func(b *broken) {
		b.onLease(func(_ string, l *heldLease) { l.done = make(chan struct{}) })
	}},
	{"Lease/ReleaseLeavesTheNextAlone", "releases the lease whoever has it", func(b *broken) {
		held := share[noted[session.Lease]](b)
		b.onLease(func(id string, l *heldLease) {
			held.set(id, l.Lease)
			l.release = func(ctx context.Context) error {
				current, _ := held.get(id)
				return current.Release(ctx)
			}
		})
	}},
	{"Lease/EndsWithClose", "keeps its leases when it is closed", func(b *broken) {
		b.close = func() error { return nil }
	}},
	{"Lease/IsRenewed", "does not renew a lease", func(b *broken) {
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			l, err := lock(ctx, id, o)
			if term := optionsOf(o).Term; err == nil && term > 0 {
				time.AfterFunc(term, func() { l.Release(context.Background()) })
			}
			return l, err
		}
	}},
	{"Lease/IsLostLoudly", "does not tell the holder that its lease is lost", func(b *broken) {
		b.onLease(func(_ string, l *heldLease) { l.done = make(chan struct{}) })
	}},
	{"Lease/EndsWaitsWhenItRunsOut", "has waiters give up after a while", func(b *broken) {
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			if optionsOf(o).NoWait || optionsOf(o).Term > 0 {
				return lock(ctx, id, o)
			}
			return nil, lockError(id, session.ErrLocked)
		}
	}},
	{"Lease/LossShowsInIfVersion", "does not look at IfVersion", (*broken).ignoresIfVersion},
}

// turnstile is a lock that anyone can open.
type turnstile struct {
	once sync.Once
	turn chan struct{}
}

func (t *turnstile) init() chan struct{} {
	t.once.Do(func() { t.turn = make(chan struct{}, 1) })
	return t.turn
}

// keepsWaiting makes Lock go on when its context is done.
func (b *broken) keepsWaiting() {
	lock := b.lock
	ghosts := share[noted[chan struct{}]](b)
	b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
		l, err := lock(ctx, id, o)
		if err != nil && ctx.Err() != nil {
			got := make(chan struct{})
			ghosts.set(id, got)
			go func() {
				defer close(got)
				lock(context.WithoutCancel(ctx), id, o)
			}()
			return nil, err
		}
		if got, waiting := ghosts.get(id); err == nil && waiting {
			l.Release(ctx)
			<-got // the turn is the other's
			return lock(ctx, id, o)
		}
		return l, err
	}
}
