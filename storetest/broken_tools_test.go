package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/session"
)

// What the tables of broken stores are written with.

type (
	history   = []session.Message
	writeOpts = session.WriteOptions
	readOpts  = session.ReadOptions
	listOpts  = session.ListOptions
	lockOpts  = session.LockOptions
	changing  = func(*session.Meta) error
)

// widen waits where a fault needs others to come between.
func widen() { time.Sleep(300 * time.Microsecond) }

// noted is what the handles of a store note about their sessions.
type noted[V any] struct {
	mu sync.Mutex
	of map[string]V
}

func (n *noted[V]) get(id string) (V, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := n.of[id]
	return v, ok
}

func (n *noted[V]) set(id string, v V) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = make(map[string]V)
	}
	n.of[id] = v
}

// change replaces what is noted by what f makes of it, and returns that.
func (n *noted[V]) change(id string, f func(V) V) V {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.of == nil {
		n.of = make(map[string]V)
	}
	n.of[id] = f(n.of[id])
	return n.of[id]
}

// share returns the one T of a store.
func share[T any](b *broken) *T {
	b.env.sharing.Lock()
	defer b.env.sharing.Unlock()
	name := fmt.Sprintf("%T", *new(T))
	if b.env.shared[name] == nil {
		b.env.shared[name] = new(T)
	}
	return b.env.shared[name].(*T)
}

// onWrite lets f change what is written.
func (b *broken) onWrite(f func(history) history) {
	save, add, replace := b.save, b.append, b.replace
	b.save = func(ctx context.Context, id string, m history) error { return save(ctx, id, f(m)) }
	b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
		return add(ctx, id, f(m), o)
	}
	b.replace = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
		return replace(ctx, id, f(m), o)
	}
}

// onRead lets f change what is read.
func (b *broken) onRead(f func(history) history) {
	load, read := b.load, b.read
	b.load = func(ctx context.Context, id string) (history, error) {
		m, err := load(ctx, id)
		if err == nil {
			m = f(m)
		}
		return m, err
	}
	b.read = func(ctx context.Context, id string, o *readOpts) (session.Snapshot, error) {
		s, err := read(ctx, id, o)
		if err == nil {
			s.Messages = f(s.Messages)
		}
		return s, err
	}
}

// onID lets f change all IDs.
func (b *broken) onID(f func(id string) string) {
	was := *b
	b.load = func(ctx context.Context, id string) (history, error) { return was.load(ctx, f(id)) }
	b.save = func(ctx context.Context, id string, m history) error { return was.save(ctx, f(id), m) }
	b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
		return was.append(ctx, f(id), m, o)
	}
	b.lock = func(ctx context.Context, id string, o *lockOpts) (session.Lease, error) {
		return was.lock(ctx, f(id), o)
	}
}

// beforeWrites calls f before every write of messages.
func (b *broken) beforeWrites(f func(id string)) {
	was := *b
	b.save = func(ctx context.Context, id string, m history) error { f(id); return was.save(ctx, id, m) }
	b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
		f(id)
		return was.append(ctx, id, m, o)
	}
	b.replace = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
		f(id)
		return was.replace(ctx, id, m, o)
	}
	b.truncate = func(ctx context.Context, id string, keep int, o *writeOpts) (session.Version, error) {
		f(id)
		return was.truncate(ctx, id, keep, o)
	}
}

// options copies opts, so that they can be changed.
func optionsOf[T any](opts *T) T {
	if opts == nil {
		return *new(T)
	}
	return *opts
}

func (b *broken) version(ctx context.Context, id string) session.Version {
	s, err := b.whole.Read(ctx, id, &readOpts{Last: 1})
	if err != nil {
		return ""
	}
	return s.Version
}

// eachMessage returns a function that lets f change copies of messages.
func eachMessage(f func(m *session.Message)) func(history) history {
	return func(messages history) history {
		messages = session.CloneMessages(messages)
		for i := range messages {
			f(&messages[i])
		}
		return messages
	}
}

// eachBlock returns a function that lets f change the blocks of copies of
// messages, those in results included. f returns false to drop one.
func eachBlock(f func(session.Block) bool) func(history) history {
	var keep func(blocks []session.Block) []session.Block
	keep = func(blocks []session.Block) (kept []session.Block) {
		for _, b := range blocks {
			if r, ok := b.(*session.ToolResultBlock); ok && r != nil {
				r.Content = keep(r.Content)
			}
			if f(b) {
				kept = append(kept, b)
			}
		}
		return kept
	}
	return eachMessage(func(m *session.Message) { m.Content = keep(m.Content) })
}

// eachText returns a function that lets f change the texts of copies of
// messages.
func eachText(f func(string) string) func(history) history {
	return eachBlock(func(b session.Block) bool {
		if t, ok := b.(*session.TextBlock); ok && t != nil {
			t.Text = f(t.Text)
		}
		return true
	})
}

// eachInput returns a function that lets f change the tool inputs of copies of
// messages.
func eachInput(f func([]byte) []byte) func(history) history {
	return eachBlock(func(b session.Block) bool {
		if u, ok := b.(*session.ToolUseBlock); ok && u != nil && len(u.Input) > 0 {
			u.Input = f(u.Input)
		}
		return true
	})
}

func contains(messages history, text string) bool {
	return strings.Contains(strings.Join(textsOf(messages), "\n"), text)
}

// readModifyWrite makes append read the history and write it all back.
func (b *broken) readModifyWrite() {
	b.append = func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
		old, err := b.whole.Load(ctx, id)
		if err != nil {
			return "", err
		}
		widen()
		return b.whole.Replace(ctx, id, append(old, m...), nil)
	}
}

// oneByOne makes append write its messages one after another.
func (b *broken) oneByOne() {
	b.append = func(ctx context.Context, id string, m history, o *writeOpts) (v session.Version, err error) {
		for i := range m {
			if v, err = b.whole.Append(ctx, id, m[i:i+1], nil); err != nil {
				return v, err
			}
			widen()
		}
		return v, nil
	}
}

// checkThenAct makes append and replace check IfVersion apart from writing.
func (b *broken) checkThenAct() {
	checked := func(write func(context.Context, string, history, *writeOpts) (session.Version, error)) func(context.Context, string, history, *writeOpts) (session.Version, error) {
		return func(ctx context.Context, id string, m history, o *writeOpts) (session.Version, error) {
			opts := optionsOf(o)
			if v := b.version(ctx, id); opts.IfVersion != "" && opts.IfVersion != v {
				return "", &session.Error{Op: "append", SessionID: id, Err: session.ErrConflict, Current: v}
			}
			widen()
			opts.IfVersion = ""
			return write(ctx, id, m, &opts)
		}
	}
	b.append, b.replace = checked(b.append), checked(b.replace)
}

// countsSaved makes Save write only what it has not saved yet, as far as the
// store has noted.
func (b *broken) countsSaved(n *noted[int]) {
	save := b.save
	b.save = func(ctx context.Context, id string, m history) error {
		saved, _ := n.get(id)
		n.set(id, len(m))
		if saved == 0 || saved > len(m) {
			return save(ctx, id, m)
		}
		_, err := b.whole.Append(ctx, id, m[saved:], nil)
		return err
	}
}

// frozen returns the store as it is to one whose clock stands still.
func (b *broken) frozen(ahead time.Duration) *session.DriverBackend {
	clock := b.env.Now
	if ahead == 0 {
		then := b.env.Now()
		clock = func() time.Time { return then }
	}
	return session.NewBackend(b.driver, &session.BackendOptions{TTL: brokenTTL, Clock: func() time.Time { return clock().Add(ahead) }})
}
