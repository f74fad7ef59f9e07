//go:build !linux

package filestore

import "os"

// syncData makes the content of a file, and its length, survive power loss. On
// macOS that is F_FULLFSYNC.
func syncData(f *os.File) error { return f.Sync() }
