package dynamostore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
)

// state is what a head says beyond a session.Head: all that the next commit has
// to know. It is not changed once made. The zero state: there is no head item.
type state struct {
	rev     string // empty: there is no session
	gone    string // revision of the tombstone, if there is one
	base    string
	count   int
	seq     int64
	last    string    // key of the last batch of base
	older   []segment // that the head itself has
	olderAt string    // key of the item that has the segments before them
	meta    []byte    // if metaKey is empty
	metaKey string
	listed  string // lk
	until   int64  // least ttl of the other items; 0: they have none
	dirty   int64  // since when there may be dead items; 0: there are none
}

// segments returns the segments that the head itself has, with the current one
// if it is not empty.
func (st *state) segments() []segment {
	if st.last == "" {
		return st.older
	}
	_, base, _, _, _ := parseBatchKey(st.last)
	return append(st.older[:len(st.older):len(st.older)], segment{base, st.count, st.last})
}

// encodeHead makes the head item of a session, of st and of h's Updated,
// Expires and Record.
func (d *driver) encodeHead(id string, st *state, h *session.Head) item {
	it := d.key(id, headKey)
	it[attrVersion] = num(formatVersion)
	it[attrRev] = str(st.rev)
	it[attrBase] = str(st.base)
	it[attrCount] = num(int64(st.count))
	it[attrSeq] = num(st.seq)
	it[attrUpdated] = str(stampOf(h.Updated))
	setBin(it, attrRecord, h.Record)
	if !h.Expires.IsZero() {
		it[attrExpires] = str(stampOf(h.Expires))
		it[attrTTL] = num(removalOf(h))
	}
	setStr(it, attrLast, st.last)
	setStr(it, attrOlder, encodeSegments(st.older))
	setStr(it, attrOlderKey, st.olderAt)
	setStr(it, attrMetaKey, st.metaKey)
	if st.metaKey == "" {
		setBin(it, attrMeta, st.meta)
	}
	setNum(it, attrUntil, st.until)
	setNum(it, attrDirty, st.dirty)
	if !hidden(id) {
		it[attrAP] = str(d.shardKey(shardOf(id)))
		if folder, ok := d.folderKey(id); ok {
			it[attrFP] = str(folder)
		}
		it[attrLK] = str(st.listed)
	}
	return it
}

// tombstoneFor is how long a tombstone stays at least: longer than a request
// can be under way.
const tombstoneFor = 24 * time.Hour

func (d *driver) encodeTombstone(id string, st *state) item {
	it := d.key(id, headKey)
	it[attrVersion] = num(formatVersion)
	it[attrRev] = str(st.gone)
	it[attrSeq] = num(st.seq)
	it[attrGone] = num(1)
	if setNum(it, attrDirty, st.dirty); st.dirty == 0 { // else it tells of items that are left
		it[attrTTL] = tombstoneTTL()
	}
	return it
}

// tombstoneTTL is by the clock of the service that removes the tombstone,
// whatever the store's says.
func tombstoneTTL() types.AttributeValue { return num(time.Now().Add(tombstoneFor).Unix()) }

// decodeHead reads a head item. Of none, and of a tombstone, the Head is zero
// and the state has no revision.
func decodeHead(id string, it item) (state, session.Head, error) {
	if it == nil {
		return state{}, session.Head{}, nil
	}
	f := fields{item: it}
	if v := f.num(attrVersion); f.bad == "" && v > formatVersion {
		return state{}, session.Head{}, fmt.Errorf("%w: format %d of the head item, this one knows %d", session.ErrNewerFormat, v, formatVersion)
	}
	st := state{rev: f.str(attrRev), seq: f.num(attrSeq), dirty: f.optNum(attrDirty)}
	if f.optNum(attrGone) != 0 {
		st.gone, st.rev = st.rev, ""
		return st, session.Head{}, f.err(headKey)
	}
	st.base, st.count = f.str(attrBase), int(f.num(attrCount))
	st.last, st.olderAt, st.metaKey = f.optStr(attrLast), f.optStr(attrOlderKey), f.optStr(attrMetaKey)
	st.meta, st.listed, st.until = f.bin(attrMeta), f.optStr(attrLK), f.optNum(attrUntil)
	var ok bool
	if st.older, ok = decodeSegments(f.optStr(attrOlder)); !ok {
		f.fail(attrOlder)
	}
	if _, _, position, part, ok := parseBatchKey(st.last); st.last != "" && (!ok || part >= 0 || position > st.count) {
		f.fail(attrLast)
	}
	if n := len(st.older); n > 0 && st.older[n-1].last > st.count || st.count < 0 || st.count > 0 && st.last == "" && n == 0 && st.olderAt == "" {
		f.fail(attrCount)
	}
	h := session.Head{
		ID: id, Rev: st.rev, Base: st.base, Count: st.count, Record: f.bin(attrRecord), Meta: clone(st.meta),
		Updated: f.stamp(attrUpdated),
	}
	if _, ok := it[attrExpires]; ok {
		h.Expires = f.stamp(attrExpires)
	}
	return st, h, f.err(headKey)
}

