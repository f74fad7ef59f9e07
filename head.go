package session

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The contract keeps its own record in Head.Record. Format 1, integers as
// varints, tokens as 8 bytes, little endian:
//
//	format (1) · life · created, Unix nanoseconds
//	revision, version, base: each sequence number and token
//	hash: 0, or 1 and 16 bytes
//	stamps of keyed commits: count, then each
//	tokens of the last commits, the last one being rev: count, then each
//
// It takes about 200 bytes, about 550 in a session whose writes have keys.
const recordFormat = 1

// keptKeys and keptTokens are how much a record remembers: of keyed writes as
// many as the contract promises, of all commits as many as may come between one
// whose reply is lost and the look at what became of it.
const (
	keptKeys   = 32
	keptTokens = 16
)

// stamp names one commit of a session: the how-manyth it is, and 64 bits of
// its writer's own, random or made from the caller's key.
type stamp struct{ seq, token uint64 }

func (s stamp) String() string {
	b := strconv.AppendUint(make([]byte, 0, 30), s.seq, 10)
	b = append(b, '-')
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], s.token)
	const digits = "0123456789abcdef"
	for _, c := range t {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return string(b)
}

func parseStamp(text string) (stamp, bool) {
	seq, token, _ := strings.Cut(text, "-")
	s, err := strconv.ParseUint(seq, 10, 64)
	t, tokenErr := strconv.ParseUint(token, 16, 64)
	parsed := stamp{s, t}
	return parsed, err == nil && tokenErr == nil && parsed.String() == text
}

// record is what the contract knows of a session beside its Head's open fields.
type record struct {
	life    uint64 // random, another after each re-creation
	created time.Time
	rev     stamp // of the last commit
	version stamp // of the last commit that wrote messages
	base    stamp // of the last commit that was not an append
	hash    historyHash
	hashed  bool     // whether hash is known
	keyed   []stamp  // the last keptKeys commits with a key, oldest first
	recent  []uint64 // tokens of the last keptTokens commits, oldest first, the last one rev's
}

// find returns the stamp of the commit that a token belongs to.
func (r *record) find(token uint64) (stamp, bool) {
	for i, t := range slices.Backward(r.recent) {
		if t == token {
			return stamp{r.rev.seq - uint64(len(r.recent)-1-i), t}, true
		}
	}
	for _, s := range r.keyed {
		if s.token == token {
			return s, true
		}
	}
	return stamp{}, false
}

// remember returns list with x at the end, the last keep of them. It does not
// change list, which other copies of the record share.
func remember[T any](list []T, x T, keep int) []T {
	list = list[max(0, len(list)+1-keep):]
	return append(list[:len(list):len(list)], x)
}

func (r *record) encode() []byte {
	b := make([]byte, 0, 80+11*len(r.keyed)+8*len(r.recent))
	b = append(b, recordFormat)
	b = binary.LittleEndian.AppendUint64(b, r.life)
	b = binary.AppendVarint(b, r.created.UnixNano())
	for _, s := range []stamp{r.rev, r.version, r.base} {
		b = appendStamp(b, s)
	}
	if r.hashed {
		b = append(b, 1)
		b = binary.LittleEndian.AppendUint64(b, r.hash[0])
		b = binary.LittleEndian.AppendUint64(b, r.hash[1])
	} else {
		b = append(b, 0)
	}
	b = append(b, byte(len(r.keyed)))
	for _, s := range r.keyed {
		b = appendStamp(b, s)
	}
	b = append(b, byte(len(r.recent)))
	for _, t := range r.recent {
		b = binary.LittleEndian.AppendUint64(b, t)
	}
	return b
}

func appendStamp(b []byte, s stamp) []byte {
	return binary.LittleEndian.AppendUint64(binary.AppendUvarint(b, s.seq), s.token)
}

func decodeRecord(b []byte) (*record, error) {
	if len(b) > 0 && b[0] > recordFormat {
		return nil, fmt.Errorf("%w: session record of format %d", ErrNewerFormat, b[0])
	}
	d := recordReader{rest: b}
	if d.byte() != recordFormat {
		d.failed = true
	}
	r := &record{life: d.uint64(), created: time.Unix(0, d.varint()).UTC(), rev: d.stamp(), version: d.stamp(), base: d.stamp()}
	if d.byte() == 1 {
		r.hash, r.hashed = historyHash{d.uint64(), d.uint64()}, true
	}
	r.keyed = list(&d, keptKeys, d.stamp)
	r.recent = list(&d, keptTokens, d.uint64)
	if d.failed || len(d.rest) > 0 {
		return nil, fmt.Errorf("%w: session record of %d bytes", ErrCorrupt, len(b))
	}
	return r, nil
}

// recordReader takes a record apart. After a read past the end it returns
// zeros, and failed says so.
type recordReader struct {
	rest   []byte
	failed bool
}

