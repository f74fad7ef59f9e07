package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
)

// driver is a session.Driver in Redis. Its reads of a session are scripts and
// transactions: both are of one moment, and in a cluster both go to masters,
// whatever the client prefers. A full server runs scripts, but refuses to begin
// a transaction.
type driver struct {
	client redis.UniversalClient
	opts   Options
	close  func() error // nil: the client is the caller's
	listed recency
}

func newDriver(client redis.UniversalClient, o Options, closeClient func() error) *driver {
	return &driver{client: client, opts: o, close: closeClient}
}

// Close implements session.Driver.
func (d *driver) Close() error {
	if d.close == nil {
		return nil
	}
	return d.close()
}

// pageMessages is how many messages are read at once.
const pageMessages = 2048

// Head implements session.Driver.
func (d *driver) Head(ctx context.Context, id string) (session.Head, error) {
	if err := ctx.Err(); err != nil {
		return session.Head{}, err
	}
	reply, err := d.script(ctx, headScript, id, []string{d.headKey(id), d.metaKey(id), d.messagesKey(id)})
	if err != nil {
		return session.Head{}, err
	}
	text, _ := reply[0].(string)
	meta, hasMeta := reply[1].(string)
	h, listed, err := d.headOf(id, text, meta, hasMeta)
	if err != nil {
		return session.Head{}, err
	}
	if count, _ := reply[2].(int64); int64(h.Count) != count {
		return session.Head{}, d.partMissing(id)
	}
	d.listed.set(id, listed)
	return h, nil
}

// script runs a script of a session that returns a list, in which nil stands
// for a key that is not there.
func (d *driver) script(ctx context.Context, s *redis.Script, id string, keys []string, args ...any) (reply []any, err error) {
	err = d.settled(ctx, func() error {
		reply, err = s.Run(ctx, d.client, keys, args...).Slice()
		return err
	})
	return reply, d.explainOf(ctx, id, err)
}

// settled makes a call, again while it meets keys that are just being moved to
// another node of a cluster: such a call was not carried out.
func (d *driver) settled(ctx context.Context, call func() error) error {
	for wait, end := minSettling, time.Now().Add(settling); ; wait = min(2*wait, maxSettling) {
		err := call()
		if !redis.HasErrorPrefix(err, "TRYAGAIN") || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

const (
	settling    = 250 * time.Millisecond // at most: the keys of one session move fast
	minSettling = 2 * time.Millisecond
	maxSettling = 20 * time.Millisecond
)

// Range implements session.Driver.
func (d *driver) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	lines := make([][]byte, 0, to-from)
	for from < to {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(to-from, pageMessages)
		head, page, err := d.readPage(ctx, id, from, n)
		if err != nil {
			return nil, err
		}
		now, _, err := decodeHead(head)
		if err != nil {
			return nil, d.badHead(id, err)
		}
		if now.Base != h.Base || now.Count < to { // a failover may have lost the last of it
			return nil, fmt.Errorf("%w: the history was replaced or removed", session.ErrConflict)
		}
		for _, l := range page {
			lines = append(lines, []byte(l))
		}
		for range n - len(page) {
			lines = append(lines, nil)
		}
		from += n
	}
	return lines, nil
}

// readPage reads a head and n messages of one moment: in a transaction, whose
// reply needs no detour through the script's language, which would make a load
// of 1,000 take 1.4 times as long; by a script where the server is full.
func (d *driver) readPage(ctx context.Context, id string, from, n int) (head string, page []string, err error) {
	err = d.settled(ctx, func() error {
		var text *redis.StringCmd
		var list *redis.StringSliceCmd
		_, err := d.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			text = p.Get(ctx, d.headKey(id))
			list = p.LRange(ctx, d.messagesKey(id), int64(from), int64(from+n-1))
			return nil
		})
		if errors.Is(err, redis.Nil) {
			err = list.Err()
		}
		head, page = text.Val(), list.Val()
		return err
	})
	if !redis.HasErrorPrefix(err, "EXECABORT") {
		return head, page, d.explainOf(ctx, id, err)
	}
	reply, err := d.script(ctx, rangeScript, id, []string{d.headKey(id), d.messagesKey(id)}, from, from+n-1)
	if err != nil {
		return "", nil, err
	}
	head, _ = reply[0].(string)
	lines, _ := reply[1].([]any)
	for _, l := range lines {
		line, _ := l.(string)
		page = append(page, line)
	}
	return head, page, nil
}

// keptAfter is how long Redis keeps an expired session: clocks differ.
const keptAfter = time.Minute

// Commit implements session.Driver.
func (d *driver) Commit(ctx context.Context, id string, c session.Commit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := checkSize(c); err != nil {
		return err
	}
	if c.Head == nil {
		if err := d.run(ctx, id, []any{escapeLine.Replace(c.IfRev), "", 0, "", "-", "removal " + rand.Text()}); err != nil {
			return err
		}
		d.unlist(ctx, id)
		return nil
	}
	listed, err := d.list(ctx, id, c.Head.Updated, c.IfRev == "")
	if err != nil {
		return err
	}
	if err := d.run(ctx, id, d.commitArgs(c, listed)); err != nil {
		d.listed.forget(id) // the head may hold another time, or none
		return err
	}
	d.listed.set(id, listed)
	return nil
}

func (d *driver) commitArgs(c session.Commit, listed int64) []any {
	h := c.Head
	meta, life := "-", ""
	if c.SetMeta {
		meta = "+" + string(h.Meta)
	}
	if !h.Expires.IsZero() {
		// By this clock: Updated may be of one that is ahead.
		life = strconv.FormatInt(max(h.Expires.Sub(d.opts.Clock())+keptAfter, keptAfter).Milliseconds(), 10)
	}
	args := make([]any, 0, 6+len(c.Add))
	ifRev := escapeLine.Replace(c.IfRev)
	if ifRev == "" {
		ifRev = "\n" + rand.Text()
	}
	args = append(args, ifRev, escapeLine.Replace(h.Rev), c.Keep, life, meta, appendRest(nil, h, listed))
	for _, line := range c.Add {
		args = append(args, line)
	}
	return args
}

// run runs the commit script. When its reply is lost and go-redis sends it
// again, the script knows it and answers as it did.
func (d *driver) run(ctx context.Context, id string, args []any) error {
	keys := []string{d.headKey(id), d.messagesKey(id), d.metaKey(id), d.commitsKey(id)}
	var reply string
	err := d.settled(ctx, func() (err error) {
		reply, err = commitScript.Run(ctx, d.client, keys, args...).Text()
		return err
	})
	if err != nil {
		return d.explainOf(ctx, id, err)
	}
	switch reply {
	case "":
		return nil
	case "conflict":
		return fmt.Errorf("%w: at another revision", session.ErrConflict)
	case "newer":
		return newerFormat(d.headKey(id))
	case "other":
		return d.otherType(id)
	case "part":
		return d.partMissing(id)
	}
	return fmt.Errorf("redisstore: the commit script answered %q", reply)
}

func checkSize(c session.Commit) error {
	if len(c.Add) > mostMessages {
		return fmt.Errorf("%w: %d messages in one write, at most %d", session.ErrTooLarge, len(c.Add), mostMessages)
	}
	n := 0
	for _, l := range c.Add {
		n += len(l)
	}
	if n > mostBytes {
		return fmt.Errorf("%w: %d bytes in one write, at most %d", session.ErrTooLarge, n, mostBytes)
	}
	return nil
}
