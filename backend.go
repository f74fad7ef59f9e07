package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/session/internal/gate"
)

// BackendOptions are the options of NewBackend. nil and zero values are
// defaults for production.
type BackendOptions struct {
	// TTL is how long after its last write a session expires. 0: never.
	TTL time.Duration
	// Clock tells the time. nil: time.Now.
	Clock func() time.Time
	// MaxBatchBytes is how much the messages of one write may take, encoded;
	// more is ErrTooLarge. 0: what the driver holds.
	MaxBatchBytes int
}

// DriverBackend is a Backend over a Driver. It also is a [Salvager].
type DriverBackend struct {
	driver Driver
	opts   BackendOptions
	slots  slots
	gate   *gate.Gate
	leases sync.WaitGroup
	ending chan struct{} // closed when no call is running any more
}

var (
	_ Backend  = (*DriverBackend)(nil)
	_ Salvager = (*DriverBackend)(nil)
)

// NewBackend returns a Backend that stores through d. All rules of Backend
// hold for it if those of Driver hold for d. Close closes d.
func NewBackend(d Driver, opts *BackendOptions) *DriverBackend {
	b := &DriverBackend{driver: d, gate: gate.New(), ending: make(chan struct{})}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Clock == nil {
		b.opts.Clock = time.Now
	}
	return b
}

func (b *DriverBackend) now() time.Time { return b.opts.Clock().Round(0).UTC() }

// farthest is the last time that Unix nanoseconds can name.
var farthest = time.Unix(0, math.MaxInt64)

// expiry returns when a session that is written now expires. A time that
// drivers could not write down is never.
func (b *DriverBackend) expiry(now time.Time) time.Time {
	if b.opts.TTL <= 0 || b.opts.TTL > farthest.Sub(now) {
		return time.Time{}
	}
	return now.Add(b.opts.TTL)
}

// begin admits a call. If it returns no error, the caller calls b.gate.Leave.
func (b *DriverBackend) begin(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := CheckID(id); err != nil {
		return err
	}
	return b.enter()
}

func (b *DriverBackend) enter() error {
	if !b.gate.Enter() {
		return ErrClosed
	}
	return nil
}

// Load implements Store.
func (b *DriverBackend) Load(ctx context.Context, sessionID string) ([]Message, error) {
	s, err := b.read(ctx, sessionID, ReadOptions{})
	return s.Messages, wrapError("load", sessionID, err)
}

// Read implements Log.
func (b *DriverBackend) Read(ctx context.Context, sessionID string, opts *ReadOptions) (Snapshot, error) {
	var o ReadOptions
	if opts != nil {
		o = *opts
	}
	s, err := b.read(ctx, sessionID, o)
	return s, wrapError("read", sessionID, err)
}

func (b *DriverBackend) read(ctx context.Context, id string, opts ReadOptions) (Snapshot, error) {
	s, lines, err := b.readLines(ctx, id, opts)
	if err != nil {
		return Snapshot{}, err
	}
	if i := slices.IndexFunc(lines, func(l []byte) bool { return l == nil }); i >= 0 {
		return Snapshot{}, fmt.Errorf("%w: message %d is missing or damaged", ErrCorrupt, s.First+i)
	}
	var bad int
	if s.Messages, bad, err = decodeMessages(lines); err != nil {
		return Snapshot{}, fmt.Errorf("message %d: %w", s.First+bad, err)
	}
	return s, nil
}

// readLines returns a Snapshot but for the messages, which are still encoded;
// one that is missing or damaged is nil.
func (b *DriverBackend) readLines(ctx context.Context, id string, opts ReadOptions) (Snapshot, [][]byte, error) {
	if err := b.begin(ctx, id); err != nil {
		return Snapshot{}, nil, err
	}
	defer b.gate.Leave()
	if err := opts.Check(); err != nil {
		return Snapshot{}, nil, err
	}
	for try := 0; ; try++ {
		h, err := b.driver.Head(ctx, id)
		if err != nil {
			return Snapshot{}, nil, contextError(ctx, err)
		}
		cur, err := currentOf(h, b.now())
		if err != nil {
			return Snapshot{}, nil, err
		}
		if cur.record == nil {
			return Snapshot{Version: Absent, Base: Absent}, nil, nil
		}
		from, to := opts.Span(h.Count)
		s := Snapshot{Total: h.Count, Version: cur.version(), Base: Version(cur.base.String())}
		if from == to {
			return s, nil, nil
		}
		s.First = from + 1
		lines, err := b.driver.Range(ctx, id, h, from, to)
		switch {
		case err == nil && len(lines) != to-from:
			return Snapshot{}, nil, fmt.Errorf("%w: %d of %d messages", ErrCorrupt, len(lines), to-from)
		case err == nil:
			return s, lines, nil
		case !errors.Is(err, ErrConflict):
			return Snapshot{}, nil, contextError(ctx, err)
		}
		if err := pause(ctx, try); err != nil { // replaced meanwhile
			return Snapshot{}, nil, err
		}
	}
}

