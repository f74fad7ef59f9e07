package session

import (
	"errors"
	"strconv"
)

// Sentinel errors. Operations return an [*Error] that wraps one of them, and
// beside it the error of the driver or of the context if there is one, so
// callers test with [errors.Is] and never by text.
var (
	// ErrNotFound: the session does not exist, or has expired.
	ErrNotFound = errors.New("session: not found")
	// ErrConflict: the session is not at the version that the caller
	// required. Nothing was written; [Error.Current] has the version it is at.
	ErrConflict = errors.New("session: version conflict")
	// ErrInvalidID: the session ID is not 1 to 512 bytes of valid UTF-8
	// without NUL.
	ErrInvalidID = errors.New("session: invalid session ID")
	// ErrInvalidMessage: a message can't be stored without losing something,
	// such as invalid UTF-8, tool input that isn't JSON, or a nil block.
	ErrInvalidMessage = errors.New("session: invalid message")
	// ErrInvalidHistory: messages that are in order one by one are not a
	// history that a provider accepts. It comes as a [*HistoryError].
	ErrInvalidHistory = errors.New("session: invalid history")
	// ErrInvalidOption: an option is out of its range or contradicts another.
	ErrInvalidOption = errors.New("session: invalid option")
	// ErrTooLarge: a message, a batch or a [Meta] is larger than the store
	// holds. Nothing was written.
	ErrTooLarge = errors.New("session: too large")
	// ErrCorrupt: stored data is damaged. The message says where.
	ErrCorrupt = errors.New("session: corrupt data")
	// ErrNewerFormat: stored data was written by a newer version of this
	// module, or by a newer schema of the backend. It is whole: upgrade.
	ErrNewerFormat = errors.New("session: written by a newer version")
	// ErrLocked: another holder has the session's lease.
	ErrLocked = errors.New("session: locked")
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("session: store is closed")
	// ErrContextOverflow: a model's context window is too small for what it
	// was sent. Providers' errors are wrapped in it.
	ErrContextOverflow = errors.New("session: context overflow")
	// ErrCannotShrink: a view that overflowed can't be made smaller.
	ErrCannotShrink = errors.New("session: cannot shrink the view")
	// ErrTurnLimit: a run needed more model calls than it may make.
	ErrTurnLimit = errors.New("session: too many model calls")
	// ErrAbort: a hook ended the stream on purpose.
	ErrAbort = errors.New("session: aborted")
)

// Error is the error of every operation on a store.
type Error struct {
	Op        string  // the method, in lower case: "append"
	SessionID string  // empty if the operation concerns no one session
	Err       error   // never nil; wraps a sentinel, a driver's error, or both
	Current   Version // with ErrConflict: the version that the session is at
}

// Error returns the operation, the session's ID (quoted) and the cause. It
// holds no message content.
func (e *Error) Error() string {
	s := e.Op
	if e.SessionID != "" {
		s += " " + strconv.Quote(e.SessionID)
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
