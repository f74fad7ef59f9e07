package dynamostore

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/session"
)

// The service removes an item at its ttl or up to days later, each by itself.
// So that it never takes a part of a live session, an item's ttl is twice the
// session's TTL and a day behind the write that set it, and a write that leaves
// less than a day between the session's expiry and the least ttl of its items
// sets them all anew, which happens once a TTL. The day is for clocks that
// differ.
const spareSeconds = 24 * 60 * 60

// farRemoval is as long as a ttl can be, in digits.
const farRemoval = 99_999_999_999

// removalOf returns the ttl, in Unix seconds, of items that are written with a
// head, 0 if they have none.
func removalOf(h *session.Head) int64 {
	if h.Expires.IsZero() {
		return 0
	}
	updated, expires := h.Updated.Unix(), h.Expires.Unix()+1
	return expires + max(0, expires-updated) + spareSeconds
}

// armed returns the least ttl of a session's items once h is its head, and
// whether that takes setting it anew in those that stay. until is the least
// so far.
func armed(until int64, h *session.Head) (least int64, again bool) {
	ttl := removalOf(h)
	if (until == 0) != (ttl == 0) || ttl != 0 && until < h.Expires.Unix()+spareSeconds {
		return ttl, true
	}
	return min(until, ttl), false
}

// rearmers is how many items are written to at once.
const rearmers = 16

// rearm sets the ttl of all items of a session but the head to that of items
// that are written with h, and returns the least that there is then. It leaves
// those that are good for half a TTL more, so that tries that are cut short get
// on.
func (d *driver) rearm(ctx context.Context, id string, h *session.Head) (least int64, err error) {
	items, err := d.query(ctx, id, span{attributes: []string{attrSK, attrTTL}})
	if err != nil {
		return 0, err
	}
	ttl := removalOf(h)
	enough := ttl
	if ttl != 0 {
		enough -= (ttl - h.Expires.Unix() - spareSeconds) / 2
	}
	least = ttl
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	free := make(chan struct{}, rearmers)
	for _, it := range items {
		f := fields{item: it}
		sk := f.str(attrSK)
		if until := f.optNum(attrTTL); sk == headKey || until == ttl || ttl != 0 && until >= enough {
			if sk != headKey {
				least = min(least, until)
			}
			continue
		}
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if err := d.setTTL(ctx, id, sk, ttl); err != nil {
				cancel(err)
			}
		})
		if ctx.Err() != nil {
			break
		}
	}
	wg.Wait()
	return least, context.Cause(ctx)
}

// setTTL sets the ttl of an item, if that still exists.
func (d *driver) setTTL(ctx context.Context, id, sk string, ttl int64) error {
	in := &dynamodb.UpdateItemInput{
		TableName: &d.table, Key: d.key(id, sk),
		ConditionExpression:      new("attribute_exists(#sk)"),
		UpdateExpression:         new("REMOVE #ttl"),
		ExpressionAttributeNames: map[string]string{"#sk": attrSK, "#ttl": attrTTL},
	}
	if ttl != 0 {
		in.UpdateExpression = new("SET #ttl = :ttl")
		in.ExpressionAttributeValues = item{":ttl": num(ttl)}
	}
	err := d.retry(ctx, func(ctx context.Context) error {
		_, err := d.client.UpdateItem(ctx, in, once)
		if conditionFailed(err) {
			return nil // removed meanwhile
		}
		return err
	})
	return err
}
