package filestore

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Files are replaced by what github.com/google/renameio does too: write another
// file, sync it, rename it, sync the directory. That package takes paths and not
// an os.Root, so a symlink could lead it out of the base directory, and it has
// no functions on Windows.

const (
	dirMode  = 0o700
	fileMode = 0o600

	// tempPrefix begins the names of files that are being written. No session
	// and none of its files is called so.
	tempPrefix = ".tmp-"
	// tempAge is how old such a file is when nobody can be writing it any more.
	tempAge = time.Hour
)

// writeFileAtomic makes data the content of a file: afterwards, and at any time
// before, the file is the old one or the new one, whole. name is a path with
// slashes below root. With sync it survives power loss when writeFileAtomic has
// returned.
func writeFileAtomic(root *os.Root, name string, data []byte, sync bool) error {
	temp, err := writeTemp(root, path.Dir(name), data, sync)
	if err != nil {
		return err
	}
	if err := root.Rename(temp, name); err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	if sync {
		return syncDir(root, path.Dir(name))
	}
	return nil
}

// writeTemp writes a new file in a directory, under a name of its own, and
// returns its path.
func writeTemp(root *os.Root, dir string, data []byte, sync bool) (string, error) {
	temp := path.Join(dir, tempPrefix+strings.ToLower(rand.Text()))
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil && sync {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", errors.Join(err, root.Remove(temp))
	}
	return temp, nil
}

// syncDir makes what was created, renamed and removed in a directory survive
// power loss. Windows needs and has nothing of the kind.
func syncDir(root *os.Root, dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err // some file systems can't sync a directory, and say so in one of these ways
	}
	return nil
}

// sweepTemp removes from a directory what writers that were killed have left.
func sweepTemp(root *os.Root, dir string, now time.Time) error {
	entries, err := readDir(root, dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		info, err := root.Lstat(path.Join(dir, e.Name()))
		if err != nil || now.Sub(info.ModTime()) < tempAge {
			continue
		}
		if err := root.Remove(path.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// readDir returns the entries of a directory, sorted by name.
func readDir(root *os.Root, dir string) ([]fs.DirEntry, error) {
	return fs.ReadDir(root.FS(), dir)
}
