package filestore

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// # The layout
//
//	BASE/demo/history.jsonl            what happened in session "demo", one JSON object a line; never rewritten but by Repair
//	BASE/demo/meta.json                for people, lists and a quick opening: Meta, and the head at some time; see checkpoint.go
//	BASE/demo/history.damaged-*.jsonl  lines that Repair has taken out, meta.damaged-*.json likewise
//	BASE/demo/{checkpoints,inbox,proc,tmp}  what else a coding agent keeps
//	BASE/user-1+/s1/                   session "user-1/s1"; for the names see names.go
//	BASE/.leases/                      leases; see hidden.go
//	BASE/.deleted-*/                   sessions that are being removed
//
// # Lines of history.jsonl
//
//	{"ts":"2026-12-01T03:26:34.5Z","kind":"message","commit":"57-0123456789abcdef","message":{"role":"user","content":[…]}}
//	{"ts":…,"kind":"tool_result","tool":"read","ms":12,"more":1,"message":{…}}
//	{"ts":…,"kind":"rollback","dropped":3,"keep":17,"commit":…,"record":"…"}
//	{"ts":…,"kind":"meta","commit":…,"record":…,"meta":{"title":…}}
//	{"ts":…,"kind":"notice","text":…}
//	{"ts":…,"kind":"settings","model":…,"merge_thinking":true,"tools":[…]}
//
// Members stand in the order ts, kind, tool, ms, dropped, keep, more or commit,
// base, updated, expires, record, and message or meta last, so that no JSON parser is
// needed to read what this package has written. A message is in the form that
// session.AppendMessage gives it.
//
// Batches. The lines of one commit are written by one write(2), under an
// exclusive lock of the file. The last of them has the commit's revision,
// commit; each before it has instead how many lines of the batch follow it,
// more. A batch that is not there to its last line was never acknowledged and
// does not count.
//
// Commits. rollback drops messages at the end of the history, of which keep
// then are left; messages follow behind them. updated, or ts if that is missing,
// is when the session was last updated, and expires when it expires, if it does. base is the Head's Base; it
// stands only where it is not the revision of the first commit or of the last
// one that dropped messages. record is the Head's Record in base64, and stands
// in commits that do more than append, and in others after recordCommits or
// recordBytes without one. meta is the Head's Meta from here on, null for none.
//
// Lines by others. A line without more and commit is a commit of its own, with
// a revision made of its offset and bytes; a line that is a message itself, in
// the manner of {"role":…,"content":…}, too. Their messages may be in the form of
// chat completion APIs, with a string as content and with tool_calls. notice and settings change neither
// history nor revision, and lines of kinds that are not known here count as such.
//
// Fresh lines. Who appends behind something that is not whole first ends its
// line, and then writes an empty one. So what is not whole directly before an
// empty line, or at the end, is the torn tail of a write that failed: it does not
// count. What is not whole elsewhere was damaged later: each such line is taken
// for one message, which can't be read, and the revision gets a mark; that of a
// commit directly behind, too, whose writer may not have counted them.
const historyName = "history.jsonl"

const (
	recordCommits = 256
	recordBytes   = 1 << 20
)

// line is a line of a history. Its byte slices are parts of what was parsed.
type line struct {
	ts      time.Time
	kind    Kind
	commit  string
	more    int
	base    string
	updated time.Time
	expires time.Time
	record  []byte // nil: none
	dropped int
	keep    int // -1: not said
	tool    string
	ms      int64
	message []byte // the encoded message; nil: none
	meta    []byte // encoded, "null" for none; nil: not set
}

// hasMessage reports whether a line of this kind is a message.
func (k Kind) hasMessage() bool { return k == KindMessage || k == KindToolResult }

// changes reports whether a line is part of the history rather than a note
// beside it.
func (l *line) changes() bool {
	return l.kind.hasMessage() || l.kind == KindRollback || l.kind == kindMeta
}

// append appends the line to dst, with the line feed.
func (l *line) append(dst []byte) []byte {
	dst = append(dst, `{"ts":"`...)
	dst = appendTime(dst, l.ts)
	dst = append(dst, `","kind":"`...)
	dst = append(dst, l.kind...)
	dst = append(dst, '"')
	if l.tool != "" {
		dst = appendString(append(dst, `,"tool":`...), l.tool)
	}
	if l.ms != 0 {
		dst = strconv.AppendInt(append(dst, `,"ms":`...), l.ms, 10)
	}
	if l.kind == KindRollback {
		dst = strconv.AppendInt(append(dst, `,"dropped":`...), int64(l.dropped), 10)
		if l.keep >= 0 {
			dst = strconv.AppendInt(append(dst, `,"keep":`...), int64(l.keep), 10)
		}
	}
	if l.more > 0 {
		dst = strconv.AppendInt(append(dst, `,"more":`...), int64(l.more), 10)
	}
	if l.commit != "" {
		dst = appendString(append(dst, `,"commit":`...), l.commit)
	}
	if l.base != "" {
		dst = appendString(append(dst, `,"base":`...), l.base)
	}
	if !l.updated.IsZero() {
		dst = append(appendTime(append(dst, `,"updated":"`...), l.updated), '"')
	}
	if !l.expires.IsZero() {
		dst = append(appendTime(append(dst, `,"expires":"`...), l.expires), '"')
	}
	if l.record != nil {
		dst = append(base64.StdEncoding.AppendEncode(append(dst, `,"record":"`...), l.record), '"')
	}
	if l.meta != nil {
		dst = append(append(dst, `,"meta":`...), l.meta...)
	}
	if l.message != nil {
		dst = append(append(dst, `,"message":`...), l.message...)
	}
	return append(dst, '}', '\n')
}

