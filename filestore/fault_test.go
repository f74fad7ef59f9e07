package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/holdfast-go/session"
)

// TestDiskFull lets the disk fill at each byte of a batch, and the clean-up
// fail or not: the session is as it was before, for all handles, and goes on.
func TestDiskFull(t *testing.T) {
	for _, cleanUp := range []bool{true, false} {
		t.Run(fmt.Sprint("cleanUp=", cleanUp), func(t *testing.T) {
			dir := t.TempDir()
			s, _ := openStore(t, dir, nil)
			other, _ := openStore(t, dir, nil)
			appendTexts(t, s, "s", "a")
			want := []string{"a"}
			for fits := 0; ; fits += 7 {
				s.driver.hooks = failingHooks(fits, cleanUp)
				before := readFile(t, historyFile(dir, "s"))
				_, err := s.Append(t.Context(), "s", []session.Message{session.UserText("b"), session.UserText("c")}, nil)
				s.driver.hooks = defaultHooks()
				if err == nil {
					break // it has all been written
				}
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("Append on a full disk = %v, want ENOSPC", err)
				}
				after := readFile(t, historyFile(dir, "s"))
				if cleanUp && !bytes.Equal(after, before) {
					t.Fatalf("after %d bytes of a batch the history was not as before", fits)
				}
				for _, h := range []*Store{other, s} {
					wantTexts(t, h, "s", want...)
				}
				if fits%3 == 0 {
					text := fmt.Sprint("after ", fits)
					appendTexts(t, []*Store{s, other}[fits%2], "s", text)
					want = append(want, text)
				}
				again, _ := openStore(t, dir, nil)
				wantTexts(t, again, "s", want...)
				if t.Failed() {
					t.Fatalf("after %d bytes", fits)
				}
			}
			wantTexts(t, other, "s", append(want, "b", "c")...)
		})
	}
}

// failingHooks write so many bytes of a batch and then have no space left.
func failingHooks(fits int, cleanUp bool) hooks {
	h := defaultHooks()
	h.write = func(f *os.File, b []byte) (int, error) {
		if len(b) <= fits {
			return f.Write(b)
		}
		n, err := f.Write(b[:fits])
		return n, errors.Join(err, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC})
	}
	if !cleanUp {
		h.truncate = func(f *os.File, _ int64) error {
			return &os.PathError{Op: "truncate", Path: f.Name(), Err: syscall.EIO}
		}
	}
	return h
}

// TestSyncFails checks that a write that could not be synced is not
// acknowledged, and not made either.
func TestSyncFails(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir, nil)
	s.driver.opts.Durability = DurabilityFull
	appendTexts(t, s, "s", "a")
	s.driver.hooks.sync = func(f *os.File) error { return &os.PathError{Op: "sync", Path: f.Name(), Err: syscall.EIO} }
	if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText("b")}, nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("Append = %v, want EIO", err)
	}
	s.driver.hooks = defaultHooks()
	other, _ := openStore(t, dir, nil)
	for _, s := range []*Store{s, other} {
		wantTexts(t, s, "s", "a")
	}
	appendTexts(t, s, "s", "c")
	wantTexts(t, other, "s", "a", "c")
}

// TestRepairBesideWriters repairs a history again and again while others append
// to it and garbage is strewn in.
func TestRepairBesideWriters(t *testing.T) {
	dir := t.TempDir()
	repairer, _ := openStore(t, dir, nil)
	const writers, each = 3, 150
	appendTexts(t, repairer, "s", "first")
	var wg sync.WaitGroup
	for w := range writers {
		s, _ := openStore(t, dir, nil)
		wg.Go(func() {
			for n := range each {
				if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText(fmt.Sprint(w, " ", n))}, nil); err != nil {
					t.Errorf("Append: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	repaired := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		f, err := os.OpenFile(historyFile(dir, "s"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("garbage\n"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		found, err := repairer.Repair(t.Context(), "s")
		if err != nil {
			t.Fatalf("Repair: %v", err)
		}
		repaired += len(found)
	}
	if repaired == 0 {
		t.Error("nothing was repaired")
	}
	got, err := repairer.Load(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	next := make([]int, writers)
	for _, m := range got[1:] {
		var w, n int
		fmt.Sscan(m.Text(), &w, &n)
		if n != next[w] {
			t.Fatalf("message %d of writer %d, want %d", n, w, next[w])
		}
		next[w]++
	}
	if len(got) != 1+writers*each {
		t.Errorf("%d messages, want %d", len(got), 1+writers*each)
	}
	if strings.Contains(string(readFile(t, historyFile(dir, "s"))), "garbage") {
		t.Error("the repaired history has garbage")
	}
}
