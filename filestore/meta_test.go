package filestore

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-go/session"
)

func openRoot(t testing.TB) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func TestMetaFileKeepsWhatItDoesNotKnow(t *testing.T) {
	const text = `{"name":"demo","title":"A <title>","later":{"b": 1,"a":[1.0]},"cost":0.1,"head":{"rev":"3-00"},"Extra":null}`
	m, err := decodeMeta([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m.Title += " & more"
	data, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeMeta(data)
	if err != nil {
		t.Fatalf("decodeMeta(encode) = %v:\n%s", err, data)
	}
	var members map[string]any
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"name": "demo", "created": "0001-01-01T00:00:00Z", "updated": "0001-01-01T00:00:00Z", "title": "A <title> & more", "cost": 0.1,
		"format": 1.0, "head": map[string]any{"rev": "3-00"}, "later": map[string]any{"b": 1.0, "a": []any{1.0}}, "Extra": nil,
	}
	if diff := cmp.Diff(want, members); diff != "" {
		t.Errorf("members of meta.json (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(data), "A <title> & more") {
		t.Errorf("meta.json has escapes that nobody needs:\n%s", data)
	}
	second, err := again.encode()
	if err != nil || string(second) != string(data) {
		t.Errorf("encoding it again gives other bytes, %v:\n%s", err, second)
	}
}

func TestReadMetaDamaged(t *testing.T) {
	root, dir := openRoot(t)
	for text, want := range map[string]error{
		"":                         session.ErrCorrupt,
		"{bad json":                session.ErrCorrupt,
		strings.Repeat("\x00", 66): session.ErrCorrupt,
		"null":                     session.ErrCorrupt,
		"[]":                       session.ErrCorrupt,
		`{"name":1}`:               session.ErrCorrupt,
		`{"labels":{"a":1}}`:       session.ErrCorrupt,
		`{"format":2,"name":[]}`:   session.ErrNewerFormat,
		`{}`:                       nil,
	} {
		if err := os.WriteFile(filepath.Join(dir, metaName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readMeta(root, ".")
		if !errors.Is(err, want) || (err == nil) != (m != nil) {
			t.Errorf("readMeta of %.20q = %v, %v, want %v", text, m, err, want)
		}
	}
	aside, err := putMetaAside(root, ".", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readMeta(root, "."); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("readMeta after it was put aside = %v, want ErrNotExist", err)
	}
	if _, err := root.Stat(aside); err != nil {
		t.Errorf("the damaged file is gone: %v", err)
	}
	if err := root.WriteFile(metaName, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if second, err := putMetaAside(root, ".", time.Unix(0, 0)); err != nil || second == aside {
		t.Errorf("putMetaAside at the same time = %q, %v, want another name", second, err)
	}
}

func TestReadMetaOfWhatIsNoFile(t *testing.T) {
	root, dir := openRoot(t)
	name := filepath.Join(dir, metaName)
	for what, create := range map[string]func() error{
		"a directory": func() error { return os.Mkdir(name, 0o700) },
		"a pipe":      func() error { return mkfifo(name) },
		"too large":   func() error { return os.WriteFile(name, make([]byte, maxMetaFile+1), 0o600) },
	} {
		os.RemoveAll(name)
		if err := create(); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EPERM) {
			t.Logf("%s can't be made here: %v", what, err)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		if _, err := readMeta(root, "."); !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("readMeta of %s = %v, want ErrCorrupt", what, err)
		}
	}
}

// TestHeadMetaIsExact checks that a Head's Meta comes back byte for byte,
// although meta.json shows it as members of its own.
func TestHeadMetaIsExact(t *testing.T) {
	for _, text := range []string{"", "{}", `{"title":"é"}`, `{ "title" : "x" }`, `{"n":1}`, `{"title":"x","cost":1.50}`, `{"labels":{}}`, `{"labels":{"b":"<","a":"2"}}`} {
		var m metaFile
		if err := m.setHeadMeta([]byte(text)); err != nil {
			t.Fatal(err)
		}
		data, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeMeta(data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.headMeta(); err != nil || string(got) != text || (got == nil) != (text == "") {
			t.Errorf("headMeta = %q, %v, want %q", got, err, text)
		}
		again.Title = "edited by hand"
		if got, err := again.headMeta(); err != nil || !strings.Contains(string(got), again.Title) {
			t.Errorf("headMeta after an edit of %q = %s, %v", text, got, err)
		}
	}
}

func TestSessionMetaMapsBothWays(t *testing.T) {
	full := session.Meta{
		Title: "t", FirstPrompt: "p", Model: "m", Workspace: "w", Parent: "a", SucceededBy: "b", Cost: 1.5,
		Summary: "s", SummaryThrough: 3, SummaryHash: "h", Labels: map[string]string{"k": "v"},
	}
	var m Meta
	m.setSessionMeta(full)
	if diff := cmp.Diff(full, m.sessionMeta()); diff != "" {
		t.Errorf("sessionMeta (-want +got):\n%s", diff)
	}
	if !equalMeta(full, m.sessionMeta()) || equalMeta(full, session.Meta{}) {
		t.Error("equalMeta is wrong")
	}
}

// TestMergeMeta checks that saving a Meta changes what was changed in it, and
// nothing that another has changed meanwhile.
func TestMergeMeta(t *testing.T) {
	word := rapid.SampledFrom([]string{"", "a", "b"})
	meta := rapid.Custom(func(t *rapid.T) session.Meta {
		return session.Meta{
			Title: word.Draw(t, "title"), Model: word.Draw(t, "model"), Cost: float64(rapid.IntRange(0, 2).Draw(t, "cost")),
			Labels: rapid.MapOf(rapid.SampledFrom([]string{"x", "y"}), word).Draw(t, "labels"),
		}
	})
	choose := func(loaded, ours, stored string) string {
		if loaded != ours {
			return ours
		}
		return stored
	}
	rapid.Check(t, func(t *rapid.T) {
		loaded, ours, stored := meta.Draw(t, "loaded"), meta.Draw(t, "ours"), meta.Draw(t, "stored")
		got := stored
		got.Labels = map[string]string{}
		for k, v := range stored.Labels {
			got.Labels[k] = v
		}
		mergeMeta(&got, loaded, ours)
		if want := choose(loaded.Title, ours.Title, stored.Title); got.Title != want {
			t.Errorf("Title = %q, want %q", got.Title, want)
		}
		for _, k := range []string{"x", "y"} {
			l, wasLoaded := loaded.Labels[k]
			o, isOurs := ours.Labels[k]
			want, isWanted := stored.Labels[k]
			if wasLoaded != isOurs || l != o {
				want, isWanted = o, isOurs
			}
			if g, isGot := got.Labels[k]; g != want || isGot != isWanted {
				t.Errorf("Labels[%s] = %q, %v, want %q, %v", k, g, isGot, want, isWanted)
			}
		}
	})
}

func TestWriteFileAtomic(t *testing.T) {
	root, dir := openRoot(t)
	for _, text := range []string{"one", "two, which is longer", ""} {
		if err := writeFileAtomic(root, "f", []byte(text), true); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != text {
			t.Errorf("the file holds %q, %v, want %q", got, err, text)
		}
	}
	if info, err := root.Stat("f"); err != nil || info.Mode().Perm() != fileMode {
		t.Errorf("mode = %v, %v, want %o", info.Mode(), err, fileMode)
	}
	if err := root.Mkdir("d", dirMode); err != nil {
		t.Fatal(err)
	}
	if err := writeFileAtomic(root, "d", []byte("x"), false); err == nil {
		t.Error("writeFileAtomic over a directory = nil, want an error")
	}
	if err := writeFileAtomic(root, "none/f", []byte("x"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writeFileAtomic in no directory = %v, want ErrNotExist", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestSweepTemp(t *testing.T) {
	root, dir := openRoot(t)
	now := time.Now()
	for name, age := range map[string]time.Duration{tempPrefix + "old": 2 * tempAge, tempPrefix + "new": 0, "kept": 2 * tempAge} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweepTemp(root, ".", now); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != tempPrefix+"new" || entries[1].Name() != "kept" {
		t.Errorf("left: %v, %v, want the new one and the other file", entries, err)
	}
}
