package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/session"
)

var brokenContexts = []breakage{
	{"Context/DoneBeforeTheCall", "does not look at the context of a Load", func(b *broken) {
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) { return load(context.WithoutCancel(ctx), id) }
	}},
	{"Context/DoneBeforeTheCall", "calls change before it looks at the context", func(b *broken) {
		update := b.update
		b.update = func(ctx context.Context, id string, change changing) (session.Info, error) {
			change(new(session.Meta))
			return update(ctx, id, change)
		}
	}},
	{"Context/DoneDuringAWrite", "writes messages one by one until the context ends", (*broken).oneByOne},
	{"Context/DoneDuringAList", "ends a list without an error when the context does", func(b *broken) {
		list := b.list
		b.list = func(ctx context.Context, o *listOpts) iter.Seq2[session.Info, error] {
			return func(yield func(session.Info, error) bool) {
				for info, err := range list(ctx, o) {
					if ctx.Err() != nil || !yield(info, err) {
						return
					}
				}
			}
		}
	}},
	{"Context/OfACallEndsWithIt", "ends the lease with the context of Lock", func(b *broken) {
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			l, err := lock(ctx, id, o)
			if err == nil {
				context.AfterFunc(ctx, func() { l.Release(context.Background()) })
			}
			return l, err
		}
	}},
	{"Errors/NameOperationAndSession", "returns bare errors", func(b *broken) {
		load := b.load
		b.load = func(ctx context.Context, id string) (history, error) {
			m, err := load(ctx, id)
			if e := (*session.Error)(nil); errors.As(err, &e) {
				err = e.Err
			}
			return m, err
		}
	}},
	{"Errors/NameOperationAndSession", "calls a Save a replace", func(b *broken) {
		b.save = func(ctx context.Context, id string, m history) error {
			_, err := b.whole.Replace(ctx, id, m, nil)
			return err
		}
	}},
	{"Errors/ShowNoContent", "shows the message that it refuses", func(b *broken) {
		save := b.save
		b.save = func(ctx context.Context, id string, m history) error {
			err := save(ctx, id, m)
			if err != nil {
				err = fmt.Errorf("%w: %v", err, m)
			}
			return err
		}
	}},
}

var brokenCloses = []breakage{
	{"Close/MayBeRepeated", "returns ErrClosed from a second Close", func(b *broken) {
		var closed atomic.Bool
		closing := b.close
		b.close = func() error {
			if closed.Swap(true) {
				return session.ErrClosed
			}
			return closing()
		}
	}},
	{"Close/EndsAllMethods", "loses an Append after Close and returns no error", func(b *broken) {
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			v, err := add(ctx, id, m, o)
			if errors.Is(err, session.ErrClosed) {
				return "", nil
			}
			return v, err
		}
	}},
	{"Close/WaitsForRunningCalls", "acknowledges writes before it makes them", func(b *broken) {
		var closed atomic.Bool
		closing := b.close
		b.close = func() error { closed.Store(true); return closing() }
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if closed.Load() {
				return "", session.ErrClosed
			}
			go func() {
				time.Sleep(time.Millisecond)
				b.whole.Append(ctx, id, m, o)
			}()
			time.Sleep(2 * time.Millisecond)
			return "1", nil
		}
	}},
	{"Close/EndsWaitingLocks", "tells waiters that the session is locked", func(b *broken) {
		lock := b.lock
		b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
			l, err := lock(ctx, id, o)
			if errors.Is(err, session.ErrClosed) {
				return nil, lockError(id, session.ErrLocked)
			}
			return l, err
		}
	}},
	{"Close/WithinAList", "ends a list without an error when the store is closed", func(b *broken) {
		list := b.list
		b.list = func(ctx context.Context, o *listOpts) iter.Seq2[session.Info, error] {
			return func(yield func(session.Info, error) bool) {
				for info, err := range list(ctx, o) {
					if errors.Is(err, session.ErrClosed) || !yield(info, err) {
						return
					}
				}
			}
		}
	}},
	{"Close/LeavesPeersOpen", "closes a connection that all handles share", func(b *broken) {
		closed := share[atomic.Bool](b)
		closing := b.close
		b.close = func() error { closed.Store(true); return closing() }
		add := b.append
		b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			if closed.Load() {
				return "", session.ErrClosed
			}
			return add(ctx, id, m, o)
		}
	}},
}
