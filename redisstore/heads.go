package redisstore

import (
	"context"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/listing"
)

// pageHeads is how many heads are read at once.
const pageHeads = 100

// Heads implements session.Driver. It reads pages of an index and the heads
// that they name. A session may have been updated up to IndexEvery after the
// time that it stands at, so heads wait until what is still to come can't be
// newer.
func (d *driver) Heads(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		if err := d.heads(ctx, q, func(h session.Head) bool { return yield(h, nil) }); err != nil {
			yield(session.Head{}, err)
		}
	}
}

func (d *driver) heads(ctx context.Context, q session.HeadQuery, yield func(session.Head) bool) error {
	cur := d.cursor(q)
	return listing.InOrder(q, pageHeads, func(n int) (heads []session.Head, newest time.Time, err error) {
		if err := ctx.Err(); err != nil {
			return nil, newest, err
		}
		entries, err := cur.next(ctx, d.client, n)
		if err != nil {
			return nil, newest, explain(ctx, err)
		}
		if len(entries) > 0 {
			newest = time.UnixMicro(cur.score + 1).Add(d.opts.IndexEvery)
		}
		heads, err = d.headsOf(ctx, cur.key, entries)
		return heads, newest, err
	}, yield)
}

// entry is a session in an index.
type entry struct {
	id    string
	score float64 // Unix microseconds
}

// indexCursor is a position in an index.
type indexCursor struct {
	key   string
	min   string
	score int64 // of the last entry
	skip  int64 // how many of the entries at score were seen
}

// cursor returns where the entries begin that q asks for.
func (d *driver) cursor(q session.HeadQuery) *indexCursor {
	c := &indexCursor{key: d.indexKey(folderOf(q.Prefix)), min: "-inf", score: math.MaxInt64}
	if !q.Since.IsZero() {
		c.min = strconv.FormatInt(q.Since.Add(-d.opts.IndexEvery).UnixMicro(), 10)
	}
	if !q.AfterUpdated.IsZero() {
		// Behind it are updates before it, which stand no later. One that was
		// refused, and had been listed in advance, may stand later.
		c.score = q.AfterUpdated.Add(d.opts.IndexEvery).UnixMicro() + 1
	}
	return c
}

// next returns entries behind the position, newest first, none at the end, and
// moves it. Entries of one time are passed by counting: one that comes or goes
// meanwhile may be repeated or missed.
func (c *indexCursor) next(ctx context.Context, client redis.UniversalClient, n int) ([]entry, error) {
	most := "+inf"
	if c.score != math.MaxInt64 {
		most = strconv.FormatInt(c.score, 10)
	}
	by := &redis.ZRangeBy{Min: c.min, Max: most, Offset: c.skip, Count: int64(n)}
	found, err := client.ZRevRangeByScoreWithScores(ctx, c.key, by).Result()
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, z := range found {
		id, _ := z.Member.(string)
		entries = append(entries, entry{id, z.Score})
		if score := int64(z.Score); score == c.score {
			c.skip++
		} else {
			c.score, c.skip = score, 1
		}
	}
	return entries, nil
}

// headsOf reads the heads of an index's entries, each of one moment. Entries of
// sessions that are not there are taken from the index.
func (d *driver) headsOf(ctx context.Context, index string, entries []entry) ([]session.Head, error) {
	there, read := make([]*redis.IntCmd, len(entries)), make([]*redis.SliceCmd, len(entries))
	d.client.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, e := range entries {
			there[i], read[i] = p.Exists(ctx, d.headKey(e.id)), p.MGet(ctx, d.headKey(e.id), d.metaKey(e.id))
		}
		return nil
	})
	var heads []session.Head
	for i, e := range entries {
		h, err := d.readHead(e.id, read[i])
		if absent := there[i].Err() == nil && there[i].Val() == 0; err != nil || h.Rev == "" && !absent {
			h, err = d.Head(ctx, e.id) // to MGET, what is another's is not there
		}
		switch {
		case err != nil:
			return heads, err
		case h.Rev == "":
			d.forgetAbsent(ctx, index, e)
		default:
			heads = append(heads, h)
		}
	}
	return heads, nil
}

// readHead returns what was read of a session's head and Meta.
func (d *driver) readHead(id string, read *redis.SliceCmd) (session.Head, error) {
	values, err := read.Result()
	if err != nil {
		return session.Head{}, err
	}
	text, _ := values[0].(string)
	meta, hasMeta := values[1].(string)
	h, _, err := d.headOf(id, text, meta, hasMeta)
	return h, err
}
