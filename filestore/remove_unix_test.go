//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInterruptedDelete leaves a Delete off at each of its steps.
func TestInterruptedDelete(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, nil)
	other, _ := openStore(t, dir, nil)
	appendTexts(t, s, "x/s", "a")
	wantTexts(t, other, "x/s", "a")

	// It has only marked the file.
	if err := s.driver.logs["x/s"].file.Chmod(sealedMode); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, other, "x/s", "a")
	appendTexts(t, other, "x/s", "b")
	wantTexts(t, s, "x/s", "a", "b")
	if info, err := os.Stat(historyFile(dir, "x/s")); err != nil || info.Mode() != fileMode {
		t.Errorf("the history's mode is %v, %v, want %v", info.Mode(), err, os.FileMode(fileMode))
	}

	// It has renamed the directory and not removed it.
	if err := s.driver.logs["x/s"].file.Chmod(sealedMode); err != nil {
		t.Fatal(err)
	}
	trash, err := s.driver.putAside("x+/s")
	if err != nil {
		t.Fatal(err)
	}
	before := readFile(t, filepath.Join(dir, trash, historyName))
	appendTexts(t, other, "x/s", "new")
	wantTexts(t, s, "x/s", "new")
	if diff := cmp.Diff(before, readFile(t, filepath.Join(dir, trash, historyName))); diff != "" {
		t.Error("a session that is being removed was written to")
	}
	for info, err := range s.List(t.Context(), nil) {
		if err != nil || info.ID != "x/s" || info.Messages != 1 {
			t.Errorf("List: %+v, %v", info, err)
		}
	}
	if err := s.Delete(t.Context(), "x/s", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x+")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the last session is still there: %v", err)
	}
}
