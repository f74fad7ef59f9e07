package dynamostore

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/listing"
)

// A list takes the sessions in the order of an index and puts right what the
// index is behind: a session may have been updated up to Options.IndexEvery
// after its entry. What has been read waits in a heap until what is still to
// come can't be newer.

// Heads implements session.Driver.
func (d *driver) Heads(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		if err := d.heads(ctx, q, func(h session.Head) bool { return yield(h, nil) }); err != nil {
			yield(session.Head{}, err)
		}
	}
}

func (d *driver) heads(ctx context.Context, q session.HeadQuery, yield func(session.Head) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries := d.newEntries(q)
	return listing.InOrder(q, maxGetItems, func(n int) (heads []session.Head, newest time.Time, err error) {
		ids, err := entries.take(ctx, n)
		if err != nil {
			return nil, newest, err
		}
		if heads, err = d.readHeads(ctx, ids); err != nil {
			return nil, newest, err
		}
		next, err := entries.next(ctx)
		if next != nil {
			newest = next.stamp.Add(d.indexEvery())
		}
		return heads, newest, err
	}, yield)
}

// indexEvery is how far an index may be behind.
func (d *driver) indexEvery() time.Duration { return max(0, d.opts.IndexEvery) }

// entry is a session in an index.
type entry struct {
	id    string
	stamp time.Time
}

// entries yields what a query may want from an index, newest first.
type entries struct {
	driver *driver
	prefix string // of IDs
	page   int    // how many are worth reading at once
	parts  []*partition
}

// partition is one partition of an index, of which a page is read at a time.
type partition struct {
	query *dynamodb.QueryInput
	read  []entry
	ended bool
}

func (d *driver) newEntries(q session.HeadQuery) *entries {
	e := &entries{driver: d, prefix: q.Prefix}
	oldest, newest := "0", ":" // before and behind all stamps
	if !q.Since.IsZero() {
		oldest = stampOf(within(q.Since.Add(-d.indexEvery())))
	}
	if !q.AfterUpdated.IsZero() {
		newest = stampOf(within(q.AfterUpdated)) // an entry is never newer than its session
	}
	if folder, ok := d.folderKey(q.Prefix); ok {
		e.parts = []*partition{d.newPartition(indexFolder, attrFP, folder, oldest, newest)}
		return e
	}
	for shard := range shards {
		e.parts = append(e.parts, d.newPartition(indexRecency, attrAP, d.shardKey(shard), oldest, newest))
	}
	return e
}

func (d *driver) newPartition(index, attribute, key, oldest, newest string) *partition {
	return &partition{ended: oldest > newest, query: &dynamodb.QueryInput{
		TableName: &d.table, IndexName: &index, ScanIndexForward: new(false),
		KeyConditionExpression:    new("#k = :k AND #lk BETWEEN :oldest AND :newest"),
		ExpressionAttributeNames:  map[string]string{"#k": attribute, "#lk": attrLK},
		ExpressionAttributeValues: item{":k": str(key), ":oldest": str(oldest), ":newest": str(newest)},
	}}
}

// within moves a time into the years that stamps can have.
func within(t time.Time) time.Time {
	first, last := time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}

// take returns the IDs of the next n sessions. An index that is just changing
// may show one twice.
func (e *entries) take(ctx context.Context, n int) ([]string, error) {
	e.page = n
	var ids []string
	seen := make(map[string]bool)
	for len(ids) < n {
		p, err := e.newest(ctx)
		if err != nil || p == nil {
			return ids, err
		}
		if id := p.read[0].id; !seen[id] {
			seen[id], ids = true, append(ids, id)
		}
		p.read = p.read[1:]
	}
	return ids, nil
}

// next returns the newest of what is still to come, nil if nothing is.
func (e *entries) next(ctx context.Context) (*entry, error) {
	p, err := e.newest(ctx)
	if err != nil || p == nil {
		return nil, err
	}
	return &p.read[0], nil
}