func (d *recordReader) take(n int) []byte {
	if n <= 0 || n > len(d.rest) {
		d.failed, d.rest = true, nil
		return make([]byte, 8)
	}
	taken := d.rest[:n]
	d.rest = d.rest[n:]
	return taken
}

func (d *recordReader) byte() byte     { return d.take(1)[0] }
func (d *recordReader) uint64() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }

func (d *recordReader) varint() int64 {
	v, n := binary.Varint(d.rest)
	d.take(n)
	return v
}

func (d *recordReader) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	d.take(n)
	return v
}

func (d *recordReader) stamp() stamp { return stamp{d.uvarint(), d.uint64()} }

func list[T any](d *recordReader, most byte, next func() T) []T {
	n := d.byte()
	if n > most {
		d.failed = true
		return nil
	}
	l := make([]T, n)
	for i := range l {
		l[i] = next()
	}
	return l
}

// newToken returns a token that no other commit has.
func newToken() uint64 { return rand.Uint64() }

// keyToken returns the token of writes with a key, in one life of a session.
func keyToken(life uint64, key string) uint64 {
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte(key), life))
	return binary.LittleEndian.Uint64(sum[:])
}

// keyedMark stands in the revision of a commit with a key, between the stamp
// and the attempt's own token: two writers with one key have one stamp.
const keyedMark = "k"

// revision returns the Rev of the record's last commit, which w makes. With
// what was added it tells as much as the record does of a commit that only
// appended.
func (r *record) revision(w attempt) string {
	if w.key == "" {
		return r.rev.String()
	}
	return r.rev.String() + keyedMark + strconv.FormatUint(w.token, 16)
}

// follow brings the record forward by a commit that only appended.
func (r *record) follow(a Appended) {
	rev, _, keyed := strings.Cut(a.Rev, keyedMark)
	s, ok := parseStamp(rev)
	if !ok || s.seq != r.rev.seq+1 { // not of this package's making
		keyed = false
		sum := fnv.New64a()
		sum.Write([]byte(a.Rev))
		s = stamp{r.rev.seq + 1, sum.Sum64()}
	}
	r.rev, r.version = s, s
	if keyed {
		r.keyed = remember(r.keyed, s, keptKeys)
	}
	r.recent = remember(r.recent, s.token, keptTokens)
	r.hash = r.hash.addAll(a.Add)
}

// recordOf returns the record of a head.
func recordOf(h Head) (*record, error) {
	r, err := decodeRecord(h.Record)
	if err != nil {
		return nil, err
	}
	for _, a := range h.Appends {
		r.follow(a)
	}
	return r, nil
}

// current is a session as a writer knows it. It is not changed once made.
type current struct {
	*record // nil: there is no such session
	rev     string
	count   int
	updated time.Time
	expires time.Time
}

// currentOf reads a head. Of an expired session only the revision counts.
func currentOf(h Head, now time.Time) (*current, error) {
	c := &current{rev: h.Rev}
	if h.Rev == "" || expired(h.Expires, now) {
		return c, nil
	}
	r, err := recordOf(h)
	c.record, c.count, c.updated, c.expires = r, h.Count, h.Updated, h.Expires
	return c, err
}

func expired(expires, now time.Time) bool { return !expires.IsZero() && !now.Before(expires) }

func (c *current) expired(now time.Time) bool { return expired(c.expires, now) }

func (c *current) version() Version {
	if c.record == nil {
		return Absent
	}
	return Version(c.record.version.String())
}

// change is what a commit makes of a session.
type change struct {
	keep   int         // how many messages stay
	add    [][]byte    // the messages behind them
	hash   historyHash // of them all
	hashed bool        // whether hash is known

	setMeta bool   // the change is of Meta alone
	meta    []byte // with setMeta
}

// next returns the session that a change makes of c, and the commit that does
// it.
func (c *current) next(id string, ch change, w attempt, now, expires time.Time) (*current, Commit) {
	r := record{life: w.life, created: now}
	if c.record != nil {
		r = *c.record
	}
	r.rev = stamp{r.rev.seq + 1, w.tokenIn(r.life)}
	if w.key != "" {
		r.keyed = remember(r.keyed, r.rev, keptKeys)
	}
	r.recent = remember(r.recent, r.rev.token, keptTokens)
	if !ch.setMeta {
		r.version, r.hash, r.hashed = r.rev, ch.hash, ch.hashed
	}
	if c.record == nil || ch.keep < c.count {
		r.base = r.rev
	}
	n := &current{record: &r, rev: r.revision(w), count: ch.keep + len(ch.add), updated: now, expires: expires}
	if n.updated.Before(c.updated) {
		n.updated = c.updated
	}
	return n, Commit{
		IfRev: c.rev, Keep: ch.keep, Add: ch.add, SetMeta: ch.setMeta || c.record == nil,
		Head: &Head{
			ID: id, Rev: n.rev, Base: r.base.String(), Count: n.count,
			Updated: n.updated, Expires: expires, Record: r.encode(), Meta: ch.meta,
		},
	}
}
