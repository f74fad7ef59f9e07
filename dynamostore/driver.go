package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/session"
)

// driver is the session.Driver. It keeps nothing but a cache: two of them on
// one table are as good as one.
type driver struct {
	client API
	table  string
	opts   Options
	cache  *cache

	batchBytes  int // how many bytes of lines share a batch
	itemBytes   int // how large an item may be
	maxSegments int // how many segments a history may have
}

var _ session.Driver = (*driver)(nil)

func newDriver(client API, table string, opts *Options) (*driver, error) {
	o, err := opts.withDefaults()
	if err == nil && client == nil {
		err = fmt.Errorf("%w: no client", session.ErrInvalidOption)
	}
	if err == nil && table == "" {
		err = fmt.Errorf("%w: no table", session.ErrInvalidOption)
	}
	if err != nil {
		return nil, err
	}
	return &driver{
		client: client, table: table, opts: o, cache: newCache(),
		batchBytes: batchBytes, itemBytes: maxItemBytes, maxSegments: maxSegments,
	}, nil
}

// Close implements session.Driver.
func (d *driver) Close() error { return nil }

// Head implements session.Driver.
func (d *driver) Head(ctx context.Context, id string) (session.Head, error) {
	for range headTries {
		st, h, err := d.readHead(ctx, id)
		if err != nil || st.rev == "" {
			return session.Head{}, err
		}
		if st.metaKey == "" {
			return h, nil
		}
		meta, err := d.readMeta(ctx, id, st.metaKey)
		if err != nil {
			return session.Head{}, err
		}
		// The service may have removed that of an expired session already.
		if meta != nil || !h.Expires.IsZero() && !d.opts.Clock().Before(h.Expires) {
			h.Meta = meta
			return h, nil
		}
	}
	return session.Head{}, fmt.Errorf("%w: the head names a Meta item that is missing", session.ErrCorrupt)
}

// headTries is how often a head is read whose Meta was replaced in between
// before that is taken for damage.
const headTries = 10

// readHead reads a session's head, but for a Meta in an item of its own. Of a
// session that does not exist the state has no revision.
func (d *driver) readHead(ctx context.Context, id string) (state, session.Head, error) {
	it, err := d.getItem(ctx, id, headKey)
	if err != nil {
		return state{}, session.Head{}, err
	}
	st, h, err := decodeHead(id, it)
	if err != nil {
		return state{}, session.Head{}, err
	}
	d.cache.put(id, st)
	return st, h, nil
}

// readMeta returns what is in a Meta item, nil if there is none.
func (d *driver) readMeta(ctx context.Context, id, key string) ([]byte, error) {
	it, err := d.getItem(ctx, id, key)
	if err != nil || it == nil {
		return nil, err
	}
	return decodeMeta(it)
}

// getItem reads an item consistently. Of one that does not exist it is nil.
func (d *driver) getItem(ctx context.Context, id, sk string) (item, error) {
	in := &dynamodb.GetItemInput{TableName: &d.table, Key: d.key(id, sk), ConsistentRead: new(true)}
	var out *dynamodb.GetItemOutput
	err := d.retry(ctx, func(ctx context.Context) (err error) {
		out, err = d.client.GetItem(ctx, in, once)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}
