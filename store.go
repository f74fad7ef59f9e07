package session

import (
	"context"
	"io"
	"iter"
	"time"
)

// Store is what a custom store must offer at least, and all that the plugins
// ask for. The rules of [Backend] hold for it as far as they concern these two
// methods.
type Store interface {
	// Load returns the whole history of a session, oldest message first. For
	// a session that does not exist it returns an empty slice, not nil, and
	// no error; a history that can't be read is an error, never an empty one.
	Load(ctx context.Context, sessionID string) ([]Message, error)

	// Save makes messages the whole history of a session, which it creates
	// if need be. It is Replace without options.
	Save(ctx context.Context, sessionID string, messages []Message) error
}

// Log is a Store whose histories grow: it has versions, appends and partial
// reads.
type Log interface {
	Store

	// Read returns a part of a history, with the position of that part and
	// the version it was read at. Of a session that does not exist it returns
	// no messages and the version Absent. nil options: the whole history.
	Read(ctx context.Context, sessionID string, opts *ReadOptions) (Snapshot, error)

	// Append adds messages to the end of a history, as one batch, and returns
	// the new version. A non-empty batch creates the session if need be; an
	// empty one changes nothing and returns the current version.
	Append(ctx context.Context, sessionID string, messages []Message, opts *WriteOptions) (Version, error)

	// Replace makes messages the whole history, which may be empty, and
	// returns the new version. It creates the session if need be.
	Replace(ctx context.Context, sessionID string, messages []Message, opts *WriteOptions) (Version, error)

	// Truncate removes all messages after the first keep and returns the new
	// version. If there are not more than keep, or no such session, it
	// changes nothing and returns the current version.
	Truncate(ctx context.Context, sessionID string, keep int, opts *WriteOptions) (Version, error)
}

// Catalog is sessions as things to list, name and delete.
type Catalog interface {
	// Info describes one session, or returns ErrNotFound.
	Info(ctx context.Context, sessionID string) (Info, error)

	// List yields sessions, newest update first. After an error it stops. If
	// the error is one session's, the Info beside it has the ID and Updated by
	// which another List continues behind it. nil options: all sessions.
	List(ctx context.Context, opts *ListOptions) iter.Seq2[Info, error]

	// Update changes a session's Meta through change, and returns what it has
	// become. The history and its version stay as they are. An error of
	// change is returned, wrapped, and nothing is written. Of a session that
	// does not exist: ErrNotFound.
	Update(ctx context.Context, sessionID string, change func(*Meta) error) (Info, error)

	// Delete removes a session and everything it had. Of one that does not
	// exist it does nothing. opts.Key must be empty: nothing would be left
	// to remember it by.
	Delete(ctx context.Context, sessionID string, opts *WriteOptions) error
}

// Locker gives out leases: one turn of a session at a time, across processes.
type Locker interface {
	// Lock takes the lease of a session, which need not exist. It waits while
	// another holds it, until the context is done (the error is then
	// ErrLocked and the context's) or, with NoWait, not at all (ErrLocked).
	Lock(ctx context.Context, sessionID string, opts *LockOptions) (Lease, error)
}

// Backend is a whole store. The rules below hold for every Backend, whatever
// it stores in; package storetest checks them one by one.
//
// Concurrency. Any method may be called from any goroutine, and any number of
// processes may use one shared backend.
//
// Ownership. Nothing that is passed in is kept, and everything that is
// returned is the caller's: messages are copied deeply, both ways.
//
// Atomicity. Each write is all or nothing, also when the process is killed or
// the connection drops in the middle. A reader sees a history as it was at one
// version, never half of a write.
//
// Existence. Save and Replace, even of nothing, and a non-empty Append create
// a session. Of one that does not exist Info and Update return ErrNotFound,
// Load and Read return no messages and Absent, Delete and Truncate do nothing.
//
// Append. Concurrent appends neither lose nor interleave anything: each batch
// is contiguous, and every reader sees the same order from then on. Order is
// the store's own sequence, never a timestamp.
//
// Cost. Append costs the new messages, not the history. When the history given
// to Save or Replace extends the stored one, only the new messages are
// written; it is recognised by count and a 128-bit hash, without reading the
// history back. After a Truncate one full rewrite is allowed.
//
// Versions. Every write of messages gives the session a version that it never
// had before, also across Delete and re-creation; Update and Lock leave it. A
// write whose IfVersion is not the current version, or no version at all,
// fails with ErrConflict and writes nothing. Absent asks that there be no
// such session.
//
// Exactly once. A store's own retry never stores a batch twice, never reports
// a conflict with itself, and never repeats a Delete onto a session that was
// re-created since. A caller's retry with the same Key writes nothing and
// returns the first call's version, at least while fewer than 32 other keyed
// writes to the session came between. (A write that changed nothing is not
// remembered.)
//
// Reads. Who has written sees what was written. Only what a read asks for is
// transferred. Snapshots with equal Base are of one history that only grew. A
// steady writer can't starve a reader.
//
// Failure is not emptiness. A read that failed or met damage is an error,
// never a shorter or an empty history.
//
// Context. If the context is done before the call, the call returns its error
// and touches nothing. If that happens during a write, the write is applied
// fully or not at all. Such errors satisfy errors.Is with the context's error.
//
// IDs. A session ID is any valid UTF-8 string of 1 to 512 bytes without NUL,
// else ErrInvalidID. IDs that differ in any byte are different sessions. A
// slash makes folders; see [JoinID].
//
// Limits. What a backend can't hold is ErrTooLarge before anything is written.
// Every backend holds a message of 16 MiB and 100,000 messages in a session;
// Meta is at most [MaxMetaBytes].
//
// Expiry. With a TTL, every write (Update too) re-arms it. An expired session
// does not exist, for any method, whether or not it has been removed yet.
//
// List. Newest update first, ties by ID. It reads no messages. Updated never
// goes back. A session that is updated meanwhile may be missed or repeated.
// List alone may lag behind, by a bound that the backend documents.
//
// Update. A store may call change more than once, and never under a lock. It
// never fills Meta by itself.
//
// Delete. Everything that the session had is removed.
//
// Locks. A lease lasts for a term, is renewed while it is held, is not
// reentrant and survives Delete. If it is lost, Done is closed. Writes ignore
// leases: after a loss the first to write wins, and the other learns of it by
// ErrConflict if it writes with IfVersion.
//
// Close. Close waits for running calls, ends all leases and may be repeated;
// later calls return ErrClosed. A client that the caller passed in stays the
// caller's to close.
type Backend interface {
	Log
	Catalog
	Locker
	io.Closer
}

