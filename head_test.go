package session

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func randomRecord(keyed, recent int) *record {
	s := func() stamp { return stamp{rand.Uint64N(1 << 40), rand.Uint64()} }
	r := &record{
		life: rand.Uint64(), created: time.Unix(0, rand.Int64()).UTC(), rev: s(), version: s(), base: s(),
		hash: historyHash{rand.Uint64(), rand.Uint64()}, hashed: true, keyed: []stamp{}, recent: []uint64{},
	}
	for range keyed {
		r.keyed = append(r.keyed, s())
	}
	for range recent {
		r.recent = append(r.recent, rand.Uint64())
	}
	return r
}

func TestRecordRoundTrip(t *testing.T) {
	for _, r := range []*record{randomRecord(0, 0), randomRecord(0, 1), randomRecord(keptKeys, keptTokens)} {
		b := r.encode()
		if len(b) >= 1<<10 {
			t.Errorf("record of %d bytes, want under 1 KiB", len(b))
		}
		got, err := decodeRecord(b)
		if err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("decodeRecord(encode) = %+v, %v, want %+v", got, err, r)
		}
		for i := range b {
			if _, err := decodeRecord(b[:i]); !errors.Is(err, ErrCorrupt) {
				t.Errorf("decodeRecord of %d of %d bytes = %v, want ErrCorrupt", i, len(b), err)
			}
		}
		if _, err := decodeRecord(append(b, 0)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("decodeRecord with a byte too many = %v, want ErrCorrupt", err)
		}
		b[0]++
		if _, err := decodeRecord(b); !errors.Is(err, ErrNewerFormat) {
			t.Errorf("decodeRecord of a newer format = %v, want ErrNewerFormat", err)
		}
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(randomRecord(0, 0).encode())
	f.Add(randomRecord(2, 3).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord(b)
		if err != nil {
			return
		}
		first := r.encode()
		again, err := decodeRecord(first)
		if err != nil || !bytes.Equal(again.encode(), first) {
			t.Errorf("encode of a decoded record is not stable: %v", err)
		}
	})
}

func TestRememberLeavesOtherCopiesAlone(t *testing.T) {
	var all []stamp
	for i := range uint64(40) {
		all = remember(all, stamp{seq: i}, 32)
	}
	if len(all) != 32 || all[0].seq != 8 || all[31].seq != 39 {
		t.Fatalf("remember kept %d, from %d to %d; want 32, from 8 to 39", len(all), all[0].seq, all[31].seq)
	}
	a, b := remember(all, stamp{seq: 100}, 32), remember(all, stamp{seq: 200}, 32)
	if a[31].seq != 100 || b[31].seq != 200 {
		t.Errorf("two successors of one list share their end: %d, %d", a[31].seq, b[31].seq)
	}
}

func TestHistoryHashTellsHistoriesApart(t *testing.T) {
	seen := make(map[historyHash]string)
	note := func(what string, h historyHash) {
		if other, found := seen[h]; found {
			t.Errorf("%s and %s have one hash", what, other)
		}
		seen[h] = what
	}
	const life = 7
	hash := func(lines ...string) historyHash {
		h := newHistoryHash(life)
		for _, l := range lines {
			h = h.add([]byte(l))
		}
		return h
	}
	note("nothing", hash())
	for _, lines := range [][]string{
		{""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"a", "b"}, {"b", "a"}, {"ab"}, {"a\x00"}, {"\x00"}, {"\x00\x00"},
		{"0123456789abcdef"}, {"0123456789abcdef", ""}, {"0123456789abcde", "f"}, {"0123456789abcdef0123456789abcdef"},
	} {
		note(fmt.Sprintf("%q", lines), hash(lines...))
	}
	note("another life", newHistoryHash(life+1))
	long := bytes.Repeat([]byte("conversation "), 100)
	for i := range long {
		for bit := range 8 {
			long[i] ^= 1 << bit
			note(fmt.Sprintf("bit %d of byte %d turned", bit, i), newHistoryHash(life).add(long))
			long[i] ^= 1 << bit
		}
	}
}

func BenchmarkHistoryHash(b *testing.B) {
	line := make([]byte, 900)
	b.SetBytes(int64(len(line)))
	h := newHistoryHash(1)
	for b.Loop() {
		h = h.add(line)
	}
}

// TestRecordFollowsAppends compares a record that was brought forward with the
// one that a driver would have kept.
func TestRecordFollowsAppends(t *testing.T) {
	now := time.Unix(1, 2).UTC()
	c := &current{}
	var kept []byte
	var appends []Appended
	for i := range 200 {
		w := attempt{token: newToken(), life: 7}
		if i%3 == 0 {
			w.key = fmt.Sprint("key", i)
		}
		lines := [][]byte{fmt.Appendf(nil, "line %d", i)}
		ch := change{keep: c.count, add: lines, hash: newHistoryHash(7), hashed: true}
		if c.record != nil {
			ch.hash = c.hash
		}
		ch.hash = ch.hash.addAll(lines)
		next, commit := c.next("id", ch, w, now, time.Time{})
		if i%50 == 0 {
			kept, appends = commit.Head.Record, nil
		} else {
			appends = append(appends, Appended{commit.Head.Rev, lines})
		}
		got, err := recordOf(Head{Record: kept, Appends: appends})
		if err != nil || !bytes.Equal(got.encode(), commit.Head.Record) {
			t.Fatalf("record of commit %d, brought forward by %d, is another (error %v)", i, len(appends), err)
		}
		c = next
	}
}

// TestRecordFollowsOtherWriters checks revisions that a driver made up.
func TestRecordFollowsOtherWriters(t *testing.T) {
	for _, rev := range []string{"", "x", "k", "5", "5-", "5-xyz", "5-xk1", "9-0123456789abcdef", "05-0123456789abcdef", "5-0123456789ABCDEF"} {
		before := randomRecord(3, 3)
		before.rev.seq = 4
		r := *before
		r.follow(Appended{Rev: rev, Add: [][]byte{[]byte("line")}})
		if r.rev.seq != 5 || r.version != r.rev || r.base != before.base || r.rev.token != r.recent[3] || len(r.keyed) != 3 || r.hash == before.hash {
			t.Errorf("after %q the record is %+v, was %+v", rev, r, *before)
		}
		again := *before
		again.follow(Appended{Rev: rev, Add: [][]byte{[]byte("line")}})
		if again.rev != r.rev {
			t.Errorf("%q gives two revisions, %v and %v", rev, r.rev, again.rev)
		}
	}
}

// TestWritersWithOneKeyHaveRevisionsOfTheirOwn matters to drivers, which know
// their own commit by its revision.
func TestWritersWithOneKeyHaveRevisionsOfTheirOwn(t *testing.T) {
	c, first := (&current{}).next("id", change{}, attempt{token: 1, life: 7}, time.Unix(1, 0), time.Time{})
	_, a := c.next("id", change{}, attempt{token: 2, key: "k"}, time.Unix(1, 0), time.Time{})
	_, b := c.next("id", change{}, attempt{token: 3, key: "k"}, time.Unix(1, 0), time.Time{})
	_, again := c.next("id", change{}, attempt{token: 2, key: "k"}, time.Unix(1, 0), time.Time{})
	if a.Head.Rev == b.Head.Rev || a.Head.Rev != again.Head.Rev || a.Head.Rev == first.Head.Rev {
		t.Errorf("revisions %q and %q of two writers, %q of the first again", a.Head.Rev, b.Head.Rev, again.Head.Rev)
	}
}
