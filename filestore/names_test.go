package filestore

import (
	"errors"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/session"
)

func TestDirOf(t *testing.T) {
	for id, want := range map[string]string{
		"demo":                   "demo",
		"2026-12-01-k3x9qz":      "2026-12-01-k3x9qz",
		"a.b_c":                  "a.b_c",
		"user-1/s1":              "user-1+/s1",
		"a/b/c":                  "a+/b+/c",
		"Ada":                    "%41da",
		"é":                      "%c3%a9",
		"a b":                    "a%20b",
		"a+":                     "a%2b",
		"%41da":                  "%2541da",
		"..":                     "%2e%2e",
		".":                      "%2e",
		"../x":                   "%2e%2e+/x",
		".leases":                "%2eleases",
		"a.":                     "a%2e",
		"/":                      "%+/%",
		"a/":                     "a+/%",
		"/srv":                   "%+/srv",
		`..\x`:                   "%2e.%5cx",
		"con":                    "%63on",
		"con.txt":                "%63on.txt",
		"con.jsonl":              "%63on.json%6c",
		"con/nul":                "%63on+/%6eul",
		"lpt9":                   "%6cpt9",
		"com":                    "com",
		"com10":                  "com10",
		"console":                "console",
		"CON":                    "%43%4f%4e",
		"demo.jsonl":             "demo.json%6c",
		"a:b":                    "a%3ab",
		"\x00lease":              "%00lease",
		strings.Repeat("x", 200): strings.Repeat("x", 200),
	} {
		got, err := dirOf(id)
		if err != nil || got != want {
			t.Errorf("dirOf(%q) = %q, %v, want %q", id, got, err, want)
		}
		if back, ok := idOf(want); !ok || back != id {
			t.Errorf("idOf(%q) = %q, %v, want %q", want, back, ok, id)
		}
	}
}

func TestDirOfLongNames(t *testing.T) {
	for _, id := range []string{strings.Repeat("x", 201), strings.Repeat("É", 40), strings.Repeat("x", 201) + "/a", "a/" + strings.Repeat("Ü", 250)} {
		dir, err := dirOf(id)
		if err != nil || !hasDigest(dir) {
			t.Errorf("dirOf(%d bytes) = %q, %v, want a digest", len(id), dir, err)
		}
		if back, ok := idOf(dir); ok {
			t.Errorf("idOf(%q) = %q, want none", dir, back)
		}
	}
	if hasDigest("a%+/b") {
		t.Error(`hasDigest("a%+/b") = true, want false`)
	}
}

func TestDirOfRefuses(t *testing.T) {
	for _, id := range []string{"", "a\xff", strings.Repeat("x", 521)} {
		if dir, err := dirOf(id); !errors.Is(err, session.ErrInvalidID) {
			t.Errorf("dirOf(%d bytes) = %q, %v, want ErrInvalidID", len(id), dir, err)
		}
	}
}

func TestIDOfOtherNames(t *testing.T) {
	for _, dir := range []string{
		"", ".", "..", "../x", "/", "a/b", "a+", "a+/", "Ada", "%61", "%", "%+", "%zz", "%4", "%4G", "%41DA", "a b",
		".tmp-x", ".leases", "con", "a.", "x.jsonl", "%%", strings.Repeat("x", 201), "a//b", "é",
	} {
		id, ok := idOf(dir)
		if wantOK := dir == "%"; ok && !wantOK {
			t.Errorf("idOf(%q) = %q, want none", dir, id)
		}
	}
}

// TestNamesProperties checks what the names promise for any two IDs.
func TestNamesProperties(t *testing.T) {
	part := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9._%+-]{0,12}`),
		rapid.SampledFrom([]string{"", ".", "..", "con", "CON", "con.x", "aux", "lpt1", "com0", "x.jsonl", "%", "%%", "é", "e\u0301", "ﬁ", "K", "\u212a"}),
		rapid.String(),
	)
	id := rapid.Map(rapid.SliceOfN(part, 1, 4), func(parts []string) string { return strings.Join(parts, "/") })
	rapid.Check(t, func(t *rapid.T) {
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		dirA, errA := dirOf(a)
		dirB, errB := dirOf(b)
		if errA != nil || errB != nil {
			if (errA != nil) != (a == "" || len(a) > maxDriverID) {
				t.Fatalf("dirOf(%q) = %v", a, errA)
			}
			return
		}
		checkDir(t, a, dirA)
		if a != b && strings.EqualFold(dirA, dirB) {
			t.Fatalf("dirOf(%q) = %q and dirOf(%q) = %q are one directory", a, dirA, b, dirB)
		}
	})
}

func FuzzNames(f *testing.F) {
	for _, id := range []string{"demo", "../x", "a//b", "CON", "%%", "x.jsonl", "é\x00", strings.Repeat("%", 300)} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if dir, err := dirOf(s); err == nil {
			checkDir(t, s, dir)
		}
		if id, ok := idOf(s); ok {
			if dir, err := dirOf(id); err != nil || dir != s {
				t.Errorf("dirOf(%q), the ID of %q, = %q, %v", id, s, dir, err)
			}
		}
	})
}

type failer interface{ Errorf(string, ...any) }

// checkDir checks that a session's directory is where it may be, on all
// systems, and tells the ID.
func checkDir(t failer, id, dir string) {
	if path.Clean(dir) != dir || path.IsAbs(dir) || strings.HasPrefix(dir, "..") {
		t.Errorf("dirOf(%q) = %q is no clean path", id, dir)
	}
	names := strings.Split(dir, "/")
	for i, name := range names {
		stem, _, _ := strings.Cut(name, ".")
		switch folder := strings.HasSuffix(name, folderMark); {
		case name == "" || len(name) > maxNameBytes+len(folderMark):
			t.Errorf("dirOf(%q) = %q: a name of %d bytes", id, dir, len(name))
		case folder != (i < len(names)-1):
			t.Errorf("dirOf(%q) = %q: name %d is and is not a folder's", id, dir, i)
		case strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789._-%+") != "":
			t.Errorf("dirOf(%q) = %q: %q has other characters", id, dir, name)
		case name[0] == '.' || name[len(name)-1] == '.' || strings.HasSuffix(name, flatExt):
			t.Errorf("dirOf(%q) = %q: %q is not a session's", id, dir, name)
		case reservedName(stem):
			t.Errorf("dirOf(%q) = %q: Windows reserves %q", id, dir, name)
		}
	}
	if back, ok := idOf(dir); ok != !hasDigest(dir) || ok && back != id {
		t.Errorf("idOf(dirOf(%q)) = %q, %v", id, back, ok)
	}
}
