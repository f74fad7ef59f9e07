package dynamostore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/klauspost/compress/zstd"

	"github.com/holdfast-go/session"
)

const (
	// batchBytes is how many bytes of lines share a batch. More would make
	// reading a few messages dearer, less would compress worse and round more
	// of them up to whole units.
	batchBytes = 32 << 10

	// maxMessageBytes bounds what a batch becomes when it is decompressed.
	maxMessageBytes = 256 << 20

	// maxRequestBytes is how much one BatchWriteItem carries. The service
	// takes 16 MB; less is answered sooner.
	maxRequestBytes = 4 << 20
)

// The encoder and the decoder are safe for concurrent use by EncodeAll and
// DecodeAll.
var (
	encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithLowerEncoderMem(true), zstd.WithSingleSegment(true))
	})
	decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxMessageBytes+1))
	})
)

// makeBatches puts lines into batches behind those of st, and links them.
func (d *driver) makeBatches(id string, st *state, nonce string, lines [][]byte) ([]*batch, error) {
	var all []*batch
	base, first, prev := escapeBase(st.base), st.count+1, st.last
	for start := first; len(lines) > 0; {
		n := batchLen(lines, d.batchBytes)
		b := &batch{key: keyAt(base, start, nonce), start: start, n: n, first: first, prev: prev, seq: st.seq}
		payload := bytes.Join(lines[:n], []byte("\n"))
		if len(payload) > maxMessageBytes {
			return nil, fmt.Errorf("%w: a message of %d bytes", session.ErrTooLarge, len(payload))
		}
		if !d.opts.Uncompressed {
			enc, err := encoder()
			if err != nil {
				return nil, err
			}
			if z := enc.EncodeAll(payload, nil); len(z) < len(payload) {
				payload, b.zip = z, true
			}
		}
		if err := d.split(id, b, payload); err != nil {
			return nil, err
		}
		all, prev = append(all, b), b.key
		start, lines = start+n, lines[n:]
	}
	return all, nil
}

// batchLen returns how many of the first lines share a batch. One that is
// large, or is not a line at all, has a batch of its own.
func batchLen(lines [][]byte, most int) int {
	size := 0
	for i, l := range lines {
		size += len(l) + 1
		if alone := size > most || bytes.IndexByte(l, '\n') >= 0; alone {
			return max(i, 1)
		}
	}
	return len(lines)
}

// split divides a batch's payload into parts that fit into items.
func (d *driver) split(id string, b *batch, payload []byte) error {
	overhead := sizeOf(d.encodeBatch(id, &batch{key: partKey(b.key, 0), n: b.n, first: maxPosition, prev: b.prev, seq: b.seq, zip: true,
		data: [][]byte{nil}}, farRemoval)[0]) + len(attrParts) + 4
	if room := d.itemBytes - overhead; room <= 0 || len(payload) > room*maxParts {
		return fmt.Errorf("%w: a message of %d bytes, compressed", session.ErrTooLarge, len(payload))
	} else {
		b.data = slices.Collect(slices.Chunk(payload, room))
	}
	return nil
}

// lines returns a batch's messages, nil if it is damaged.
func (b *batch) lines() [][]byte {
	if slices.ContainsFunc(b.data, func(part []byte) bool { return part == nil }) {
		return nil
	}
	payload := slices.Concat(b.data...)
	if b.zip {
		dec, err := decoder()
		if err != nil {
			return nil
		}
		if payload, err = dec.DecodeAll(payload, nil); err != nil {
			return nil
		}
	}
	if b.n == 1 {
		return [][]byte{payload}
	}
	lines := bytes.Split(payload, []byte("\n"))
	if len(lines) != b.n {
		return nil
	}
	for i, l := range lines {
		lines[i] = l[:len(l):len(l)]
	}
	return lines
}

// putItems writes items that no head names yet.
func (d *driver) putItems(ctx context.Context, items []item) error {
	if len(items) == 1 {
		return d.retry(ctx, func(ctx context.Context) error {
			_, err := d.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &d.table, Item: items[0]}, once)
			return err
		})
	}
	requests := make([]types.WriteRequest, len(items))
	for i, it := range items {
		requests[i].PutRequest = &types.PutRequest{Item: it}
	}
	return d.writeAll(ctx, requests)
}

// deleteItems removes items of a session.
func (d *driver) deleteItems(ctx context.Context, id string, keys []string) error {
	requests := make([]types.WriteRequest, len(keys))
	for i, sk := range keys {
		requests[i].DeleteRequest = &types.DeleteRequest{Key: d.key(id, sk)}
	}
	return d.writeAll(ctx, requests)
}

// writeAll makes requests in as many BatchWriteItems as it takes.
func (d *driver) writeAll(ctx context.Context, requests []types.WriteRequest) error {
	for len(requests) > 0 {
		n, size := 0, 0
		for n < min(len(requests), maxPutItems) {
			if put := requests[n].PutRequest; put != nil {
				size += sizeOf(put.Item)
			}
			if n > 0 && size > maxRequestBytes {
				break
			}
			n++
		}
		if err := d.writeSome(ctx, requests[:n]); err != nil {
			return err
		}
		requests = requests[n:]
	}
	return nil
}

// writeSome makes the requests of one BatchWriteItem, and those again that the
// service leaves unprocessed.
func (d *driver) writeSome(ctx context.Context, requests []types.WriteRequest) error {
	p := d.patience()
	for {
		var out *dynamodb.BatchWriteItemOutput
		in := &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{d.table: requests}}
		err := d.retry(ctx, func(ctx context.Context) (err error) {
			out, err = d.client.BatchWriteItem(ctx, in, once)
			return err
		})
		if err != nil {
			return err
		}
		rest := flatten(out.UnprocessedItems)
		if len(rest) == 0 {
			return nil
		}
		if len(rest) < len(requests) {
			p.progress()
		}
		if requests = rest; !p.wait(ctx) {
			return d.failed(ctx, errUnprocessed)
		}
	}
}

// flatten returns the items of a reply that are listed by table; there is one
// table.
func flatten[T any](byTable map[string][]T) []T {
	return slices.Concat(slices.Collect(maps.Values(byTable))...)
}
