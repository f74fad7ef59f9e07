//go:build !unix && !windows

package filestore

func processBirth(int) (string, bool) { return "", false }
