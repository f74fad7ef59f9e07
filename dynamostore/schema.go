package dynamostore

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A session is one partition: pk is the store's prefix, a colon and the session
// ID. Its items, by sort key; N is a number of 12 digits, R random:
//
//	h                          the head
//	bBASE/POSITION/R           a batch: messages from POSITION (10 digits, from 1) on
//	bBASE/POSITION/R/PART      a part (3 digits, from 000) of a batch of one large message
//	mN/R                       a Meta that is too large for the head
//	sN/R                       older segments that are too many for the head
//
// The head is the only item that changes, always under a condition on its
// revision. What it does not name does not exist. All others are immutable
// (but for ttl), are written before the head that names them, and have keys
// that are never used again, so that a request that is repeated or comes late
// does no harm. Attributes of a head:
//
//	r b c u e x  Rev, Base, Count, Updated, Expires, Record; times as text, since
//	             not every server keeps a number's 19 digits
//	q            how many commits the session's partition has seen
//	l            key of the last batch of this base, absent if it has none
//	s            older segments, o: key of the s item that has still older ones
//	m            Meta, if it does not make the head cost more; else mk: its key
//	ap fp lk     keys of the indexes, as of the last refresh; see below
//	ttl          when the service may remove the head, tt: the least ttl of the other items
//	w            since when there may be dead items (Updated of that commit, seconds)
//	t            1: a tombstone, which has only r, q, ttl, w and v beside it
//	v            format version
//
// A batch:
//
//	n            how many messages
//	d            their lines, joined by newlines; z: 1 if compressed by zstd
//	p            key of the batch before it in this base, absent in the first
//	f            position at which its commit begins, absent if that is its own
//	q            number of the commit that writes it: q of the head then
//	k            of a part: how many parts there are
//
// Segments. A history is made of one segment a base that it has had, oldest
// first. A segment is the positions up to its last one that come from that
// base, and the key of the batch that covers this last position, which may
// reach beyond. A commit that drops messages shortens the segments and begins
// an empty one, of its new base. In one base the history only grows.
//
// The chain. A writer that lost a race or died leaves batches that no head
// names. Their commit begins where another commit to the same base begins, which
// a head did name; but where a commit has several batches, the others may begin
// anywhere. What tells them apart is p: from the batch at the end of a segment
// downwards, p names what is true. A commit that is alone where it begins is
// true as well, if no item of its base has been removed since. See chain.go.
//
// Dead items. An item with q at most that of a head which does not reach it
// can't be named any more, and is removed by whoever sees it. One with a
// greater q may be of a commit that is under way and is never touched.
//
// Indexes. ap is the prefix, a colon and a digit (a hash of the ID), fp is
// prefix, colon and the ID's first folder with its slash, lk is Updated. lk may
// be up to Options.IndexEvery behind. A hidden session has none of them.
//
// Expiry. The head's Expires decides. ttl is so late that the service removes
// nothing of a session that is live; see rearm.go.
const formatVersion = 1

const (
	attrRev      = "r"
	attrBase     = "b"
	attrCount    = "c"
	attrUpdated  = "u"
	attrExpires  = "e"
	attrRecord   = "x"
	attrSeq      = "q"
	attrLast     = "l"
	attrOlder    = "s"
	attrOlderKey = "o"
	attrMeta     = "m"
	attrMetaKey  = "mk"
	attrUntil    = "tt"
	attrDirty    = "w"
	attrGone     = "t"
	attrVersion  = "v"

	attrMessages = "n"
	attrData     = "d"
	attrZip      = "z"
	attrPrev     = "p"
	attrFirst    = "f"
	attrParts    = "k"
)

// Limits of DynamoDB, from "Quotas in Amazon DynamoDB". A unit is what one
// write unit writes; see "Read and write operations".
const (
	maxItemBytes = 400 << 10
	maxPKBytes   = 2048
	maxSKBytes   = 1024
	writeUnit    = 1 << 10

	maxPutItems = 25  // of one BatchWriteItem
	maxGetItems = 100 // of one BatchGetItem
)

const (
	headKey   = "h"
	batchMark = "b"
	metaMark  = "m"
	olderMark = "s"

	maxPosition = 9_999_999_999
	maxParts    = 1000
	shards      = 4 // of the index by recency
)

type item = map[string]types.AttributeValue

func (d *driver) pk(id string) string { return d.opts.KeyPrefix + ":" + id }

