package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
)

var (
	errUnprocessed = errors.New("dynamostore: DynamoDB leaves items unprocessed")
	errKeep        = errors.New("dynamostore: Keep is more than there is, or Base has not changed")
)

// Commit implements session.Driver.
func (d *driver) Commit(ctx context.Context, id string, c session.Commit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if st, known := d.cache.get(id); known && st.rev == c.IfRev {
		err := d.commit(ctx, id, &st, &c)
		if c.IfRev != "" || !errors.Is(err, session.ErrConflict) {
			return err
		}
		// There still may be no session, but another tombstone.
		d.cache.forget(id)
	}
	st, _, err := d.readHead(ctx, id)
	if err != nil {
		return err
	}
	if st.rev != c.IfRev {
		return session.ErrConflict
	}
	return d.commit(ctx, id, &st, &c)
}

// commit makes a commit on a session in a state that may be behind.
func (d *driver) commit(ctx context.Context, id string, st *state, c *session.Commit) error {
	w := &write{driver: d, id: id, st: st, c: c}
	if err := w.plan(ctx); err != nil {
		return err
	}
	if w.rearm {
		least, err := d.rearm(ctx, id, c.Head)
		if err != nil {
			return err
		}
		w.next.until = least
		w.head = d.encodeHead(id, &w.next, c.Head)
	}
	if len(w.puts) > 0 {
		if err := d.putItems(ctx, w.puts); err != nil {
			w.discard(ctx)
			return err
		}
	}
	if err := d.putHead(ctx, w.head, st, w.rev()); err != nil {
		if errors.Is(err, session.ErrConflict) {
			d.cache.forget(id)
			w.discard(ctx)
		}
		return err
	}
	d.cache.put(id, w.next)
	return w.clean(ctx)
}

