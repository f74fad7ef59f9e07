//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package filestore

import (
	"errors"
	"os"
)

// Without locks there is no telling whose turn it is to write.
func lockFile(*os.File, bool, bool) error { return errors.ErrUnsupported }
func unlockFile(*os.File) error           { return errors.ErrUnsupported }
