package filestore

import "errors"

// errWouldBlock is the error of lockFile when another holds the lock and the
// caller does not wait.
var errWouldBlock = errors.New("filestore: another holds the lock")

// lockFile and unlockFile are flock on Unix and LockFileEx on Windows. Both are
// the operating system's: a lock belongs to the open file, so that two handles
// in one process exclude each other too, and ends with it, so that none
// survives a crash. Closing a handle releases its lock, but not while a process
// that is being started has a copy of the handle: unlock first.
//
// A lock says nothing of the path: who has waited for one must look whether the
// path still names the same file (see sameFile), or two may hold a lock each,
// one on a file that has been removed. A file that is only ever locked is
// therefore best never removed.
//
// Windows locks keep others from reading what is locked. lockFile locks one
// byte far behind any content there, so that they are advisory like those of
// Unix. It needs a handle that can read or write, and one that can only append
// is neither: open for reading and writing.