// Version names one state of a session's messages. It is opaque: compare it,
// pass it back, keep it, but don't take it apart.
type Version string

const (
	// AnyVersion is the zero value: no check.
	AnyVersion Version = ""
	// Absent is the version of a session that does not exist.
	Absent Version = "absent"
)

const (
	// MaxIDBytes is how long a session ID may be.
	MaxIDBytes = 512
	// MaxKeyBytes is how long a WriteOptions.Key may be.
	MaxKeyBytes = 64
	// MaxMetaBytes is how large the JSON form of a Meta may be.
	MaxMetaBytes = 32 << 10
)

// ReadOptions choose a part of a history. All zero: the whole.
type ReadOptions struct {
	After int // skip that many messages from the start
	Limit int // of the rest the first n; 0: no limit
	Last  int // of the rest the last n; 0: no limit. Not together with Limit
}

// WriteOptions guard a write. nil or all zero: no check, no key.
type WriteOptions struct {
	// IfVersion is the version that the session must be at. AnyVersion: any.
	IfVersion Version
	// Key makes the caller's own retries safe: 1 to 64 bytes, the same for
	// all tries of one write and different for different writes of the
	// session. It is checked before IfVersion, and nothing else is compared.
	// A write that changes nothing is not remembered. Empty: no key.
	Key string
}

// Snapshot is a part of a history as it was at one version.
type Snapshot struct {
	Messages []Message // the caller's; not nil
	First    int       // position of the first of Messages, from 1; 0 if there are none
	Total    int       // how many messages the history has
	Version  Version   // Absent if there is no such session
	// Base is the version of the last change that was not an append. Pages
	// with equal Base are of one history; Absent if there is no such session.
	Base Version
}

// Info describes a session without its messages.
type Info struct {
	ID       string
	Version  Version
	Messages int       // how many
	Created  time.Time // by the store's clock, in UTC
	Updated  time.Time // the last write, Update included
	Expires  time.Time // zero: never
	Meta
}

// Meta is what an application notes about a session. A store keeps it and
// never fills it. Its JSON form is at most MaxMetaBytes; strings are valid
// UTF-8, and Cost is a finite number.
type Meta struct {
	Title          string            `json:"title,omitempty"`
	FirstPrompt    string            `json:"first_prompt,omitempty"`
	Model          string            `json:"model,omitempty"`
	Workspace      string            `json:"workspace,omitempty"`
	Parent         string            `json:"parent,omitempty"`       // the session this one was forked or compacted from
	SucceededBy    string            `json:"succeeded_by,omitempty"` // the session that continues this one
	Cost           float64           `json:"cost,omitempty"`
	Summary        string            `json:"summary,omitempty"`
	SummaryThrough int               `json:"summary_through,omitempty"` // how many messages Summary covers
	SummaryHash    string            `json:"summary_hash,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
}

// ListOptions choose sessions. nil or all zero: all.
type ListOptions struct {
	// Prefix is what the IDs begin with. One that ends in a slash is a
	// folder: listing it costs that folder and not the store.
	Prefix string
	// Limit is how many sessions at most. 0: no limit.
	Limit int
	// UpdatedSince leaves out sessions last updated before it.
	UpdatedSince time.Time
	// After continues behind this Info of an earlier list; only its ID and
	// Updated count.
	After *Info
}

// DefaultLockTerm is the term of a lease if LockOptions don't say another.
const DefaultLockTerm = 30 * time.Second

// LockOptions say how to take a lease. nil or all zero: wait, default term.
type LockOptions struct {
	// Term is how long after its holder's death a lease still keeps others
	// out, at least 50 ms. 0: DefaultLockTerm. Processes that share a backend
	// judge it by their own clocks, which should agree to well within a Term.
	Term time.Duration
	// NoWait returns ErrLocked at once if another has the lease.
	NoWait bool
}

// Lease is the right to a session's turn, until Release or until it is lost.
type Lease interface {
	// Done is closed when the lease has ended: by Release, by Close of the
	// store, or because it could not be renewed in time.
	Done() <-chan struct{}
	// Release gives the lease up, also if ctx is done, which only ends the
	// wait for it. Of a lease that has ended it does nothing.
	Release(ctx context.Context) error
}

// Damage is a place in a session's stored data that can't be read.
type Damage struct {
	Position int    // of the message in the history, from 1; 0 if it belongs to none
	Where    string // in the backend's terms: a row, a file and line, an item
	Err      error  // what is wrong; wraps ErrCorrupt
}

// Salvager is an optional interface of stores that can read past damage.
type Salvager interface {
	// Salvage returns all messages of a history that are whole, in order, and
	// what is damaged between them. Nothing is changed. Total of the Snapshot
	// counts the damaged messages too.
	Salvage(ctx context.Context, sessionID string) (Snapshot, []Damage, error)
}
