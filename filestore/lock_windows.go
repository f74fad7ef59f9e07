package filestore

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockedByte is the byte that is locked, behind any content.
const lockedByte = 1 << 62

// lockFile locks a file. If another has a lock that does not go with it, it
// waits or, without wait, returns errWouldBlock. The handle must not have a
// lock already.
func lockFile(f *os.File, exclusive, wait bool) error {
	var how uint32
	if exclusive {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	err := onHandle(f, "LockFileEx", func(h windows.Handle, at *windows.Overlapped) error {
		return windows.LockFileEx(h, how, 0, 1, 0, at)
	})
	if !wait && (errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING)) {
		return errWouldBlock
	}
	return err
}

// unlockFile releases the lock that the handle has.
func unlockFile(f *os.File) error {
	return onHandle(f, "UnlockFileEx", func(h windows.Handle, at *windows.Overlapped) error {
		return windows.UnlockFileEx(h, 0, 1, 0, at)
	})
}

func onHandle(f *os.File, op string, do func(windows.Handle, *windows.Overlapped) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = do(windows.Handle(fd), &windows.Overlapped{Offset: lockedByte & 0xffffffff, OffsetHigh: lockedByte >> 32})
	})
	if err != nil {
		failed = os.ErrClosed // there is no other reason
	}
	if failed != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: failed}
	}
	return nil
}
