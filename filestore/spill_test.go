package filestore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSpill(t *testing.T) {
	s := openSession(t, newManager(t), "demo")
	small := strings.Repeat("x", DefaultSpillLimit)
	if got, err := s.Spill("shell", []byte(small), nil); err != nil || got != small {
		t.Errorf("Spill of what is small enough = %d bytes, %v", len(got), err)
	}
	if files, err := os.ReadDir(s.TmpDir()); err != nil || len(files) != 0 {
		t.Errorf("it has written %v, %v", files, err)
	}
	large := "begin é" + strings.Repeat("é", DefaultSpillLimit) + "end"
	for _, opts := range []*SpillOptions{nil, {Keep: -1}, {Keep: 8}, {Limit: 10}, {Keep: 1 << 30}} {
		got, err := s.Spill("../Shell Tool\x00", []byte(large), opts)
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(s.TmpDir(), "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("TmpDir has %v, %v, want one file", files, err)
		}
		if !strings.Contains(got, files[0]) || !strings.HasPrefix(filepath.Base(files[0]), "shell-tool-") {
			t.Errorf("the note does not name %s:\n%.3000s", files[0], got)
		}
		if strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("a character was cut in two: %.100q", got)
		}
		if opts != nil && opts.Keep == 8 && (!strings.HasPrefix(got, "begin é\n[") || !strings.HasSuffix(got, "]\nééend")) {
			t.Errorf("the note does not show beginning and end: %q", got)
		}
		if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != fileMode {
			t.Errorf("mode = %v, %v, want %o", info.Mode(), err, fileMode)
		}
		if data, err := os.ReadFile(files[0]); err != nil || string(data) != large {
			t.Errorf("the file holds %d bytes, %v, want %d", len(data), err, len(large))
		}
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Spill("", []byte("a\xffb"), nil); err != nil || got != "a\uFFFDb" {
		t.Errorf("Spill of invalid UTF-8 = %q, %v", got, err)
	}
}

func TestSpillName(t *testing.T) {
	for tool, want := range map[string]string{
		"": "output", "...": "output", "Read": "read", "a/b\\c": "a-b-c", "é": "output", strings.Repeat("x", 300): strings.Repeat("x", 40),
	} {
		if got := spillName(tool); got != want {
			t.Errorf("spillName(%q) = %q, want %q", tool, got, want)
		}
	}
}
