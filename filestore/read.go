package filestore

import (
	"bytes"
	"context"
	"io"
	"slices"
)

// reader reads messages, outside a log's turn.
type reader struct {
	file     io.ReaderAt
	from, to int
	parts    []part
	lines    [][]byte // what is known already; nil: nothing
}

// part is a stretch of the file with the messages at positions from pos to end,
// and no others that count before them.
type part struct {
	pos, end int
	at, to   int64
}

// partBytes is about how much is read at once. What is read together is kept
// together.
const partBytes = 1 << 20

// reader prepares the reading of the messages at positions from+1 to to.
func (l *log) reader(ctx context.Context, from, to int, r *reader) error {
	h := &l.history
	*r = reader{file: l.file, from: from, to: to}
	if from < h.indexed || len(h.index) == 0 {
		if to > h.head.Count/2 && h.head.Count-from < backMessages {
			if lines, err := l.readBack(ctx, from, to); lines != nil || err != nil {
				r.lines = lines
				return err
			}
		}
		if err := l.reindex(ctx); err != nil {
			return err
		}
	}
	r.parts = h.parts(from, to)
	return nil
}

// parts returns where the messages at positions from+1 to to are.
func (h *history) parts(from, to int) (parts []part) {
	i, found := slices.BinarySearchFunc(h.index, from, func(e entry, pos int) int { return e.pos - pos })
	if !found {
		i--
	}
	for ; i >= 0 && i < len(h.index) && h.index[i].pos < to; i++ {
		e := h.index[i]
		p := part{pos: e.pos, end: min(to, h.head.Count), at: e.at, to: h.size}
		if i+1 < len(h.index) {
			p.end, p.to = min(to, h.index[i+1].pos), h.index[i+1].at
		}
		if e.end > 0 {
			p.to = e.end
		}
		if e.bad {
			continue
		}
		if n := len(parts); n > 0 && !e.jump && p.to-parts[n-1].at <= partBytes {
			parts[n-1].end, parts[n-1].to = p.end, p.to
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

// reindex reads the whole history for the places of its messages.
func (l *log) reindex(ctx context.Context) error {
	var whole history
	f := fold{history: &whole, report: func(Damage) {}}
	if err := f.scan(ctx, l.file, l.history.size); err != nil {
		return err
	}
	h := &l.history
	h.index, h.indexed, h.broken, h.damaged = whole.index, 0, true, whole.damaged
	for _, d := range h.damaged {
		l.report(d)
	}
	return nil
}

// read returns the messages; one that is missing or damaged is nil.
func (r *reader) read(ctx context.Context) ([][]byte, error) {
	if r.lines != nil {
		return r.lines, nil
	}
	lines := make([][]byte, r.to-r.from)
	for _, p := range r.parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := make([]byte, p.to-p.at)
		n, err := r.file.ReadAt(b, p.at)
		if err != nil && err != io.EOF {
			return nil, err
		}
		r.take(lines, p, b[:n])
	}
	return lines, nil
}

// take finds the messages of a part in its bytes.
func (r *reader) take(lines [][]byte, p part, b []byte) {
	for pos := p.pos; pos < p.end && len(b) > 0; {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		message, counts := messageIn(line)
		if !counts {
			continue
		}
		if pos >= r.from {
			lines[pos-r.from] = message
		}
		pos++
	}
}

// messageIn returns the message of a line. counts says that the line takes a
// position in the history: if message is nil it is damaged.
func messageIn(b []byte) (message []byte, counts bool) {
	if message, ok := skim(b); ok {
		return message, true
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, false
	}
	l, ok := parseLine(b)
	if !ok {
		return nil, true
	}
	return l.message, l.kind.hasMessage()
}

// skim returns the message of a line that this package wrote.
func skim(b []byte) (message []byte, ok bool) {
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return nil, false
	}
	isMessage, ours := false, false
	for at := 1; ; at++ {
		name, next, ok := quoted(b, at)
		if !ok || next >= len(b) || b[next] != ':' {
			return nil, false
		}
		at = next + 1
		if string(name) == "message" {
			message = b[at : len(b)-1 : len(b)-1]
			return message, isMessage && ours && len(message) > 1 && message[0] == '{' && message[len(message)-1] == '}'
		}
		ours = ours || string(name) == "commit" || string(name) == "more"
		value, next, ok := quoted(b, at)
		if !ok {
			if _, next, ok = integer(b, at); !ok {
				return nil, false
			}
		} else if string(name) == "kind" {
			isMessage = kindOf(value).hasMessage()
		}
		if at = next; b[at] != ',' {
			return nil, false
		}
	}
}

// backMessages is how far from the end messages are read backwards.
const backMessages = 10_000

// readBack reads messages backwards from the end, without an index. It returns
// nil where that is not plain to do.
func (l *log) readBack(ctx context.Context, from, to int) ([][]byte, error) {
	h := &l.history
	if h.open && !h.torn {
		return nil, nil
	}
	lines := make([][]byte, to-from)
	pos, skip, plain := h.head.Count, 0, true
	after := line{more: 0} // the line behind
	err := scanBack(ctx, l.file, h.size, func(b []byte, _ int64) bool {
		next, ok := parseLine(b)
		inBatch := next.more > 0
		if !ok || inBatch && (next.more != after.more+1 || !after.changes() || after.more == 0 && after.commit == "") {
			plain = false
			return false
		}
		after = next
		switch {
		case next.kind == KindRollback:
			skip += next.dropped
		case !next.kind.hasMessage():
		case skip > 0:
			skip--
		default:
			if pos--; pos < to {
				lines[pos-from] = next.message
			}
		}
		return pos > from
	})
	if err != nil || !plain || pos > from {
		return nil, err
	}
	return lines, nil
}
