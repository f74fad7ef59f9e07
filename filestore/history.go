package filestore

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/holdfast-go/session"
)

// history is what the lines of a file come to.
type history struct {
	head    session.Head // but for the ID
	created time.Time    // of the first line that says when; zero: unknown

	size  int64 // up to where the lines count; a torn tail may follow
	lines int   // in these bytes
	open  bool  // the last line has no line feed
	bare  bool  // the last line that counts has none
	torn  bool  // something follows that does not count

	anchor     int64 // where the last line begins
	anchorHead [anchorBytes]byte
	anchorLen  int // of its beginning, in anchorHead

	index   []entry
	indexed int  // the position from which on index leads to messages
	broken  bool // the next message does not follow the last one's line

	commits int   // since the Record
	added   int64 // bytes of messages, likewise
	unknown bool  // Record is not known, since others have written

	damaged   []Damage // in what counts
	slipped   int      // the last of them, so many together
	slippedTo int64    // where they end: the writer of a commit there may not have counted them
}

// entry says where the line of the message at a position, counted from 0,
// begins. The messages up to the next entry's stand in the lines that follow.
type entry struct {
	pos  int
	at   int64
	bad  bool  // the line is damaged
	jump bool  // what is before it is no part of the history, or damaged
	end  int64 // where the messages before the next entry's end; 0: not known
}

// An entry is made for every so many messages or bytes.
const (
	indexMessages = 64
	indexBytes    = 64 << 10
)

// maxFollowed is how many bytes of appends without a Record are kept for the
// Head: more than any but others can have written.
const maxFollowed = 8 * recordBytes

// place notes where the message at a position is.
func (h *history) place(pos int, at int64, bad bool) {
	if n := len(h.index); bad || h.broken || n == 0 || pos-h.index[n-1].pos >= indexMessages || at-h.index[n-1].at >= indexBytes {
		h.index = append(h.index, entry{pos: pos, at: at, bad: bad, jump: bad || h.broken || n == 0})
	}
	h.broken = bad
}

// cut forgets the messages at positions from keep on.
func (h *history) cut(keep int) {
	n, _ := slices.BinarySearchFunc(h.index, keep, func(e entry, pos int) int { return e.pos - pos })
	if n > 0 && n < len(h.index) {
		h.index[n-1].end = h.index[n].at
	}
	h.index = h.index[:n]
	h.indexed = min(h.indexed, keep)
	h.broken = true
	h.head.Count = keep
}

// anchorBytes is how much of the last line tells it from others.
const anchorBytes = 128

func (h *history) setAnchor(b []byte, at int64) {
	h.anchor, h.anchorLen = at, copy(h.anchorHead[:], b)
}

// fits reports whether the last line of the history is where it was.
func (h *history) fits(r io.ReaderAt) bool {
	b := make([]byte, h.anchorLen)
	n, _ := r.ReadAt(b, h.anchor)
	return string(b[:n]) == string(h.anchorHead[:h.anchorLen])
}

// ended reports whether the last line, which has had no line feed, has nothing
// but one behind it.
func (h *history) ended(r io.ReaderAt, size int64) bool {
	var b [1]byte
	n, _ := r.ReadAt(b[:], h.size)
	return size == h.size || n == 1 && b[0] == '\n'
}

// followed brings the Record forward by a commit without one of its own.
func (h *history) followed(rev string, appended bool, add [][]byte) {
	h.commits++
	for _, m := range add {
		h.added += int64(len(m))
	}
	if !appended || h.unknown || h.added > maxFollowed || h.head.Record == nil {
		h.unknown, h.head.Record, h.head.Appends = true, nil, nil
		return
	}
	h.head.Appends = append(h.head.Appends, session.Appended{Rev: rev, Add: add})
}

func (h *history) setRecord(record []byte) {
	h.head.Record, h.head.Appends = record, nil
	h.unknown, h.commits, h.added = false, 0, 0
}

// fold makes a history of lines, which are given to it in their order.
type fold struct {
	*history
	report  func(d Damage) // without File
	pending []pendingLine  // of a batch whose end has not come
	skipped int            // lines behind size that don't count, and have been reported
	bad     []Damage       // lines directly before that are not whole
	heads   bool           // whether the Appends of the head are wanted
	growing bool           // whether more lines may be on their way

	each   func(p *pendingLine)    // of each line that counts; nil: nobody wants them
	placed func(pos int, d Damage) // of each message, as if it were damaged

	decodes func(message []byte) bool // whether a message is one; nil: that is not asked
}

type pendingLine struct {
	line
	at   int64
	size int64
	rev  string // that a line without one is given
	no   int    // of the line
	raw  []byte // the whole line, if each is set
}

func (p *pendingLine) place() Damage {
	return Damage{Line: p.no, Offset: p.at, Length: p.size, Err: errNotMessage}
}

