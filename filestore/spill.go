package filestore

import (
	"crypto/rand"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	// DefaultSpillLimit is how many bytes of a tool's output go into a message
	// if SpillOptions don't say another number.
	DefaultSpillLimit = 16 << 10
	// defaultSpillKeep is how much of the beginning and of the end, each, is
	// shown of an output that does not.
	defaultSpillKeep = 1 << 10
)

// SpillOptions are the options of Spill. nil or all zero: defaults.
type SpillOptions struct {
	// Limit is how many bytes of output go into a message as they are. 0:
	// DefaultSpillLimit.
	Limit int
	// Keep is how many bytes of the beginning and of the end, each, the note
	// shows. 0: 1 KiB, or less if Limit is small; below 0: none.
	Keep int
}

// TmpDir holds tool output too large for a message. It outlives the turn, since
// the model is told these paths and may read them in a later one.
func (s *Session) TmpDir() string { return filepath.Join(s.Dir(), TmpSubdir) }

// Spill makes a tool's output fit for a message. One that is small enough comes
// back as it is. A larger one is written to a file in TmpDir, with mode 0600, and
// what comes back is its beginning and end and a note with its size and the
// file's path; what isn't UTF-8 is U+FFFD there, but kept in the file. tool
// becomes part of the file's name. The file is removed with the session and not
// before.
func (s *Session) Spill(tool string, output []byte, opts *SpillOptions) (string, error) {
	var o SpillOptions
	if opts != nil {
		o = *opts
	}
	if o.Limit <= 0 {
		o.Limit = DefaultSpillLimit
	}
	if o.Keep == 0 {
		o.Keep = min(defaultSpillKeep, o.Limit/4)
	}
	o.Keep = max(0, min(o.Keep, len(output)/2))
	if len(output) <= o.Limit {
		return strings.ToValidUTF8(string(output), "\uFFFD"), nil
	}
	file, err := s.store.spill(s.dir, tool, output)
	if err != nil {
		return "", sessionError("spill", s.name, err)
	}
	head := strings.ToValidUTF8(string(wholeEnd(output[:o.Keep])), "\uFFFD")
	tail := strings.ToValidUTF8(string(wholeStart(output[len(output)-o.Keep:])), "\uFFFD")
	note := fmt.Sprintf("[%d bytes in all, too many for a message. The whole output is in %s]", len(output), filepath.Join(s.TmpDir(), file))
	switch {
	case head == "" && tail == "":
		return note, nil
	case tail == "":
		return head + "\n" + note, nil
	}
	return head + "\n" + note + "\n" + tail, nil
}

func (s *Store) spill(dir, tool string, output []byte) (string, error) {
	tmp := path.Join(dir, TmpSubdir)
	if err := s.root.MkdirAll(tmp, dirMode); err != nil {
		return "", err
	}
	file := spillName(tool) + "-" + strings.ToLower(rand.Text()[:12]) + ".txt"
	f, err := s.root.OpenFile(path.Join(tmp, file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(output)
	if err == nil && s.syncs() {
		if err = f.Sync(); err == nil {
			err = s.driver.syncDirs(tmp) // some may be new
		}
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		s.root.Remove(path.Join(tmp, file)) // what is left of it when the disk is full
		return "", err
	}
	return file, nil
}

// spillName makes a tool's name the beginning of a file's.
func spillName(tool string) string {
	const most = 40
	name := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && plain(byte(r)) && r != '.' {
			return r
		}
		return '-'
	}, strings.ToLower(tool))
	if name = strings.Trim(name[:min(len(name), most)], "-"); name == "" {
		return "output"
	}
	return name
}

// wholeEnd leaves out a character that b ends inside of.
func wholeEnd(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i > len(b)-1-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// wholeStart leaves out a character that b begins inside of.
func wholeStart(b []byte) []byte {
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