// newest returns the partition that has the next entry, nil if none has one.
func (e *entries) newest(ctx context.Context) (*partition, error) {
	var first *partition
	for _, p := range e.parts {
		if err := e.fill(ctx, p); err != nil {
			return nil, err
		}
		if len(p.read) > 0 && (first == nil || p.read[0].stamp.After(first.read[0].stamp)) {
			first = p
		}
	}
	return first, nil
}

// mostEntries is how many entries of an index are read at once.
const mostEntries = 1000

// fill reads pages of a partition until there is an entry. They grow where the
// prefix passes over all.
func (e *entries) fill(ctx context.Context, p *partition) error {
	for limit := e.page; len(p.read) == 0 && !p.ended; limit = min(2*limit, mostEntries) {
		p.query.Limit = aws.Int32(int32(limit))
		var out *dynamodb.QueryOutput
		err := e.driver.retry(ctx, func(ctx context.Context) (err error) {
			out, err = e.driver.client.Query(ctx, p.query, once)
			return err
		})
		if err != nil {
			return err
		}
		for _, it := range out.Items {
			f := fields{item: it}
			id, ok := strings.CutPrefix(f.str(attrPK), e.driver.pk(""))
			stamp := f.stamp(attrLK)
			if ok && f.bad == "" && strings.HasPrefix(id, e.prefix) {
				p.read = append(p.read, entry{id, stamp})
			}
		}
		p.query.ExclusiveStartKey = out.LastEvaluatedKey
		p.ended = len(out.LastEvaluatedKey) == 0
	}
	return nil
}

// readHeads reads the heads of sessions, which may be a little behind. Of those
// that don't exist there are none.
func (d *driver) readHeads(ctx context.Context, ids []string) ([]session.Head, error) {
	keys := make([]item, len(ids))
	for i, id := range ids {
		keys[i] = d.key(id, headKey)
	}
	items, err := d.getItems(ctx, keys)
	if err != nil {
		return nil, err
	}
	var heads []session.Head
	var metaKeys []item
	apart := make(map[string]int) // ID to index in heads
	for _, it := range items {
		f := fields{item: it}
		id := strings.TrimPrefix(f.str(attrPK), d.pk(""))
		st, h, err := decodeHead(id, it)
		if err != nil {
			return nil, err
		}
		if st.rev == "" {
			continue
		}
		if st.metaKey != "" {
			apart[id] = len(heads)
			metaKeys = append(metaKeys, d.key(id, st.metaKey))
		}
		heads = append(heads, h)
	}
	err = d.addMetas(ctx, heads, metaKeys, apart)
	return slices.DeleteFunc(heads, func(h session.Head) bool { return h.Rev == "" }), err
}

// addMetas reads the Metas that have items of their own. The heads of sessions
// that were removed meanwhile become zero.
func (d *driver) addMetas(ctx context.Context, heads []session.Head, keys []item, apart map[string]int) error {
	items, err := d.getItems(ctx, keys)
	if err != nil {
		return err
	}
	for _, it := range items {
		f := fields{item: it}
		id := strings.TrimPrefix(f.str(attrPK), d.pk(""))
		i, ok := apart[id]
		if !ok {
			continue
		}
		if heads[i].Meta, err = decodeMeta(it); err != nil {
			return err
		}
		delete(apart, id)
	}
	for id, i := range apart { // replaced meanwhile
		if heads[i], err = d.Head(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// getItems reads items of any number, eventually consistently.
func (d *driver) getItems(ctx context.Context, keys []item) ([]item, error) {
	var all []item
	p := d.patience()
	for len(keys) > 0 {
		n := min(len(keys), maxGetItems)
		in := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{d.table: {Keys: keys[:n]}}}
		var out *dynamodb.BatchGetItemOutput
		err := d.retry(ctx, func(ctx context.Context) (err error) {
			out, err = d.client.BatchGetItem(ctx, in, once)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, flatten(out.Responses)...)
		keys = keys[n:]
		rest := 0
		for _, left := range out.UnprocessedKeys {
			keys = append(keys, left.Keys...)
			rest += len(left.Keys)
		}
		if rest < n {
			p.progress()
		}
		if rest > 0 && !p.wait(ctx) {
			return nil, d.failed(ctx, errUnprocessed)
		}
	}
	return all, nil
}
