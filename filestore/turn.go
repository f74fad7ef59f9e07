package filestore

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-go/session"
)

// The file turn.pid says which process runs a session's turn. Its first line is
// the process ID, the second the process's birth (see process.go), the third a
// random word that no other turn has. Whoever writes or removes it holds the
// lock of .turn.lock meanwhile.
const (
	turnName     = "turn.pid"
	turnLockName = ".turn.lock"
	lockName     = ".lock"

	maxTurnFile = 4096
)

// TurnPIDPath is where the running turn records its process ID, which is the
// first line of that file.
func (s *Session) TurnPIDPath() string { return filepath.Join(s.Dir(), turnName) }

// TurnPID returns the ID of the process that runs the session's turn, and
// whether it still runs. A process that has died is not running, and neither is
// another one that got its number since. 0: no turn is recorded.
//
// Processes of other machines and containers are not to be seen from here, and
// count as dead.
func (s *Session) TurnPID() (int, bool) {
	pid, live, err := s.store.turnPID(s.dir)
	return pid, live && err == nil
}

func (s *Store) turnPID(dir string) (pid int, live bool, err error) {
	data, err := readRegular(s.root, path.Join(dir, turnName), maxTurnFile)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	first, rest, _ := strings.Cut(string(data), "\n")
	if pid, err = strconv.Atoi(strings.TrimSpace(first)); err != nil || pid <= 0 {
		return 0, false, nil // not ours; nobody runs a turn by it
	}
	birth, running := processBirth(pid)
	said, _, _ := strings.Cut(rest, "\n")
	return pid, running && birth == strings.TrimSpace(said), nil
}

// MarkTurnStart records this process as the one that runs the session's turn.
// The function that it returns takes the record back; it must be called when
// the turn ends, however it ends, and may be called again. ErrLocked if a turn is
// running, in this process or another. A record that a process has left which
// died is replaced.
func (s *Session) MarkTurnStart() (func(), error) {
	end, err := s.store.markTurn(s.dir)
	return end, sessionError("mark turn", s.name, err)
}

func (s *Store) markTurn(dir string) (func(), error) {
	lock, err := s.lockName(dir, turnLockName, true)
	if err != nil {
		return nil, err
	}
	defer releaseName(lock)
	pid, live, err := s.turnPID(dir)
	if err != nil {
		return nil, err
	}
	if live {
		return nil, fmt.Errorf("%w: process %d runs a turn", session.ErrLocked, pid)
	}
	birth, _ := processBirth(os.Getpid())
	mark := fmt.Sprintf("%d\n%s\n%s\n", os.Getpid(), birth, rand.Text())
	name := path.Join(dir, turnName)
	if err := writeFileAtomic(s.root, name, []byte(mark), false); err != nil {
		return nil, err
	}
	return func() {
		lock, err := s.lockName(dir, turnLockName, true)
		if err != nil {
			return // the session has been removed, and the record with it
		}
		defer releaseName(lock)
		if now, err := readRegular(s.root, name, maxTurnFile); err == nil && string(now) == mark {
			s.root.Remove(name)
		}
	}, nil
}

// AcquireLock takes the session's lock, so that two processes don't work on one
// session at once, and returns what releases it, which may be called again.
// ErrLocked at once if another has it, in this process or any other. It ends
// with the process that holds it, killed or not.
//
// The lock is advisory: writes don't need it and don't look at it, and neither
// do the leases of Store.Lock. After the session has been deleted, the lock that
// somebody still holds is of the deleted session, not of one that was begun
// under its name since.
func (s *Session) AcquireLock() (func(), error) {
	release, err := s.store.acquireLock(s.dir)
	return release, sessionError("lock", s.name, err)
}

func (s *Store) acquireLock(dir string) (func(), error) {
	f, err := s.lockName(dir, lockName, false)
	if err != nil {
		return nil, err
	}
	// For people: locks are judged by the system. What stays in the file when
	// the lock is released says nothing.
	if err := f.Truncate(0); err == nil {
		f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return func() { releaseName(f) }, nil
}

// lockName opens a file of a session's directory and locks it. The file is
// never removed while the directory is there, so that who has its lock has the
// only one. releaseName ends it. Without wait, a lock that another has is
// ErrLocked.
func (s *Store) lockName(dir, name string, wait bool) (*os.File, error) {
	name = path.Join(dir, name)
	for {
		f, err := s.root.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
		if err != nil {
			return nil, err
		}
		err = lockFile(f, true, wait)
		if errors.Is(err, errWouldBlock) {
			err = session.ErrLocked
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		// Deleting the session removes its files.
		opened, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		now, err := s.root.Stat(name)
		if err == nil && os.SameFile(opened, now) {
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// releaseName ends a lock of lockName. It may be called again.
func releaseName(f *os.File) {
	unlockFile(f) // if it can't be, closing ends it
	f.Close()
}
