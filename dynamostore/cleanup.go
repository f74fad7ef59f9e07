package dynamostore

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// takeOver is how long dead items are left to whoever made them, in seconds of
// the writers' clocks. A later commit then looks for them.
const takeOver = 60

// lateDiscard is how long discard may take when the caller's context is done.
const lateDiscard = time.Second

// discard removes what a commit wrote that did not come about. Nothing depends
// on it, so it takes no longer than one request may.
func (w *write) discard(ctx context.Context) {
	limit := w.driver.opts.RequestTimeout
	if ctx.Err() != nil {
		limit = min(limit, lateDiscard)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	w.driver.deleteItems(ctx, w.id, w.keys)
}

// clean removes what a commit has made dead. The session itself is as it should
// be by then, whatever becomes of this: the head says that there may be dead
// items, and another commit removes them. Only of a removal an error is
// returned.
func (w *write) clean(ctx context.Context) error {
	d := w.driver
	if w.c.Head != nil { // others wait for this commit's session
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.opts.RequestTimeout)
		defer cancel()
	}
	err := w.removeDead(ctx)
	if err == nil && w.next.dirty != 0 {
		d.setClean(ctx, w.id, &w.next)
	}
	if err != nil && w.c.Head == nil {
		return fmt.Errorf("dynamostore: the session is removed, but not all its items are: %w", err)
	}
	return nil
}

// finishRemoval removes what a removal of a session has left, if this process
// has seen that there is something.
func (d *driver) finishRemoval(ctx context.Context, id string) error {
	if st, known := d.cache.get(id); !known || st.rev != "" || st.dirty == 0 {
		return nil
	}
	st, _, err := d.readHead(ctx, id) // what is known may be of another life
	if err != nil || st.rev != "" || st.dirty == 0 {
		return err
	}
	if err := d.sweep(ctx, id, &st); err != nil {
		return fmt.Errorf("dynamostore: the session is removed, but not all its items are: %w", err)
	}
	d.setClean(ctx, id, &st)
	return nil
}

// errLeft says that there may be dead items, for another to remove.
var errLeft = fmt.Errorf("dynamostore: dead items are left to another writer")

func (w *write) removeDead(ctx context.Context) error {
	d := w.driver
	if w.c.Head == nil {
		if w.next.dirty == 0 {
			return nil
		}
		return d.sweep(ctx, w.id, &w.next)
	}
	if w.sweep || w.st.dirty != 0 && w.c.Head.Updated.Unix()-w.st.dirty > takeOver {
		return d.sweep(ctx, w.id, &w.next)
	}
	keys := w.dead
	for _, s := range w.dropped {
		s.attributes = []string{attrSK, attrSeq}
		items, err := d.query(ctx, w.id, s)
		if err != nil {
			return err
		}
		keys = append(keys, deadOf(items, w.next.seq, nil)...)
	}
	if err := d.deleteItems(ctx, w.id, keys); err != nil {
		return err
	}
	if w.st.dirty != 0 {
		return errLeft
	}
	return nil
}

// deadOf returns the keys of items that a head at sequence number seq does not
// reach and no other ever will.
func deadOf(items []item, seq int64, reached map[string]bool) []string {
	var keys []string
	for _, it := range items {
		f := fields{item: it}
		sk, q := f.str(attrSK), f.num(attrSeq)
		if f.bad == "" && sk != headKey && q <= seq && !reached[sk] {
			keys = append(keys, sk)
		}
	}
	return keys
}

// sweep removes all dead items of a session that is, or was, in state st. Where
// a batch is missing, it can't tell what is dead in that base, and leaves it.
func (d *driver) sweep(ctx context.Context, id string, st *state) error {
	items, err := d.query(ctx, id, span{attributes: []string{attrSK, attrSeq, attrMessages, attrPrev, attrFirst, attrParts}})
	if err != nil {
		return err
	}
	reached := map[string]bool{st.metaKey: true, st.olderAt: true}
	if st.rev != "" {
		segments, err := d.allSegments(ctx, id, st)
		if err != nil {
			return err
		}
		reach(items, segments, reached)
	}
	return d.deleteItems(ctx, id, deadOf(items, st.seq, reached))
}

// reach adds the keys of the batches of segments to reached, and those of all
// batches of a base where one is missing.
func reach(items []item, segments []segment, reached map[string]bool) {
	byKey, byBase := make(map[string]*batch), make(map[string][]*batch)
	for _, b := range decodeBatches(items) {
		byKey[b.key] = b
		byBase[b.base] = append(byBase[b.base], b)
	}
	behind := 0
	for _, s := range segments {
		key, position := s.key, s.last
		for position > behind {
			b := byKey[key]
			if b == nil || b.start > position || b.end() < position {
				for _, b := range byBase[s.base] {
					mark(b, reached)
				}
				break
			}
			mark(b, reached)
			key, position = b.prev, b.start-1
		}
		behind = s.last
	}
}

func mark(b *batch, reached map[string]bool) {
	for _, sk := range b.keys {
		reached[sk] = true
	}
}

// setClean says in the head that there are no dead items, if it still is that
// of st. If it fails, the next commit says so. A tombstone may go from then on.
func (d *driver) setClean(ctx context.Context, id string, st *state) {
	rev := st.rev + st.gone
	clean := *st
	clean.dirty = 0
	d.cache.put(id, clean)
	ctx, cancel := context.WithTimeout(ctx, d.opts.RequestTimeout)
	defer cancel()
	in := &dynamodb.UpdateItemInput{
		TableName: &d.table, Key: d.key(id, headKey),
		ConditionExpression:       new("#r = :r"),
		UpdateExpression:          new("REMOVE #w"),
		ExpressionAttributeNames:  map[string]string{"#r": attrRev, "#w": attrDirty},
		ExpressionAttributeValues: item{":r": str(rev)},
	}
	if st.gone != "" {
		in.UpdateExpression = new("SET #ttl = :ttl REMOVE #w")
		in.ExpressionAttributeNames["#ttl"] = attrTTL
		in.ExpressionAttributeValues[":ttl"] = tombstoneTTL()
	}
	d.client.UpdateItem(ctx, in, once)
}
