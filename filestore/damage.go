package filestore

import (
	"fmt"

	"github.com/holdfast-go/session"
)

// Damage is a place in a session's files that can't be read. It is an error
// that wraps what is wrong, which in turn wraps session.ErrCorrupt.
type Damage struct {
	File   string // below the base directory, with slashes
	Line   int    // from 1; 0 if it is no place in a history
	Offset int64  // in bytes, where it begins
	Length int64  // in bytes
	Err    error
}

// Error returns file, line, offset and what is wrong. It quotes no content.
func (d *Damage) Error() string {
	if d.Line == 0 {
		return fmt.Sprintf("%s: %v", d.File, d.Err)
	}
	return fmt.Sprintf("%s line %d, offset %d, %d bytes: %v", d.File, d.Line, d.Offset, d.Length, d.Err)
}

// Unwrap returns Err.
func (d *Damage) Unwrap() error { return d.Err }

var (
	errNotLine    = fmt.Errorf("%w: not a line of a history", session.ErrCorrupt)
	errNotMessage = fmt.Errorf("%w: not a message", session.ErrCorrupt)
	errUnfinished = fmt.Errorf("%w: a batch without its end, which was never acknowledged", session.ErrCorrupt)
)