// putHead replaces a head that still has the revision of st. rev is the new
// one's.
//
// A conflict may be with a try that was not answered, or with one that something
// below, which the SDK knows nothing of, has made again: then the head that is
// there is ours. If it is not, and a try was not answered, ours may have been
// followed already; then the error is that of the try.
func (d *driver) putHead(ctx context.Context, head item, st *state, rev string) error {
	in := &dynamodb.PutItemInput{
		TableName: &d.table, Item: head,
		ConditionExpression:                 new("attribute_not_exists(#h)"),
		ExpressionAttributeNames:            map[string]string{"#h": attrPK},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if old := st.rev + st.gone; old != "" {
		in.ConditionExpression = new("#h = :h")
		in.ExpressionAttributeNames["#h"] = attrRev
		in.ExpressionAttributeValues = item{":h": str(old)}
	}
	var unanswered error
	for p := d.patience(); ; {
		err := d.attempt(ctx, func(ctx context.Context) error {
			_, err := d.client.PutItem(ctx, in, once)
			return err
		})
		switch {
		case err == nil:
			return nil
		case conditionFailed(err):
			it, lookErr := d.headBehind(ctx, err, head)
			f := fields{item: it}
			switch {
			case lookErr == nil && f.optStr(attrRev) == rev:
				return nil
			case unanswered != nil:
				return d.failed(ctx, unanswered)
			case lookErr != nil:
				return lookErr
			}
			return session.ErrConflict
		}
		switch classify(err) {
		case failRefused:
			return d.failed(ctx, err)
		case failUnknown:
			unanswered = err
		}
		if !p.wait(ctx) {
			return d.failed(ctx, err)
		}
	}
}

func conditionFailed(err error) bool {
	return errors.As(err, new(*types.ConditionalCheckFailedException))
}

// headBehind returns the item that a condition was not true of, from the error
// if the server sends it. There may be none.
func (d *driver) headBehind(ctx context.Context, err error, head item) (item, error) {
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) && len(failed.Item) > 0 {
		return failed.Item, nil
	}
	in := &dynamodb.GetItemInput{TableName: &d.table, Key: item{attrPK: head[attrPK], attrSK: head[attrSK]}, ConsistentRead: new(true)}
	var out *dynamodb.GetItemOutput
	err = d.retry(ctx, func(ctx context.Context) (err error) {
		out, err = d.client.GetItem(ctx, in, once)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// write is a commit that is being made.
type write struct {
	driver *driver
	id     string
	st     *state
	c      *session.Commit

	next  state
	puts  []item   // before the head, which names them
	keys  []string // of puts
	rearm bool
	head  item

	dropped []span   // of items that nothing names once the head is written
	dead    []string // keys of such items
	sweep   bool     // whether there are more
}

func (w *write) rev() string { return w.next.rev + w.next.gone }

// plan finds out what is to be written, and whether it can be.
func (w *write) plan(ctx context.Context) error {
	d, h := w.driver, w.c.Head
	if h == nil {
		return w.planRemoval()
	}
	st := w.st
	if w.c.Keep < 0 || w.c.Keep > st.count || w.c.Keep < st.count && h.Base == st.base {
		return errKeep
	}
	w.next = *st
	w.next.gone, w.next.rev, w.next.base, w.next.seq = "", h.Rev, h.Base, st.seq+1
	nonce, add := newNonce(), w.c.Add
	if h.Base != st.base {
		var err error
		if add, err = w.rebase(ctx, nonce, h); err != nil {
			return err
		}
	}
	batches, err := d.makeBatches(w.id, &w.next, nonce, add)
	if err != nil {
		return err
	}
	for _, b := range batches {
		w.put(d.encodeBatch(w.id, b, removalOf(h))...)
		w.next.last = b.key
	}
	w.next.count += len(add)
	if w.next.count > maxPosition {
		return fmt.Errorf("%w: %d messages", session.ErrTooLarge, w.next.count)
	}
	w.planIndex(h)
	w.planExpiry(h)
	if err := w.planMeta(nonce, h); err != nil {
		return err
	}
	if len(w.dropped) > 0 && w.next.dirty == 0 {
		w.next.dirty = h.Updated.Unix()
	}
	w.head = d.encodeHead(w.id, &w.next, h)
	return w.checkSizes()
}

func (w *write) put(items ...item) {
	for _, it := range items {
		f := fields{item: it}
		w.puts, w.keys = append(w.puts, it), append(w.keys, f.str(attrSK))
	}
}

// planIndex refreshes the keys of the indexes if they have become too old.
func (w *write) planIndex(h *session.Head) {
	every, stamp := w.driver.opts.IndexEvery, stampOf(h.Updated)
	if w.next.listed == "" || every < 0 || stamp < w.next.listed || w.next.listed <= stampOf(h.Updated.Add(-every)) {
		w.next.listed = stamp
	}
}

func (w *write) planExpiry(h *session.Head) {
	stays := w.c.Keep > 0 || w.next.olderAt != "" || w.st.metaKey != "" && !w.c.SetMeta
	if !stays {
		w.next.until = removalOf(h)
		return
	}
	w.next.until, w.rearm = armed(w.st.until, h)
}

// planMeta puts Meta into the head, or into an item of its own if that keeps
// the head, which every commit writes, from costing more.
func (w *write) planMeta(nonce string, h *session.Head) error {
	if w.c.SetMeta {
		if w.st.metaKey != "" {
			w.dead = append(w.dead, w.st.metaKey)
		}
		w.next.metaKey, w.next.meta = "", clone(h.Meta)
	}
	if w.next.metaKey != "" || len(w.next.meta) == 0 {
		return nil
	}
	size := sizeOf(w.driver.encodeHead(w.id, &w.next, h))
	without := size - len(w.next.meta) - len(attrMeta)
	if writeUnits(size) == writeUnits(without) {
		return nil
	}
	w.next.metaKey = sideKey(metaMark, w.next.seq, nonce)
	w.put(w.driver.encodeBeside(w.id, w.next.metaKey, attrMeta, bin(clone(w.next.meta)), w.next.seq, removalOf(h)))
	w.next.meta = nil
	return nil
}

func (w *write) planRemoval() error {
	w.next = state{gone: newNonce(), seq: w.st.seq + 1, dirty: w.driver.opts.Clock().Unix()}
	if w.st.rev == "" {
		return errKeep // the caller knows that there is nothing to remove
	}
	if hidden(w.id) && w.st.count == 0 && w.st.last == "" && w.st.metaKey == "" && w.st.dirty == 0 {
		w.next.dirty = 0 // a lease: nothing but its head
	}
	w.head = w.driver.encodeTombstone(w.id, &w.next)
	return nil
}

func (w *write) checkSizes() error {
	if n := len(w.driver.pk(w.id)); n > maxPKBytes {
		return fmt.Errorf("%w: a partition key of %d bytes", session.ErrTooLarge, n)
	}
	for _, it := range append(w.puts, w.head) {
		f := fields{item: it}
		if sk := f.str(attrSK); len(sk) > maxSKBytes {
			return fmt.Errorf("%w: a sort key of %d bytes", session.ErrTooLarge, len(sk))
		}
		if n := sizeOf(it); n > maxItemBytes {
			return fmt.Errorf("%w: an item of %d bytes", session.ErrTooLarge, n)
		}
	}
	return nil
}
