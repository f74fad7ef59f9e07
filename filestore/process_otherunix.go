//go:build unix && !linux && !darwin

package filestore

func processBirth(pid int) (string, bool) { return "", pid > 0 && processExists(pid) }
