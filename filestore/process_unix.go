//go:build unix

package filestore

import (
	"errors"
	"os"
	"syscall"
)

// processExists reports whether a process has a number, zombies included.
func processExists(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, os.ErrPermission)
}
