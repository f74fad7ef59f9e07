package redisstore

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// recency remembers when sessions were last put into the index, so that few
// writes have to do it again.
type recency struct {
	mu sync.Mutex
	m  map[string]int64 // Unix microseconds
}

// maxRecency is how many sessions a driver remembers that of.
const maxRecency = 16384

func (r *recency) get(id string) (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.m[id]
	return at, ok
}

func (r *recency) set(id string, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = make(map[string]int64)
	}
	for other := range r.m {
		if len(r.m) < maxRecency {
			break
		}
		delete(r.m, other)
	}
	r.m[id] = at
}

func (r *recency) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.m, id)
}

// list puts a session that is about to be written into the index, if it does
// not stand there at a time that is recent enough. It comes before the write:
// should the process end between the two, List finds no session and mends the
// index, whereas a session that is missing from it would stay unseen.
//
// One that is created is always put there: a reader may just have remembered
// when the one before it was.
func (d *driver) list(ctx context.Context, id string, updated time.Time, created bool) (listed int64, err error) {
	if at, ok := d.listed.get(id); ok && !created && !updated.Before(time.UnixMicro(at)) && updated.Sub(time.UnixMicro(at)) < d.opts.IndexEvery {
		return at, nil
	}
	at := updated.UnixMicro() // rounded down
	keys := d.indexKeys(id)
	if len(keys) == 0 {
		return at, nil
	}
	_, err = d.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, k := range keys {
			// Never back, but for another life: another writer may have been later.
			p.ZAddArgs(ctx, k, redis.ZAddArgs{GT: !created, Members: []redis.Z{{Score: float64(at), Member: id}}})
		}
		return nil
	})
	if err != nil {
		return 0, explain(ctx, err)
	}
	if d.opts.TTL > 0 {
		d.sweep(ctx, keys)
	}
	return at, nil
}

// unlist takes a session that was removed from the index. If it can't, List
// will.
func (d *driver) unlist(ctx context.Context, id string) {
	at, ok := d.listed.get(id)
	d.listed.forget(id)
	for _, k := range d.indexKeys(id) {
		if ok {
			d.forget(ctx, k, entry{id, float64(at)})
		}
	}
}

// forget takes an entry from an index, unless the session was put there anew.
func (d *driver) forget(ctx context.Context, index string, e entry) {
	forgetScript.Run(ctx, d.client, []string{index}, e.id, strconv.FormatFloat(e.score, 'f', -1, 64))
}

// aboutToBeWritten is how long a session may stand in the index before it is
// written.
const aboutToBeWritten = 10 * time.Minute

// forgetAbsent is forget for an entry whose session is not there, or not yet.
func (d *driver) forgetAbsent(ctx context.Context, index string, e entry) {
	if d.opts.Clock().Sub(time.UnixMicro(int64(e.score))) >= aboutToBeWritten {
		d.forget(ctx, index, e)
	}
}

// sweep looks at two entries of each index at random, and takes out those whose
// sessions have expired, so that the index holds not many more sessions than
// there are although nobody may ever list them.
func (d *driver) sweep(ctx context.Context, keys []string) {
	for _, k := range keys {
		found, err := d.client.ZRandMemberWithScores(ctx, k, 2).Result()
		if err != nil {
			return
		}
		for _, z := range found {
			id, _ := z.Member.(string)
			if n, err := d.client.Exists(ctx, d.headKey(id)).Result(); err == nil && n == 0 {
				d.forgetAbsent(ctx, k, entry{id, z.Score})
			}
		}
	}
}
