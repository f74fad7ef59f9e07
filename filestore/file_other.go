//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package filestore

import "os"

// status is what an open history looks like.
type status struct {
	size int64
	gone bool // it may not be what its path names
}

// stat looks at an open history. Whether its path names it has to be looked at
// each time.
func stat(f *os.File) (status, error) {
	info, err := f.Stat()
	if err != nil {
		return status{}, err
	}
	if !info.Mode().IsRegular() {
		return status{}, errNotRegular
	}
	return status{info.Size(), true}, nil
}

func seal(*os.File) error   { return nil }
func unseal(*os.File) error { return nil }

// openFilesLimit is how many files the process may have open, 0 if unknown.
func openFilesLimit() int { return 0 }

func tryLock(f *os.File, exclusive bool) error { return lockFile(f, exclusive, false) }
func unlock(f *os.File) error                  { return unlockFile(f) }