func (d *driver) key(id, sk string) item {
	return item{attrPK: str(d.pk(id)), attrSK: str(sk)}
}

func hidden(id string) bool { return id != "" && id[0] == 0 }

// newNonce returns what makes the keys of a commit its own: 64 random bits.
func newNonce() string {
	var b [8]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// escapeBase makes a base a part of a key: without a slash, so that no base's
// keys are among another's.
func escapeBase(base string) string { return url.PathEscape(base) }

// positionAt is less than the keys of a base's batches that begin at a
// position, and greater than those of all before. base is escaped.
func positionAt(base string, position int) string {
	return fmt.Sprintf("%s%s/%010d/", batchMark, base, position)
}

// behindAt is greater than the keys of batches that begin at a position, and
// less than those of all behind.
func behindAt(base string, position int) string {
	return fmt.Sprintf("%s%s/%010d0", batchMark, base, position) // '0' follows '/'
}

func keyAt(base string, position int, nonce string) string {
	return positionAt(base, position) + nonce
}

// nonceOf returns what tells a batch from those of other commits.
func nonceOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

func partKey(batch string, part int) string { return fmt.Sprintf("%s/%03d", batch, part) }

// sideKey is the key of an item that a head names beside batches.
func sideKey(mark string, seq int64, nonce string) string {
	return fmt.Sprintf("%s%012d/%s", mark, seq, nonce)
}

// parseBatchKey takes the key of a batch or of a part of one apart. base is
// escaped. part is -1 if it is not a part.
func parseBatchKey(sk string) (batch, base string, position, part int, ok bool) {
	fields := strings.Split(sk, "/")
	if len(fields) < 3 || len(fields) > 4 || !strings.HasPrefix(sk, batchMark) {
		return "", "", 0, 0, false
	}
	position, err := strconv.Atoi(fields[1])
	part = -1
	if len(fields) == 4 {
		var partErr error
		part, partErr = strconv.Atoi(fields[3])
		err = cmp.Or(err, partErr)
	}
	return strings.Join(fields[:3], "/"), fields[0][len(batchMark):], position, part, err == nil && position > 0
}

// segment is a part of a history that comes from one base.
type segment struct {
	base string // escaped
	last int    // its last position
	key  string // of the batch that covers it
}

// encodeSegments writes each as its key, which has the base, and its end.
func encodeSegments(segments []segment) string {
	var b strings.Builder
	for _, s := range segments {
		fmt.Fprintf(&b, "%s %d ", s.key, s.last)
	}
	return strings.TrimSuffix(b.String(), " ")
}

func decodeSegments(text string) ([]segment, bool) {
	fields := strings.Fields(text)
	segments := make([]segment, 0, len(fields)/2)
	for ; len(fields) >= 2; fields = fields[2:] {
		last, err := strconv.Atoi(fields[1])
		_, base, position, part, ok := parseBatchKey(fields[0])
		if err != nil || !ok || part >= 0 || position > last || len(segments) > 0 && segments[len(segments)-1].last >= position {
			return nil, false
		}
		segments = append(segments, segment{base, last, fields[0]})
	}
	return segments, len(fields) == 0
}

// stampFormat is of times in UTC. In the years that drivers keep, they sort as
// text.
const stampFormat = "2006-01-02T15:04:05.000000000"

func stampOf(t time.Time) string { return t.UTC().Format(stampFormat) }

func shardOf(id string) int {
	h := fnv.New32a()
	h.Write([]byte(id))
	return int(h.Sum32() % shards)
}

func (d *driver) shardKey(shard int) string { return fmt.Sprintf("%s:%d", d.opts.KeyPrefix, shard) }

// folderKey returns the key of the folder that an ID or a prefix of IDs is in,
// if it is in one.
func (d *driver) folderKey(id string) (string, bool) {
	i := strings.IndexByte(id, '/')
	return d.opts.KeyPrefix + ":" + id[:i+1], i >= 0
}

// sizeOf is an item's size by "DynamoDB item sizes and formats": names and
// values in bytes, a number about a byte for two digits and one more.
func sizeOf(it item) int {
	n := 0
	for name, v := range it {
		n += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberB:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += len(v.Value)/2 + 2
		}
	}
	return n
}

// writeUnits is what it costs to write so many bytes.
func writeUnits(size int) int { return (size + writeUnit - 1) / writeUnit }

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
func bin(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
