package session

import (
	"context"
	"iter"
	"time"
)

// Driver is the little that [NewBackend] needs to make a [Backend]. A driver
// knows nothing of messages, versions, keys, expiry or leases. It keeps, for
// each session ID, a [Head] and a sequence of byte strings, the encoded
// messages, and changes both in one compare-and-set.
//
// IDs. Any string of 1 to 520 bytes of valid UTF-8, compared byte by byte. An
// ID that begins with NUL is a hidden one, of the contract's own (a lease):
// Heads never yields it; in all else it is an ID like any other.
//
// Atomicity. Commit is all or nothing, also when the process is killed in the
// middle, and two Commits never both succeed on one revision. When it has
// returned nil, what it wrote survives as the driver's documentation promises,
// and any Head, Range or Heads that starts afterwards sees it, in any process.
//
// Errors. Commit returns an error that wraps ErrConflict if the revision is
// another, and ErrTooLarge for what the driver can't hold; both before
// anything is written. After any other error the write may or may not have
// been made, or may yet be: the caller finds out by reading the head. A driver
// that retries by itself must not take its own write for another's: a conflict
// that a later try meets is reported as the error of the earlier one. Range returns an error
// that wraps ErrConflict if the history that the head describes is no longer
// there. No other method returns ErrConflict, and none returns ErrNotFound:
// what does not exist is the zero Head. Damage is ErrCorrupt, data of a newer
// format ErrNewerFormat. When the context is done the error wraps the
// context's. Error texts hold no message content.
//
// Ownership. The driver keeps and changes no slice that it is given and returns
// none that it keeps.
//
// Times are kept to the nanosecond, from 1678 to 2262.
//
// Concurrency. All methods may be called from any goroutine. Close is called
// once, when no other call is running, and none comes after it; a Heads that is
// left in the middle may be ended after it.
type Driver interface {
	// Head returns the head of a session, the zero Head if there is none. It
	// never returns an older head than a Commit that had already returned.
	Head(ctx context.Context, id string) (Head, error)

	// Range returns the messages at positions from+1 to to (0 <= from < to <=
	// h.Count) of the history that h describes. Heads with equal Base
	// describe one history that only grows, so Range must succeed while the
	// current head has h's Base, whatever was appended since. In place of a
	// message that is missing or damaged it returns nil and goes on; an error
	// means that nothing could be read.
	Range(ctx context.Context, id string, h Head, from, to int) ([][]byte, error)

	// Commit changes a session if its head's revision is c.IfRev.
	Commit(ctx context.Context, id string, c Commit) error

	// Heads yields the heads that q asks for, newest update first, ties by ID
	// in byte order. A head that is changed meanwhile may be missed or
	// repeated. The driver holds no lock or connection while it yields. After
	// an error it stops.
	Heads(ctx context.Context, q HeadQuery) iter.Seq2[Head, error]

	// Close releases what the driver holds.
	Close() error
}

// Head is a session's record. The driver reads the open fields and keeps
// Record and Meta as they are.
type Head struct {
	ID      string
	Rev     string    // another in every Commit but for other tries of the same; empty in the zero Head
	Base    string    // changes with every Commit that drops messages, and with the first
	Count   int       // how many messages the history has
	Updated time.Time // UTC
	Expires time.Time // UTC; zero: never. Later than this the driver may remove the session
	Record  []byte    // the contract's own; under 1 KiB
	Meta    []byte    // JSON, possibly large; nil: none

	// Appends are the commits that followed the one that Record is of, oldest
	// first; in a Commit there are none. A driver that keeps no Record with a
	// commit that only appended (Keep was the count, without SetMeta) returns
	// the last Record that it kept, and these. Most drivers keep each Record.
	Appends []Appended
}

// Appended is a commit that only appended, as a driver without its Record
// tells of it.
type Appended struct {
	Rev string   // Head.Rev of the commit; or any that is new, of what others wrote into the driver's data
	Add [][]byte // what it added
}

// Commit is one change of a session.
type Commit struct {
	// IfRev is the revision that the head must have; empty: there must be no
	// such session.
	IfRev string
	// Keep is how many messages stay, at most the count of the head that
	// IfRev names. The others are dropped.
	Keep int
	// Add follows the messages that stay. Each is one line of JSON.
	Add [][]byte
	// Head becomes the head; its Count is Keep + len(Add). nil removes the
	// session with all it has; Keep is then 0 and Add empty.
	Head *Head
	// SetMeta says that Head.Meta is to be stored. Otherwise Head.Meta is
	// ignored and the stored one stays. It is set when the session is new,
	// and when an expired one is begun anew.
	SetMeta bool
}

// HeadQuery asks for heads.
type HeadQuery struct {
	// Prefix is what the IDs begin with, compared byte by byte.
	Prefix string
	// Since leaves out heads that were updated before it. Zero: none.
	Since time.Time
	// AfterUpdated and AfterID are a position: only heads behind it are
	// wanted, that is, updated earlier, or at the same time with a greater
	// ID. A zero AfterUpdated: from the beginning.
	AfterUpdated time.Time
	AfterID      string
	// Limit is a hint: more than that many will probably not be taken. 0:
	// unknown. The driver need not stop by itself.
	Limit int
}