// next takes the next line, and reports whether it may be followed by others.
func (f *fold) next(b []byte, at int64, whole bool) bool {
	size, no := int64(len(b)), f.lines+f.skipped+len(f.pending)+len(f.bad)+1
	if f.open = !whole; whole {
		size++
	}
	if f.bare && at == f.size && len(b) == 0 { // the end of a line that has been counted
		f.bare, f.size = false, at+size
		return true
	}
	if whole && len(bytes.TrimSpace(b)) == 0 {
		f.dropTorn()
		f.lines, f.size = no, at+size
		f.pending, f.bad, f.skipped = f.pending[:0], nil, 0
		return true
	}
	l, ok := parseLine(b)
	if ok && f.decodes != nil && l.message != nil && !f.decodes(l.message) {
		ok = false
	}
	if !ok || !wellFormed(bytes.TrimSpace(b)) {
		f.bad = append(f.bad, Damage{Line: no, Offset: at, Length: size, Err: errNotLine})
		return true
	}
	if !whole && l.more > 0 {
		f.bad = append(f.bad, Damage{Line: no, Offset: at, Length: size, Err: errUnfinished})
		return true
	}
	p := pendingLine{line: l, at: at, size: size, no: no}
	if len(f.bad) > 0 {
		f.keepDamaged()
	} else if n := len(f.pending); n > 0 && (l.more != f.pending[n-1].more-1 || !l.changes() || l.more == 0 && l.commit == "") {
		f.dropTorn()
		f.skipped += n
		f.pending = f.pending[:0]
	}
	p.message, p.meta = bytes.Clone(l.message), bytes.Clone(l.meta)
	if f.each != nil {
		p.raw = bytes.Clone(b)
	}
	if f.created.IsZero() {
		f.created = l.ts
	}
	if l.more == 0 && l.commit == "" {
		p.rev = madeRev(b, at)
	}
	if f.pending = append(f.pending, p); l.more == 0 {
		f.setAnchor(b, at)
		f.apply(f.pending)
		f.pending = f.pending[:0]
	}
	return true
}

// dropTorn reports the lines that don't count, since a write failed.
func (f *fold) dropTorn() {
	if len(f.pending) == 0 && len(f.bad) == 0 {
		return
	}
	f.broken = true
	d := Damage{Err: errUnfinished}
	if len(f.pending) > 0 {
		d.Line, d.Offset = f.pending[0].no, f.pending[0].at
	} else {
		d.Line, d.Offset = f.bad[0].Line, f.bad[0].Offset
	}
	for _, p := range f.pending {
		d.Length += p.size
	}
	for _, b := range f.bad {
		d.Length += b.Length
	}
	f.report(d)
}

// keepDamaged takes damaged lines, and what has come of their batch before, for
// messages of the history.
func (f *fold) keepDamaged() {
	if n := len(f.pending); n > 0 {
		f.pending[n-1].rev = madeRev(nil, f.pending[n-1].at)
		f.apply(f.pending)
		f.pending = f.pending[:0]
	}
	if f.head.Rev == "" {
		f.head.Rev = madeRev(nil, f.bad[0].Offset)
		f.head.Base = f.head.Rev
	}
	f.head.Rev = slippedRev(f.head.Rev, len(f.bad))
	for _, d := range f.bad {
		f.place(f.head.Count, d.Offset, true)
		if f.placed != nil {
			f.placed(f.head.Count, d)
		}
		f.head.Count++
		f.lines += f.skipped + 1
		f.skipped = 0
		f.size = d.Offset + d.Length
		f.damaged = append(f.damaged, d)
		f.report(d)
	}
	f.slipped, f.slippedTo = len(f.bad), f.size
	f.bad = nil
	f.unknown, f.head.Record, f.head.Appends = true, nil, nil
}

// slippedRev marks the revision of a history into which damaged lines have
// slipped: it has more messages than its writer knew of.
func slippedRev(rev string, n int) string { return fmt.Sprintf("%s~%d", rev, n) }

// apply takes a batch into the history.
func (f *fold) apply(batch []pendingLine) {
	last := &batch[len(batch)-1]
	f.lines += f.skipped + len(batch)
	f.skipped = 0
	f.size, f.bare = last.at+last.size, f.open
	for i := range batch {
		if f.each != nil {
			f.each(&batch[i])
		}
	}
	if !last.changes() {
		return
	}
	h := &f.head
	first, dropped := h.Rev == "", false
	var add [][]byte
	for i := range batch {
		l := &batch[i]
		switch {
		case l.kind == KindRollback:
			keep := max(h.Count-l.dropped, 0)
			if l.keep >= 0 && l.keep < h.Count {
				keep = l.keep
			}
			dropped = dropped || keep < h.Count || l.more == 0 && l.commit == ""
			f.cut(keep)
		case l.kind == kindMeta:
			if l.meta != nil {
				h.Meta = metaOf(l.meta)
			}
		default:
			f.place(h.Count, l.at, false)
			if f.placed != nil {
				f.placed(h.Count, l.place())
			}
			h.Count++
			if f.heads && last.record == nil {
				add = append(add, l.message)
			}
		}
	}
	if h.Rev = last.commit; h.Rev == "" {
		h.Rev = last.rev
	}
	if f.slipped > 0 && batch[0].at == f.slippedTo {
		h.Rev = slippedRev(h.Rev, f.slipped)
	}
	switch {
	case last.base != "":
		h.Base = last.base
	case first || dropped:
		h.Base = h.Rev
	}
	switch {
	case !last.updated.IsZero():
		h.Updated = last.updated
	case !last.ts.IsZero():
		h.Updated = last.ts
	}
	h.Expires = last.expires
	if last.record != nil {
		f.setRecord(last.record)
	} else {
		f.followed(h.Rev, !first && !dropped, add)
	}
}

func metaOf(encoded []byte) []byte {
	if string(encoded) == "null" {
		return nil
	}
	return bytes.Clone(encoded)
}

// end takes it that nothing follows, and reports a torn tail.
func (f *fold) end() {
	f.torn = f.skipped > 0 || len(f.pending) > 0 || len(f.bad) > 0
	if f.torn {
		f.broken = true
		if !f.growing {
			f.dropTorn()
		}
	}
	f.pending, f.bad = nil, nil
}
