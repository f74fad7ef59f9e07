package dynamostore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
)

// world is a few processes that write to one session at the same time. A
// scheduler lets one request after another take effect, in a random order, and
// loses replies, delays writes and kills processes. What the session must be at
// each revision is known beforehand.
type world struct {
	*testing.T
	rnd     *rand.Rand
	fake    *fake
	drivers []*driver
	opts    Options
	ttl     time.Duration
	now     time.Time
	faults  int // percent of requests that fail
	id      string

	mu      sync.Mutex
	waiting []*pending
	late    []func()
	running int

	// By revision: what it makes of the session, and what it follows.
	heads     map[string]session.Head
	histories map[string][][]byte
	parents   map[string]string
	applied   map[string]bool // that were the session's revision; "-" and one: that were removed
	revs      int
	log       []string
}

// pending is a request that waits to take effect.
type pending struct {
	request string
	cancel  context.CancelFunc // of the process that makes it
	grant   chan verdict
}

type verdict int

const (
	passes verdict = iota
	losesReply
	isDropped
	comesLate
	isThrottled
	killsProcess // before it takes effect
	killsAfter
)

type processKey struct{}

// process is a process, which ends with its context.
type process struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (p process) done() <-chan struct{} {
	if p.ctx == nil {
		return nil
	}
	return p.ctx.Done()
}

func newWorld(t *testing.T, seed uint64, ttl time.Duration) *world {
	w := &world{
		T: t, rnd: rand.New(rand.NewPCG(seed, 1)), fake: newFake(), ttl: ttl, id: "user/s", faults: 15,
		now:   time.Date(2026, 3, 1, 0, 0, 0, 123456789, time.UTC),
		heads: map[string]session.Head{}, histories: map[string][][]byte{}, parents: map[string]string{}, applied: map[string]bool{},
	}
	w.opts = Options{RetryTime: time.Minute, Clock: func() time.Time { return w.now }, Uncompressed: w.rnd.IntN(2) == 0}
	w.fake.oldItems = w.rnd.IntN(2) == 0
	w.fake.pageSize = 1000 + w.rnd.IntN(8000)
	w.fake.before = w.before
	w.fake.changed = w.changed
	w.fake.accept = func(n int) int {
		if w.rnd.IntN(100) < w.faults {
			return w.rnd.IntN(n + 1)
		}
		return n
	}
	for range 3 {
		w.drivers = append(w.drivers, w.newDriver())
	}
	return w
}

func (w *world) newDriver() *driver {
	d, err := newDriver(w.fake, "table", &w.opts)
	if err != nil {
		w.Fatal(err)
	}
	d.batchBytes, d.itemBytes, d.maxSegments = 150, 420, 8
	return d
}

// before makes a request wait for the scheduler.
func (w *world) before(ctx context.Context, request string, apply func()) error {
	p := &pending{request: request, grant: make(chan verdict)}
	process, _ := ctx.Value(processKey{}).(process)
	p.cancel = process.cancel
	w.mu.Lock()
	w.waiting = append(w.waiting, p)
	w.mu.Unlock()
	v := passes
	select {
	case v = <-p.grant:
	case <-ctx.Done():
		w.forget(p)
		return ctx.Err()
	case <-process.done(): // killed, it does nothing more
		w.forget(p)
		return context.Canceled
	}
	switch v {
	case losesReply:
		apply()
		return errServer
	case isDropped:
		return errServer
	case comesLate:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.late = append(w.late, apply)
		return errServer
	case isThrottled:
		return &types.ProvisionedThroughputExceededException{Message: new("injected")}
	case killsProcess:
		p.cancel()
		return context.Canceled
	case killsAfter:
		apply()
		p.cancel()
		return context.Canceled
	}
	apply()
	return nil
}

func (w *world) forget(p *pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(q *pending) bool { return p == q })
}

// turn waits until nothing else runs. Processes use the world's fields only
// then, until their next request.
func (w *world) turn() {
	p := &pending{request: "turn", grant: make(chan verdict)}
	w.mu.Lock()
	w.waiting = append(w.waiting, p)
	w.mu.Unlock()
	<-p.grant
}

