package session

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// The checks in this file are for stores that implement Backend directly.
// NewBackend makes them for drivers.

// CheckID returns ErrInvalidID if id can't be a session ID.
func CheckID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%w: empty", ErrInvalidID)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrInvalidID, len(id), MaxIDBytes)
	case strings.IndexByte(id, 0) >= 0:
		return fmt.Errorf("%w: it contains NUL", ErrInvalidID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%w: not valid UTF-8", ErrInvalidID)
	}
	return nil
}

// Check returns ErrInvalidOption if the options contradict themselves.
func (o ReadOptions) Check() error {
	if o.After < 0 || o.Limit < 0 || o.Last < 0 {
		return fmt.Errorf("%w: negative After, Limit or Last", ErrInvalidOption)
	}
	if o.Limit > 0 && o.Last > 0 {
		return fmt.Errorf("%w: both Limit and Last", ErrInvalidOption)
	}
	return nil
}

// Span returns which messages of a history of total messages the options
// choose: those at positions from+1 to to.
func (o ReadOptions) Span(total int) (from, to int) {
	from, to = min(o.After, total), total
	if o.Limit > 0 && o.Limit < to-from {
		to = from + o.Limit
	}
	if o.Last > 0 && o.Last < to-from {
		from = to - o.Last
	}
	return from, to
}

// Check returns ErrInvalidOption if the key is too long.
func (o WriteOptions) Check() error {
	if len(o.Key) > MaxKeyBytes {
		return fmt.Errorf("%w: Key of %d bytes, at most %d", ErrInvalidOption, len(o.Key), MaxKeyBytes)
	}
	return nil
}

// Check returns ErrInvalidOption for a negative Limit and for a Prefix that no
// session ID can have.
func (o ListOptions) Check() error {
	if o.Limit < 0 {
		return fmt.Errorf("%w: negative Limit", ErrInvalidOption)
	}
	if o.Prefix != "" && CheckID(o.Prefix) != nil {
		return fmt.Errorf("%w: no session ID has that Prefix", ErrInvalidOption)
	}
	return nil
}

// minLockTerm keeps a term longer than it takes to renew a lease.
const minLockTerm = 50 * time.Millisecond

// Check returns ErrInvalidOption for a Term that is out of range.
func (o LockOptions) Check() error {
	if o.Term != 0 && o.Term < minLockTerm {
		return fmt.Errorf("%w: Term %v, at least %v", ErrInvalidOption, o.Term, minLockTerm)
	}
	return nil
}

// EncodeMeta returns the JSON form of m: ErrTooLarge over MaxMetaBytes,
// ErrInvalidOption for what JSON can't hold unchanged.
func EncodeMeta(m Meta) ([]byte, error) {
	ok := !math.IsNaN(m.Cost) && !math.IsInf(m.Cost, 0)
	for _, s := range []string{m.Title, m.FirstPrompt, m.Model, m.Workspace, m.Parent, m.SucceededBy, m.Summary, m.SummaryHash} {
		ok = ok && utf8.ValidString(s)
	}
	for k, v := range m.Labels {
		ok = ok && utf8.ValidString(k) && utf8.ValidString(v)
	}
	if !ok {
		return nil, fmt.Errorf("%w: Meta with invalid UTF-8 or a Cost that is no finite number", ErrInvalidOption)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%w: Meta: %w", ErrInvalidOption, err)
	}
	if len(b) > MaxMetaBytes {
		return nil, fmt.Errorf("%w: Meta of %d bytes, at most %d", ErrTooLarge, len(b), MaxMetaBytes)
	}
	return b, nil
}
