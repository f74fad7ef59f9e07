//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package filestore

import (
	"errors"
	"os"
	"syscall"
)

// stat looks at an open history. A file that was removed or replaced by rename
// has no name any more, which costs no look at its path.
func stat(f *os.File) (status, error) {
	var st syscall.Stat_t
	for {
		err := syscall.Fstat(int(f.Fd()), &st)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EINTR) {
			return status{}, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
		}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return status{}, errNotRegular
	}
	return status{st.Size, st.Nlink == 0 || st.Mode&sealedBit != 0}, nil
}
