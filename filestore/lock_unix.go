//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filestore

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks a file. If another has a lock that does not go with it, it
// waits or, without wait, returns errWouldBlock. A lock that the handle has is
// exchanged for the new one, not atomically.
func lockFile(f *os.File, exclusive, wait bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	if !wait {
		how |= syscall.LOCK_NB
	}
	err := flock(f, how)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errWouldBlock
	}
	return err
}

// unlockFile releases the lock that the handle has.
func unlockFile(f *os.File) error { return flock(f, syscall.LOCK_UN) }

func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) { // keeps the descriptor from being closed and used anew
		for {
			if failed = syscall.Flock(int(fd), how); failed != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		failed = os.ErrClosed // there is no other reason
	}
	if failed != nil {
		return &os.PathError{Op: "flock", Path: f.Name(), Err: failed}
	}
	return nil
}