// batch is one batch, put together from its parts if it has any.
type batch struct {
	key   string
	base  string // escaped
	start int    // position of its first message
	n     int    // how many messages
	first int    // position at which its commit begins
	prev  string
	seq   int64
	zip   bool
	data  [][]byte // of the parts, in order; nil: of one that is missing
	keys  []string // of its items
}

func (b *batch) end() int { return b.start + b.n - 1 }

// encode makes the items of a batch.
func (d *driver) encodeBatch(id string, b *batch, ttl int64) []item {
	items := make([]item, len(b.data))
	for i, data := range b.data {
		it := d.key(id, b.key)
		if len(b.data) > 1 {
			it[attrSK] = str(partKey(b.key, i))
			it[attrParts] = num(int64(len(b.data)))
		}
		it[attrMessages] = num(int64(b.n))
		it[attrSeq] = num(b.seq)
		setStr(it, attrPrev, b.prev)
		if b.first != b.start {
			it[attrFirst] = num(int64(b.first))
		}
		it[attrData] = bin(data)
		if b.zip {
			it[attrZip] = num(1)
		}
		setNum(it, attrTTL, ttl)
		items[i] = it
	}
	return items
}

// decodeBatches puts batches together from items that are sorted by key. One
// that makes no sense is left out: it is missing.
func decodeBatches(items []item) []*batch {
	var all []*batch
	for _, it := range items {
		f := fields{item: it}
		sk := f.str(attrSK)
		key, base, position, part, ok := parseBatchKey(sk)
		b := &batch{key: key, base: base, start: position, n: int(f.num(attrMessages)), prev: f.optStr(attrPrev),
			seq: f.num(attrSeq), zip: f.optNum(attrZip) != 0, first: position}
		if first := f.optNum(attrFirst); first != 0 {
			b.first = int(first)
		}
		parts := int(f.optNum(attrParts))
		if part < 0 {
			part, parts = 0, 1
		}
		if !ok || f.bad != "" || b.n < 1 || b.first < 1 || b.first > position || parts > maxParts || part >= parts {
			continue
		}
		if n := len(all); n > 0 && all[n-1].key == key && len(all[n-1].data) == parts {
			b = all[n-1]
		} else {
			b.data = make([][]byte, parts)
			all = append(all, b)
		}
		b.data[part] = f.bin(attrData)
		b.keys = append(b.keys, sk)
	}
	return all
}

// encodeBeside returns an item with one attribute of its own, which belongs to
// the head at seq.
func (d *driver) encodeBeside(id, key, name string, v types.AttributeValue, seq, ttl int64) item {
	it := d.key(id, key)
	it[name] = v
	it[attrSeq] = num(seq)
	setNum(it, attrTTL, ttl)
	return it
}

func decodeMeta(it item) ([]byte, error) {
	f := fields{item: it}
	meta := f.bin(attrMeta)
	if meta == nil {
		f.fail(attrMeta)
	}
	return meta, f.err(metaMark)
}

func decodeOlder(it item) ([]segment, error) {
	f := fields{item: it}
	segments, ok := decodeSegments(f.str(attrOlder))
	if !ok {
		f.fail(attrOlder)
	}
	return segments, f.err(olderMark)
}

func setStr(it item, name, v string) {
	if v != "" {
		it[name] = str(v)
	}
}

func setNum(it item, name string, v int64) {
	if v != 0 {
		it[name] = num(v)
	}
}

func setBin(it item, name string, v []byte) {
	if len(v) > 0 {
		it[name] = bin(clone(v))
	}
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// fields reads an item's attributes. bad is the first that is missing or not
// what it should be.
type fields struct {
	item
	bad string
}

func (f *fields) fail(name string) {
	if f.bad == "" {
		f.bad = name
	}
}

func (f *fields) err(what string) error {
	if f.bad == "" {
		return nil
	}
	return fmt.Errorf("%w: attribute %q of the item %q", session.ErrCorrupt, f.bad, what)
}

func (f *fields) str(name string) string {
	s := f.optStr(name)
	if s == "" {
		f.fail(name)
	}
	return s
}

func (f *fields) optStr(name string) string {
	switch v := f.item[name].(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case nil:
	default:
		f.fail(name)
	}
	return ""
}

func (f *fields) num(name string) int64 {
	if f.item[name] == nil {
		f.fail(name)
	}
	return f.optNum(name)
}

func (f *fields) optNum(name string) int64 {
	switch v := f.item[name].(type) {
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil {
			f.fail(name)
		}
		return n
	case nil:
	default:
		f.fail(name)
	}
	return 0
}

func (f *fields) stamp(name string) time.Time {
	t, err := time.Parse(stampFormat, f.str(name))
	if err != nil {
		f.fail(name)
	}
	return t
}

func (f *fields) bin(name string) []byte {
	switch v := f.item[name].(type) {
	case *types.AttributeValueMemberB:
		return v.Value
	case nil:
	default:
		f.fail(name)
	}
	return nil
}
