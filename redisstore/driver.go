package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
)

// driver is a session.Driver in Redis. Reads are transactions, not scripts: in
// a cluster they go to masters, whatever the client's preferences, and the
// reply needs no detour through the script's language.
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
	var values headValues
	var count *redis.IntCmd
	_, err := d.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		values = d.readHead(ctx, p, id)
		count = p.LLen(ctx, d.messagesKey(id))
		return nil
	})
	if err == nil || errors.Is(err, redis.Nil) {
		err = count.Err()
	}
	if err != nil {
		return session.Head{}, d.explainOf(ctx, id, err)
	}
	h, listed, err := d.headOf(ctx, id, values)
	if err != nil {
		return session.Head{}, err
	}
	if int64(h.Count) != count.Val() {
		return session.Head{}, d.partMissing(id)
	}
	d.listed.set(id, listed)
	return h, nil
}

// Range implements session.Driver.
func (d *driver) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	lines := make([][]byte, 0, to-from)
	for from < to {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(to-from, pageMessages)
		var head *redis.StringCmd
		var page *redis.StringSliceCmd
		_, err := d.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			head = p.Get(ctx, d.headKey(id))
			page = p.LRange(ctx, d.messagesKey(id), int64(from), int64(from+n-1))
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, d.explainOf(ctx, id, err)
		}
		now, _, err := decodeHead(head.Val())
		if err != nil {
			return nil, d.badHead(id, err)
		}
		if now.Base != h.Base {
			return nil, fmt.Errorf("%w: the history was replaced or removed", session.ErrConflict)
		}
		for _, l := range page.Val() {
			lines = append(lines, []byte(l))
		}
		for range n - len(page.Val()) {
			lines = append(lines, nil)
		}
		from += n
	}
	return lines, nil
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
		if err := d.run(ctx, id, []any{escapeLine.Replace(c.IfRev), "", 0, "", "-", ""}); err != nil {
			return err
		}
		d.unlist(ctx, id)
		return nil
	}
	listed, err := d.list(ctx, id, c.Head.Updated)
	if err != nil {
		return err
	}
	if err := d.run(ctx, id, commitArgs(c, listed)); err != nil {
		d.listed.forget(id) // the head may hold another time, or none
		return err
	}
	d.listed.set(id, listed)
	return nil
}

func commitArgs(c session.Commit, listed int64) []any {
	h := c.Head
	meta, life := "-", ""
	if c.SetMeta {
		meta = "+" + string(h.Meta)
	}
	if !h.Expires.IsZero() {
		life = strconv.FormatInt(max(h.Expires.Sub(h.Updated)+keptAfter, keptAfter).Milliseconds(), 10)
	}
	args := make([]any, 0, 6+len(c.Add))
	args = append(args, escapeLine.Replace(c.IfRev), escapeLine.Replace(h.Rev), c.Keep, life, meta, appendRest(nil, h, listed))
	for _, line := range c.Add {
		args = append(args, line)
	}
	return args
}

// run runs the commit script. When its reply is lost and go-redis sends it
// again, it meets its own revision and answers as it did, or, if another commit
// has come between, with a conflict, which the contract resolves by the tokens
// in the record.
func (d *driver) run(ctx context.Context, id string, args []any) error {
	keys := []string{d.headKey(id), d.messagesKey(id), d.metaKey(id), d.removedKey(id)}
	reply, err := commitScript.Run(ctx, d.client, keys, args...).Text()
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
