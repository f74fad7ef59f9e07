package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// appendRest appends the part of a head that the commit script does not write
// by itself.
func appendRest(b []byte, h *session.Head, listed int64) []byte {
	b = append(b, escapeLine.Replace(h.Base)...)
	expires := int64(0)
	if !h.Expires.IsZero() {
		expires = h.Expires.UnixNano()
	}
	for _, n := range []int64{h.Updated.UnixNano(), expires, listed} {
		b = strconv.AppendInt(append(b, '\n'), n, 10)
	}
	return append(append(b, '\n'), h.Record...)
}

// errNewer and errNoHead are what is the matter with a head.
var (
	errNewer  = errors.New("a newer version's")
	errNoHead = errors.New("no head")
)

// headLines is how many lines there are in a head, the record being the last.
const headLines = 9

// decodeHead reads a head, but for its ID and Meta, and when it was last
// listed. An empty text is the zero Head.
func decodeHead(text string) (h session.Head, listed int64, err error) {
	if text == "" {
		return session.Head{}, 0, nil
	}
	lines := strings.SplitN(text, "\n", headLines)
	if version, err := strconv.Atoi(lines[0]); err != nil || version < 1 {
		return session.Head{}, 0, errNoHead
	} else if version > formatVersion {
		return session.Head{}, 0, errNewer
	}
	if len(lines) < headLines || len(lines[3]) != 2 {
		return session.Head{}, 0, errNoHead
	}
	var numbers [4]int64
	for i, line := range []string{lines[2], lines[5], lines[6], lines[7]} {
		if numbers[i], err = strconv.ParseInt(line, 10, 64); err != nil {
			return session.Head{}, 0, errNoHead
		}
	}
	h = session.Head{
		Rev: unescapeLine.Replace(lines[1]), Base: unescapeLine.Replace(lines[4]), Count: int(numbers[0]),
		Updated: time.Unix(0, numbers[1]).UTC(), Record: []byte(lines[8]),
	}
	if numbers[2] != 0 {
		h.Expires = time.Unix(0, numbers[2]).UTC()
	}
	if lines[3][0] == '1' {
		h.Meta = []byte{} // to be filled in
	}
	return h, numbers[3], nil
}

// headOf returns the head that the values of a session's head and Meta keys
// hold, and when it was last listed.
func (d *driver) headOf(id, text, meta string, hasMeta bool) (session.Head, int64, error) {
	h, listed, err := decodeHead(text)
	switch {
	case err != nil:
		return session.Head{}, 0, d.badHead(id, err)
	case h.Meta != nil != hasMeta:
		return session.Head{}, 0, d.partMissing(id)
	case h.Rev == "":
		return session.Head{}, 0, nil
	}
	h.ID = id
	if hasMeta {
		h.Meta = []byte(meta)
	}
	return h, listed, nil
}

func (d *driver) badHead(id string, err error) error {
	if errors.Is(err, errNewer) {
		return newerFormat(d.headKey(id))
	}
	return d.otherType(id)
}

// partMissing tells of keys that do not fit together.
func (d *driver) partMissing(id string) error {
	return fmt.Errorf("%w: some of the keys %q, %q and %q were evicted, removed or changed",
		session.ErrCorrupt, d.headKey(id), d.messagesKey(id), d.metaKey(id))
}
