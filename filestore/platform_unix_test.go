//go:build unix

package filestore

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func mkfifo(name string) error { return syscall.Mkfifo(name, 0o600) }

// withoutPrivileges takes root's privileges away until the test ends, and gives
// the files below a directory to who the process then is. No other test may run
// meanwhile.
func withoutPrivileges(t *testing.T, dir string) {
	t.Helper()
	const nobody = 65534
	if os.Geteuid() != 0 {
		return
	}
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, nobody, -1)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Seteuid(nobody); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Seteuid(0); err != nil {
			panic(err) // no other test could run
		}
	})
}

// TestAcquireLockWhileAProcessStarts releases a lock while there is a copy of
// its handle, as a process has that is being started.
func TestAcquireLockWhileAProcessStarts(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	release, err := s.AcquireLock()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(s.Dir(), lockName))
	if err != nil {
		t.Fatal(err)
	}
	copied := false
	for fd := range 1024 {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) != nil || st.Ino != info.Sys().(*syscall.Stat_t).Ino || st.Dev != info.Sys().(*syscall.Stat_t).Dev {
			continue
		}
		dup, err := syscall.Dup(fd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(dup) })
		copied = true
		break
	}
	if !copied {
		t.Fatal("there is no handle of the lock")
	}
	release()
	if again, err := s.AcquireLock(); err != nil {
		t.Errorf("AcquireLock after release = %v", err)
	} else {
		again()
	}
}