// step lets one thing happen. It returns false when there is nothing left.
func (w *world) step() bool {
	synctest.Wait()
	w.mu.Lock()
	n, late, running := len(w.waiting), len(w.late), w.running
	w.mu.Unlock()
	switch {
	case late > 0 && (w.rnd.IntN(15) == 0 || running == 0):
		i := w.rnd.IntN(late)
		apply := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		w.note("late")
		apply()
	case n > 0:
		i := w.rnd.IntN(n)
		p := w.waiting[i]
		w.waiting = slices.Delete(w.waiting, i, i+1)
		v := w.verdict(p)
		if p.request != "turn" {
			w.note("%s %d", p.request, v)
		}
		p.grant <- v
	case running > 0:
		time.Sleep(10 * time.Millisecond)
	default:
		return false
	}
	return true
}

func (w *world) verdict(p *pending) verdict {
	if p.request == "turn" || w.rnd.IntN(100) >= w.faults {
		return passes
	}
	v := verdict(1 + w.rnd.IntN(int(killsAfter)))
	if v >= killsProcess && (p.cancel == nil || w.rnd.IntN(3) > 0) {
		v = losesReply
	}
	return v
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// spawn runs a call of a process, on any driver.
func (w *world) spawn(call func(ctx context.Context, d *driver)) {
	i := w.rnd.IntN(len(w.drivers))
	if w.rnd.IntN(6) == 0 {
		w.drivers[i] = w.newDriver()
	}
	d := w.drivers[i]
	ctx, cancel := context.WithCancel(w.Context())
	ctx = context.WithValue(ctx, processKey{}, process{ctx, cancel})
	w.mu.Lock()
	w.running++
	w.mu.Unlock()
	go func() {
		w.turn()
		call(ctx, d)
		cancel()
		w.mu.Lock()
		w.running--
		w.mu.Unlock()
	}()
}

// changed checks each change of an item.
func (w *world) changed(old, now item, by string) {
	sk := textOf(old, attrSK) + textOf(now, attrSK)
	if !strings.HasPrefix(sk, headKey) {
		if now == nil && old != nil {
			w.checkRemoval(old, by)
		}
		return
	}
	was, is := revOf(old), revOf(now)
	w.note("head %q -> %q", was, is)
	switch {
	case now == nil || was == is:
	case is == "":
		w.applied["-"+was] = true
		if was == "" {
			w.Errorf("a tombstone in the place of no session")
		}
	case w.parents[is] != was:
		w.Errorf("revision %q follows %q, want %q", is, was, w.parents[is])
	default:
		if w.applied[is] {
			w.Errorf("revision %q was made twice", is)
		}
		w.applied[is] = true
	}
}

// revOf returns the revision of a head, "" of a tombstone or of no item.
func revOf(it item) string {
	if _, gone := it[attrGone]; gone {
		return ""
	}
	return textOf(it, attrRev)
}

// checkRemoval checks that an item that was removed was not one of a live
// session.
func (w *world) checkRemoval(old item, by string) {
	key := keyOf(item{attrPK: old[attrPK], attrSK: str(headKey)})
	head := w.fake.items[key]
	_, h, err := decodeHead(w.id, head)
	if err != nil || h.Rev == "" || by == "ttl" && !h.Expires.After(w.now) {
		return
	}
	w.fake.items[keyOf(old)] = old
	live := w.live(head)
	delete(w.fake.items, keyOf(old))
	if live[textOf(old, attrSK)] {
		w.Errorf("%s removed the live item %q of head %q\n%s", by, textOf(old, attrSK), h.Rev, strings.Join(w.log, "\n"))
	}
}

// live returns the sort keys of the items that a head names, itself or through
// others, by following the links without any of the driver's shortcuts.
func (w *world) live(head item) map[string]bool {
	live := map[string]bool{headKey: true, textOf(head, attrMetaKey): true, textOf(head, attrOlderKey): true}
	at := func(sk string) item { return w.fake.items[textOf(head, attrPK)+"\x00\x00"+sk] }
	anchors := strings.Fields(textOf(at(textOf(head, attrOlderKey)), attrOlder) + " " + textOf(head, attrOlder))
	for i, key := range append(anchors, textOf(head, attrLast)) {
		for i%2 == 0 && key != "" {
			var next string
			for part := -1; part < 20; part++ {
				sk := key
				if part >= 0 {
					sk = partKey(key, part)
				}
				if it := at(sk); it != nil {
					live[sk], next = true, textOf(it, attrPrev)
				}
			}
			key = next
		}
	}
	delete(live, "")
	return live
}

// removeExpired is the service that removes items, one of them.
func (w *world) removeExpired() {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	var due []string
	for key, it := range w.fake.items {
		f := fields{item: it}
		now := w.now
		if f.optNum(attrGone) != 0 {
			// It outlives what is under way.
			if now = time.Now(); w.running+len(w.late) == 0 {
				now = now.Add(2 * tombstoneFor)
			}
		}
		if ttl := f.optNum(attrTTL); ttl != 0 && ttl < now.Unix() {
			due = append(due, key)
		}
	}
	slices.Sort(due)
	if len(due) > 0 {
		key := due[w.rnd.IntN(len(due))]
		w.note("ttl %q", key)
		w.fake.set(key, nil, "ttl")
	}
}

// commit makes a commit of some kind on the session as a driver shows it.
func (w *world) commit(ctx context.Context, d *driver) {
	h, ok := w.look(ctx, d)
	if !ok {
		return
	}
	c := w.change(h)
	rev := "-" + h.Rev
	if c.Head != nil {
		rev = c.Head.Rev
	}
	w.note("commit %q on %q keep %d add %d", rev, h.Rev, c.Keep, len(c.Add))
	err := d.Commit(ctx, w.id, c)
	w.turn()
	w.note("commit %q: %v", rev, err)
	switch {
	case err == nil && !w.applied[rev]:
		w.Errorf("Commit of %q returned nil, but was not made", rev)
	case errors.Is(err, session.ErrConflict) && w.applied[rev] && c.Head != nil:
		w.Errorf("Commit of %q = %v, but was made\n%s", rev, err, strings.Join(w.log, "\n"))
	case errors.Is(err, session.ErrConflict) && c.Head != nil:
		w.parents[rev] = "nothing" // it must never be made
	case err != nil && !errors.Is(err, session.ErrConflict):
		w.checkError("Commit", err)
	}
}

// change returns a random commit, and notes what it makes of the session.
func (w *world) change(h session.Head) session.Commit {
	expired := h.Rev != "" && !h.Expires.IsZero() && !w.now.Before(h.Expires)
	c := session.Commit{IfRev: h.Rev, Keep: h.Count}
	switch n := w.rnd.IntN(20); {
	case h.Rev != "" && n == 0:
		c.Keep = 0
		return c
	case expired || n == 1:
		c.Keep = 0
	case n < 4 || h.Count > 150:
		c.Keep = w.rnd.IntN(h.Count + 1)
	case n < 8:
		c.Keep = max(0, h.Count-w.rnd.IntN(6))
	}
	w.revs++
	for i := range []int{0, 1, 1, 2, 3, 9, 30}[w.rnd.IntN(7)] {
		size := []int{5, 30, 80, 200, 1500}[w.rnd.IntN(5)]
		text := make([]byte, size)
		for j := range text {
			text[j] = "0123456789abcdefghijklmnopqrstuv"[w.rnd.IntN(32)]
		}
		c.Add = append(c.Add, fmt.Appendf(nil, `"%d.%d %s"`, w.revs, i, text))
	}
	n := session.Head{
		ID: w.id, Rev: fmt.Sprintf("%d-rev", w.revs), Base: h.Base, Count: c.Keep + len(c.Add), Updated: w.now,
		Record: []byte{byte(w.revs)},
	}
	if w.ttl > 0 {
		n.Expires = w.now.Add(w.ttl)
	}
	c.SetMeta = h.Rev == "" || expired || w.rnd.IntN(5) == 0
	n.Meta = h.Meta
	if c.SetMeta {
		n.Meta = bytes.Repeat([]byte("m"), []int{0, 10, 900, 5000}[w.rnd.IntN(4)])
	}
	if len(n.Meta) == 0 {
		n.Meta = nil
	}
	if c.Keep < h.Count || h.Rev == "" || expired {
		n.Base = fmt.Sprintf("%d/base", w.revs)
	}
	c.Head = &n
	w.heads[n.Rev], w.parents[n.Rev] = n, h.Rev
	w.histories[n.Rev] = append(slices.Clone(w.histories[h.Rev])[:c.Keep], c.Add...)
	return c
}

func (w *world) checkError(call string, err error) {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, error(errServer)) &&
		!errors.As(err, new(*types.ProvisionedThroughputExceededException)) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errUnprocessed) {
		w.Errorf("%s: %v\n%s", call, err, strings.Join(w.log, "\n"))
	}
}