func appendTime(dst []byte, t time.Time) []byte { return t.UTC().AppendFormat(dst, time.RFC3339Nano) }

func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			b, _ := json.Marshal(s) // a string always can be
			return append(dst, b...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// parseLine takes a line apart. It reports false if that is none: not a JSON
// object, as far as it has looked, or one whose members are of other types. It
// does not look into a message that stands last.
func parseLine(b []byte) (l line, ok bool) {
	l.keep = -1
	if l.parseOwn(b) {
		ok = l.complete()
	} else {
		l, ok = parseForeign(b)
	}
	if ok && l.message != nil && l.more == 0 && l.commit == "" { // by others
		l.message = nativeMessage(l.message)
	}
	return l, ok
}

// complete reports whether a line has what its kind demands.
func (l *line) complete() bool {
	return l.more >= 0 && l.dropped >= 0 && (l.message != nil) == l.kind.hasMessage()
}

// parseOwn takes apart what append has written, and what is written like it.
func (l *line) parseOwn(b []byte) bool {
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return false
	}
	for at := 1; ; {
		name, next, ok := quoted(b, at)
		if !ok || next >= len(b) || b[next] != ':' {
			return false
		}
		at = next + 1
		switch string(name) {
		case "message", "meta":
			value := b[at : len(b)-1]
			if len(value) < 2 || value[0] != '{' && string(value) != "null" {
				return false
			}
			if string(name) == "meta" {
				l.meta = value
			} else {
				l.message = value
			}
			return true
		case "more", "dropped", "keep", "ms":
			n, next, ok := integer(b, at)
			if !ok {
				return false
			}
			switch name[0] {
			case 'k':
				l.keep = int(n)
			case 'd':
				l.dropped = int(n)
			default:
				if string(name) == "ms" {
					l.ms = n
				} else {
					l.more = int(n)
				}
			}
			at = next
		default:
			value, next, ok := quoted(b, at)
			if !ok || !l.setText(string(name), value) {
				return false
			}
			at = next
		}
		if at == len(b)-1 {
			return true
		}
		if b[at] != ',' {
			return false
		}
		at++
	}
}

// setText sets a member whose value is a string without escapes.
func (l *line) setText(name string, value []byte) bool {
	var err error
	switch name {
	case "ts":
		l.ts, err = parseTime(value)
	case "kind":
		l.kind = kindOf(value)
	case "tool":
		l.tool = string(value)
	case "commit":
		l.commit = string(value)
	case "base":
		l.base = string(value)
	case "updated":
		l.updated, err = parseTime(value)
	case "expires":
		l.expires, err = parseTime(value)
	case "record":
		l.record, err = base64.StdEncoding.AppendDecode([]byte{}, value)
	default:
		return false
	}
	return err == nil
}

// kindOf is a conversion that allocates nothing for the common kinds.
func kindOf(b []byte) Kind {
	switch string(b) {
	case string(KindMessage):
		return KindMessage
	case string(KindToolResult):
		return KindToolResult
	}
	return Kind(b)
}

func parseTime(b []byte) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, string(b))
	return t.UTC(), err
}

// quoted returns the string without escapes that begins with the quote at b[at],
// and the position behind it.
func quoted(b []byte, at int) (text []byte, next int, ok bool) {
	if at >= len(b) || b[at] != '"' {
		return nil, 0, false
	}
	for i := at + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[at+1 : i], i + 1, true
		case c == '\\' || c < ' ' || c >= utf8.RuneSelf:
			return nil, 0, false
		}
	}
	return nil, 0, false
}

// integer returns the integer at b[at] and the position behind it.
func integer(b []byte, at int) (n int64, next int, ok bool) {
	i := at
	for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '-') {
		i++
	}
	n, err := strconv.ParseInt(string(b[at:i]), 10, 32)
	return n, i, err == nil && (b[at] != '0' || i == at+1)
}

// foreignLine is a line in any form that encoding/json reads.
type foreignLine struct {
	TS      time.Time
	Kind    *Kind
	Commit  string
	More    int
	Base    string
	Updated time.Time
	Expires time.Time
	Record  []byte
	Dropped int
	Keep    *int
	Tool    string
	MS      int64
	Message json.RawMessage
	Meta    json.RawMessage

	Role *string // of a line that is a message itself
}

// parseForeign takes any other line apart.
func parseForeign(b []byte) (line, bool) {
	var f foreignLine
	if err := json.Unmarshal(b, &f); err != nil || !strings.HasPrefix(strings.TrimLeft(string(b[:min(len(b), 64)]), " \t\r"), "{") {
		return line{}, false
	}
	l := line{
		ts: f.TS.UTC(), commit: f.Commit, more: f.More, base: f.Base, updated: f.Updated.UTC(), expires: f.Expires.UTC(), record: f.Record,
		dropped: f.Dropped, keep: -1, tool: f.Tool, ms: f.MS, message: f.Message, meta: f.Meta,
	}
	if f.Keep != nil {
		l.keep = *f.Keep
	}
	switch {
	case f.Kind != nil:
		l.kind = *f.Kind
	case f.Role != nil && l.message == nil:
		l = line{kind: KindMessage, keep: -1, message: b}
	}
	if !l.kind.hasMessage() {
		l.message = nil // of a kind that is not known
	}
	return l, l.complete()
}

// madeRev is the revision of a line that says none.
func madeRev(b []byte, offset int64) string {
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("line-%d-%016x", offset, h.Sum64())
}
