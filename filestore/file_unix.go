//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filestore

import (
	"os"
	"syscall"
)

// status is what an open history looks like.
type status struct {
	size int64
	gone bool // it may not be what its path names: see seal
}

// sealedMode is the mode of a history that is about to be taken away. That others
// may execute it means nothing.
const sealedMode = fileMode | sealedBit

const sealedBit = 0o001

// seal marks a history, under its lock, so that whoever has it open looks at
// its path before they write to it: before its directory is renamed, which
// the file itself would not show.
func seal(f *os.File) error   { return f.Chmod(sealedMode) }
func unseal(f *os.File) error { return f.Chmod(fileMode) }

// openFilesLimit is how many files the process may have open, 0 if unknown.
func openFilesLimit() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(uint64(l.Cur), 1<<20))
}

// tryLock is lockFile without waiting, for a file that nobody else closes
// meanwhile: it is a part of each append.
func tryLock(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH | syscall.LOCK_NB
	if exclusive {
		how = syscall.LOCK_EX | syscall.LOCK_NB
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how); err {
		case nil:
			return nil
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return errWouldBlock
		default:
			return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

func unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
