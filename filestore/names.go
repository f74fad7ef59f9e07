package filestore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/session"
)

// # Names on disk
//
// A session ID becomes a path below the base directory, with slashes. Each
// part of the ID but the last is a folder, whose name on disk ends in "+"; the
// last part is the session's own directory, whose name never does:
//
//	demo              demo
//	user-1/s1         user-1+/s1
//	Ada               %41da
//	../x              %2e%2e+/x
//	con               %63on
//	(100 x "é")       %%3f1c… (64 hexadecimal digits)
//
// In a name on disk the bytes a-z, 0-9, ".", "_" and "-" stand for themselves.
// Every other byte is "%" and two lower-case hexadecimal digits: capitals and
// bytes beyond ASCII, since file systems fold and normalise them, and whatever a
// file system or a shell takes for something else. So are a dot at the
// beginning (such names are the store's own) or at the end and the first letter
// of a name that Windows reserves, and the last letter of one that ends in
// ".jsonl", which beside the directories is a session from before there were
// any. An empty part is "%". A name of more than maxNameBytes is "%%" and the
// SHA-256 of the part; what the ID is then stands in the directory itself.
//
// No two IDs have the same path, on file systems that fold case either. A path
// that an ID does not have, such as one that was made by hand, is no session.

const (
	// maxNameBytes is less than the 255 bytes that file systems allow, and
	// leaves room for what the store adds to a name.
	maxNameBytes = 200

	folderMark = "+"
	emptyName  = "%"
	digestMark = "%%"
	flatExt    = ".jsonl"

	// maxDriverID is the longest ID that a driver is given.
	maxDriverID = 520
)

// dirOf returns the path of a session's directory below the base directory,
// with slashes. ErrInvalidID if id is empty, too long or not valid UTF-8.
func dirOf(id string) (string, error) {
	switch {
	case id == "":
		return "", fmt.Errorf("%w: empty", session.ErrInvalidID)
	case len(id) > maxDriverID:
		return "", fmt.Errorf("%w: %d bytes", session.ErrInvalidID, len(id))
	case !utf8.ValidString(id):
		return "", fmt.Errorf("%w: not valid UTF-8", session.ErrInvalidID)
	}
	folder, last := "", id
	if i := strings.LastIndexByte(id, '/'); i >= 0 {
		folder, last = folderOf(id[:i])+"/", id[i+1:]
	}
	return folder + nameOf(last), nil
}

// folderOf returns the path of the directory in which the sessions are whose
// IDs begin with folder and a slash.
func folderOf(folder string) string {
	parts := strings.Split(folder, "/")
	for i, p := range parts {
		parts[i] = nameOf(p) + folderMark
	}
	return strings.Join(parts, "/")
}

// idOf returns the ID of the session whose directory has the path dir below
// the base directory. It reports false if no ID has that path, or if a name in
// it is a digest; see hasDigest.
func idOf(dir string) (id string, ok bool) {
	names := strings.Split(dir, "/")
	parts := make([]string, len(names))
	for i, name := range names {
		if i < len(names)-1 {
			if name, ok = strings.CutSuffix(name, folderMark); !ok {
				return "", false
			}
		}
		if parts[i], ok = partOf(name); !ok {
			return "", false
		}
	}
	id = strings.Join(parts, "/")
	if again, err := dirOf(id); err != nil || again != dir {
		return "", false
	}
	return id, true
}

// hasDigest reports whether a path may be that of a session whose ID does not
// show in it.
func hasDigest(dir string) bool {
	return strings.HasPrefix(dir, digestMark) || strings.Contains(dir, "/"+digestMark)
}

// nameOf returns the name on disk of one part of an ID.
func nameOf(part string) string {
	if part == "" {
		return emptyName
	}
	// Whether that byte is escaped in any case.
	first := part[0] == '.' || reservedName(part)
	last := part[len(part)-1] == '.' || strings.HasSuffix(part, flatExt)
	b := make([]byte, 0, len(part)+8)
	for i := range len(part) {
		c := part[i]
		if plain(c) && !(i == 0 && first) && !(i == len(part)-1 && last) {
			b = append(b, c)
			continue
		}
		const digits = "0123456789abcdef"
		b = append(b, '%', digits[c>>4], digits[c&15])
	}
	if len(b) > maxNameBytes {
		sum := sha256.Sum256([]byte(part))
		return digestMark + hex.EncodeToString(sum[:])
	}
	return string(b)
}

// partOf undoes nameOf, but for digests. What it makes of a name that nameOf
// never gives is for the caller to find out.
func partOf(name string) (string, bool) {
	if name == emptyName {
		return "", true
	}
	var b []byte
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			b = append(b, name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		c, err := hex.DecodeString(name[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b = append(b, c[0])
		i += 2
	}
	return string(b), len(b) > 0
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// reservedName reports whether Windows takes a name for a device, as it does
// whatever stands behind the first dot. A name with capitals is not one on
// disk, where they are escaped.
func reservedName(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	port := strings.TrimPrefix(strings.TrimPrefix(stem, "com"), "lpt")
	return len(stem) == 4 && len(port) == 1 && '0' <= port[0] && port[0] <= '9'
}
