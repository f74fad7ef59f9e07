package filestore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// stat looks at an open history. A file that was removed or replaced by rename
// has no name any more, which costs no look at its path.
//
// It does not ask for times. Linux from 6.13 on writes the inode anew at the
// first write after someone has seen its times, which would double the cost of
// an append.
func stat(f *os.File) (status, error) {
	const mask = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_NLINK | unix.STATX_SIZE
	var st unix.Statx_t
	for {
		err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_SYNC_AS_STAT, mask, &st)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return status{}, &os.PathError{Op: "stat", Path: f.Name(), Err: err}
		}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return status{}, errNotRegular
	}
	return status{int64(st.Size), st.Nlink == 0 || st.Mode&sealedBit != 0}, nil
}