// Salvage implements Salvager.
func (b *DriverBackend) Salvage(ctx context.Context, sessionID string) (Snapshot, []Damage, error) {
	s, lines, err := b.readLines(ctx, sessionID, ReadOptions{})
	if err != nil {
		return Snapshot{}, nil, wrapError("salvage", sessionID, err)
	}
	var damage []Damage
	s.First, s.Messages = 0, make([]Message, 0, len(lines))
	for i, l := range lines {
		m, err := DecodeMessage(l)
		if l == nil {
			err = fmt.Errorf("%w: missing or damaged", ErrCorrupt)
		}
		if err != nil {
			damage = append(damage, Damage{Position: i + 1, Where: fmt.Sprintf("message %d", i+1), Err: err})
			continue
		}
		if len(s.Messages) == 0 {
			s.First = i + 1
		}
		s.Messages = append(s.Messages, m)
	}
	return s, damage, nil
}

// Info implements Catalog.
func (b *DriverBackend) Info(ctx context.Context, sessionID string) (Info, error) {
	info, err := b.info(ctx, sessionID)
	return info, wrapError("info", sessionID, err)
}

func (b *DriverBackend) info(ctx context.Context, id string) (Info, error) {
	if err := b.begin(ctx, id); err != nil {
		return Info{}, err
	}
	defer b.gate.Leave()
	h, err := b.driver.Head(ctx, id)
	if err != nil {
		return Info{}, contextError(ctx, err)
	}
	if h.Rev == "" || expired(h.Expires, b.now()) {
		return Info{}, ErrNotFound
	}
	return infoOf(h)
}

func infoOf(h Head) (Info, error) {
	r, err := recordOf(h)
	if err != nil {
		return Info{}, err
	}
	info := Info{
		ID: h.ID, Version: Version(r.version.String()), Messages: h.Count,
		Created: r.created, Updated: h.Updated, Expires: h.Expires,
	}
	if len(h.Meta) > 0 {
		if err := json.Unmarshal(h.Meta, &info.Meta); err != nil {
			return Info{}, fmt.Errorf("%w: meta: %w", ErrCorrupt, err)
		}
	}
	return info, nil
}

// List implements Catalog.
func (b *DriverBackend) List(ctx context.Context, opts *ListOptions) iter.Seq2[Info, error] {
	var o ListOptions
	if opts != nil {
		o = *opts
	}
	return func(yield func(Info, error) bool) {
		if at, err := b.list(ctx, o, func(i Info) bool { return yield(i, nil) }); err != nil {
			yield(at, wrapError("list", at.ID, err))
		}
	}
}

// list returns with an error that is one session's what After needs to continue
// behind it.
func (b *DriverBackend) list(ctx context.Context, o ListOptions, yield func(Info) bool) (Info, error) {
	if err := ctx.Err(); err != nil {
		return Info{}, err
	}
	if err := o.Check(); err != nil {
		return Info{}, err
	}
	q := HeadQuery{Prefix: o.Prefix, Since: o.UpdatedSince, Limit: o.Limit}
	if o.After != nil {
		q.AfterUpdated, q.AfterID = o.After.Updated, o.After.ID
	}
	next, stop := iter.Pull2(b.driver.Heads(ctx, q))
	defer stop()
	for n := 0; o.Limit == 0 || n < o.Limit; {
		h, err, ok := b.nextHead(next)
		if err != nil {
			return Info{}, contextError(ctx, err)
		}
		if !ok {
			return Info{}, nil
		}
		if expired(h.Expires, b.now()) {
			continue
		}
		info, err := infoOf(h)
		if err != nil {
			return Info{ID: h.ID, Updated: h.Updated}, err
		}
		if !yield(info) {
			return Info{}, nil
		}
		n++
	}
	return Info{}, nil
}

// nextHead holds Close back only while the driver works, not while the caller
// looks at what it got.
func (b *DriverBackend) nextHead(next func() (Head, error, bool)) (Head, error, bool) {
	if err := b.enter(); err != nil {
		return Head{}, err, false
	}
	defer b.gate.Leave()
	return next()
}

// Close implements io.Closer.
func (b *DriverBackend) Close() error {
	if !b.gate.Close() {
		return nil
	}
	close(b.ending)
	b.leases.Wait()
	return b.driver.Close()
}

func wrapError(op, id string, err error) error {
	if err == nil {
		return nil
	}
	var inner *Error
	if errors.As(err, &inner) && inner.Op == op && inner.SessionID == id {
		return err
	}
	e := &Error{Op: op, SessionID: id, Err: err}
	if inner != nil {
		e.Current = inner.Current
	}
	var c *conflict
	if errors.As(err, &c) {
		e.Err, e.Current = ErrConflict, c.current
	}
	return e
}

// conflict is an ErrConflict that knows the version.
type conflict struct{ current Version }

func (c *conflict) Error() string { return ErrConflict.Error() }
func (c *conflict) Unwrap() error { return ErrConflict }

// contextError makes sure that an error which came of a context that is done
// wraps the context's.
func contextError(ctx context.Context, err error) error {
	if c := ctx.Err(); err != nil && c != nil && !errors.Is(err, c) {
		return fmt.Errorf("%w: %w", c, err)
	}
	return err
}

// pause waits a little before another try, longer each time and never as long
// as others do, so that writers who met don't meet again.
func pause(ctx context.Context, try int) error {
	if try < 2 {
		return ctx.Err()
	}
	t := time.NewTimer(rand.N(100 * time.Microsecond << min(try, 9)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
