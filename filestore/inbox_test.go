package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

func texts(delivered []InboxMessage) (t []string) {
	for _, m := range delivered {
		t = append(t, m.Text)
	}
	return t
}

func TestDrainInboxIntoTheHistory(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	var ids []string
	for _, text := range []string{"m1", "m2\nof two lines", "m3"} {
		id, err := m.PutInbox("demo", text)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	delivered, err := s.DrainInbox(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	messages := load(t, s)
	for i, want := range []string{"m1", "m2\nof two lines", "m3"} {
		switch {
		case len(messages) != 3 || len(delivered) != 3:
			t.Fatalf("delivered %d, stored %d, want 3", len(delivered), len(messages))
		case messages[i].Text() != want || messages[i].Role != session.RoleUser || messages[i].ID != ids[i]:
			t.Errorf("message %d is %v with ID %q, want %q with ID %q", i, messages[i], messages[i].ID, want, ids[i])
		case delivered[i].Text != want || delivered[i].ID != ids[i] || delivered[i].Time.IsZero():
			t.Errorf("delivered %+v, want %q", delivered[i], want)
		}
	}
	if again, err := s.DrainInbox(t.Context(), nil); err != nil || len(again) != 0 {
		t.Errorf("a second drain = %v, %v, want nothing", again, err)
	}
}

// TestDrainInboxAfterKill kills a process that has been given the second of
// three messages, and drains again.
func TestDrainInboxAfterKill(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	var ids []string
	for _, text := range []string{"m1", "m2", "m3"} {
		id, err := s.PutInbox(text)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	cmd, lines, first := startAgent(t, "drain", m)
	second, err := lines.ReadString('\n')
	if got := []string{first, strings.TrimSpace(second)}; err != nil || !cmp.Equal(got, ids[:2]) {
		t.Fatalf("the process was given %v, %v, want %v", got, err, ids[:2])
	}
	kill(cmd)

	var seen []string
	keep := func(_ context.Context, m InboxMessage) error {
		seen = append(seen, m.ID)
		return nil
	}
	// m1 was stored by the process that was killed; m2 was not.
	delivered, err := s.DrainInbox(t.Context(), keep)
	if err != nil || !cmp.Equal(seen, ids[1:]) || !cmp.Equal(texts(delivered), []string{"m2", "m3"}) {
		t.Errorf("delivered %v, %v, want m2 and m3 with IDs %v", delivered, err, ids[1:])
	}
	if again, err := s.DrainInbox(t.Context(), keep); err != nil || len(again) != 0 {
		t.Errorf("a drain after that = %v, %v, want nothing", again, err)
	}
}

func drainAgent(m *Manager, _ []string) error {
	s, err := m.Open("demo")
	if err != nil {
		return err
	}
	n := 0
	_, err = s.DrainInbox(context.Background(), func(_ context.Context, m InboxMessage) error {
		fmt.Println(m.ID)
		if n++; n == 2 {
			time.Sleep(time.Minute) // until it is killed
		}
		return nil
	})
	return err
}

// TestDrainInboxStoresOnce drains messages that were stored already, by a
// process that did not come to removing their files.
func TestDrainInboxStoresOnce(t *testing.T) {
	s := openSession(t, newManager(t), "demo")
	drop := func() error {
		return os.WriteFile(filepath.Join(s.InboxDir(), "note"), []byte("stop"), 0o600)
	}
	put := func() error {
		_, err := s.PutInbox("stop")
		return err
	}
	killed := errors.New("killed")
	for n, arrive := range []func() error{put, put, drop, drop} { // a name that is used again is another message
		if err := arrive(); err != nil {
			t.Fatal(err)
		}
		var id string
		_, err := s.DrainInbox(t.Context(), func(ctx context.Context, m InboxMessage) error {
			id = m.ID
			if err := s.storeInbox(ctx, m); err != nil {
				return err
			}
			return killed
		})
		if !errors.Is(err, killed) {
			t.Fatalf("DrainInbox = %v, want the error of store", err)
		}
		delivered, err := s.DrainInbox(t.Context(), nil)
		if err != nil || len(delivered) != 1 || delivered[0].ID != id {
			t.Errorf("delivered again: %v, %v, want %q", delivered, err, id)
		}
		if got := load(t, s); len(got) != n+1 || got[n].ID != id {
			t.Errorf("the history is %v, want %d messages", got, n+1)
		}
	}
}

func TestDrainInboxLeavesOthersAlone(t *testing.T) {
	s := openSession(t, newManager(t), "demo")
	for name, text := range map[string]string{".hidden": "x", tempPrefix + "x": "half", "empty": "", "b": "text \xff"} {
		if err := os.WriteFile(filepath.Join(s.InboxDir(), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(s.InboxDir(), "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(s.InboxDir(), "link")); err != nil {
		t.Logf("no symlinks here: %v", err)
	}
	if delivered, err := s.DrainInbox(t.Context(), nil); err != nil || !cmp.Equal(texts(delivered), []string{"text \uFFFD"}) {
		t.Errorf("delivered %v, %v, want the one message", delivered, err)
	}
	for _, name := range []string{".hidden", tempPrefix + "x", "empty", "dir"} {
		if _, err := os.Lstat(filepath.Join(s.InboxDir(), name)); err != nil {
			t.Errorf("%s is gone: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.DrainInbox(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("DrainInbox with a context that is done = %v", err)
	}
	if _, err := s.PutInbox(""); !errors.Is(err, session.ErrInvalidMessage) {
		t.Errorf("PutInbox of nothing = %v, want ErrInvalidMessage", err)
	}
}

// TestPutInboxOrder puts messages while the clock stands still and runs back.
func TestPutInboxOrder(t *testing.T) {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	m := newManagerWith(t, &Options{Clock: func() time.Time { return now }})
	s := openSession(t, m, "demo")
	var want []string
	for i := range 30 {
		if i%10 == 0 {
			now = now.Add(-time.Hour)
		}
		text := fmt.Sprint("m", i)
		if _, err := s.PutInbox(text); err != nil {
			t.Fatal(err)
		}
		want = append(want, text)
	}
	delivered, err := s.DrainInbox(t.Context(), nil)
	if diff := cmp.Diff(want, texts(delivered)); err != nil || diff != "" {
		t.Errorf("DrainInbox, %v (-want +got):\n%s", err, diff)
	}
}

// TestInboxWritersAndReader has 8 writers put 50 messages each while one reader
// drains.
func TestInboxWritersAndReader(t *testing.T) {
	const writers, each = 8, 50
	base := newManager(t).BaseDir()
	opts := &Options{Durability: DurabilityNormal}
	s := openSession(t, managerAt(t, base, opts), "demo")
	var wg sync.WaitGroup
	for w := range writers {
		m := managerAt(t, base, opts)
		wg.Go(func() {
			for i := range each {
				if _, err := m.PutInbox("demo", fmt.Sprintf("%d %d", w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	got := make(map[string]int)
	next := make(map[int]int)
	for last := false; !last; {
		select {
		case <-done:
			last = true // once more, for what was put meanwhile
		default:
		}
		_, err := s.DrainInbox(t.Context(), func(_ context.Context, m InboxMessage) error {
			got[m.Text]++
			var w, i int
			if n, err := fmt.Sscanf(m.Text, "%d %d", &w, &i); n != 2 || err != nil {
				t.Errorf("a half-written message: %q", m.Text)
			}
			if next[w] != i {
				t.Errorf("message %d of writer %d came when %d was due", i, w, next[w])
			}
			next[w] = i + 1
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for text, n := range got {
		if n != 1 {
			t.Errorf("%q was delivered %d times", text, n)
		}
	}
	if len(got) != writers*each {
		t.Errorf("%d messages, want %d", len(got), writers*each)
	}
}

// TestDrainInboxListsBetweenPuts drains an inbox while somebody is about to give
// a message its name. A directory that changes while it is read may show a new
// file and not an older one, so it is listed only when that is done.
func TestDrainInboxListsBetweenPuts(t *testing.T) {
	s := openSession(t, newManager(t), "demo")
	if _, err := s.PutInbox("first"); err != nil {
		t.Fatal(err)
	}
	inbox := path.Join(s.dir, InboxSubdir)
	putting, err := s.store.lockName(inbox, inboxPutLockName, true)
	if err != nil {
		t.Fatal(err)
	}
	drained := make(chan []InboxMessage)
	go func() {
		messages, err := s.DrainInbox(t.Context(), nil)
		for errors.Is(err, session.ErrLocked) { // by the look below
			messages, err = s.DrainInbox(t.Context(), nil)
		}
		if err != nil {
			t.Error(err)
		}
		drained <- messages
	}()
	for begun := false; !begun; {
		draining, err := s.store.lockName(inbox, inboxLockName, false)
		if begun = errors.Is(err, session.ErrLocked); !begun {
			releaseName(draining)
		}
	}
	if err := os.WriteFile(filepath.Join(s.InboxDir(), "second"), []byte("second"), 0o600); err != nil {
		t.Error(err)
	}
	releaseName(putting)
	if got := <-drained; len(got) != 2 || got[1].Text != "second" {
		t.Errorf("delivered %v, want first and second", got)
	}
}

func TestDrainInboxOneAtATime(t *testing.T) {
	s := openSession(t, newManager(t), "demo")
	if _, err := s.PutInbox("m"); err != nil {
		t.Fatal(err)
	}
	_, err := s.DrainInbox(t.Context(), func(ctx context.Context, _ InboxMessage) error {
		if _, err := s.DrainInbox(ctx, nil); !errors.Is(err, session.ErrLocked) {
			t.Errorf("DrainInbox during another = %v, want ErrLocked", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestInboxAfterKilledWriters opens a session in whose inbox a writer that was
// killed has left a file.
func TestInboxAfterKilledWriters(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	left := filepath.Join(s.InboxDir(), tempPrefix+"x")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * tempAge)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	openSession(t, m, "demo")
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestDrainInboxOfWhatIsContinued drains what was put for a session before and
// after it was compacted, twice.
func TestDrainInboxOfWhatIsContinued(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "a")
	say(t, s, "hi")
	put := func(name, text string) {
		t.Helper()
		if _, err := m.PutInbox(name, text); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "1")
	for _, name := range []string{"b", "c"} {
		next, err := s.Compact("sum", &CompactOptions{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		put(name, "for "+name)
		s = next
	}
	put("a", "2")
	fork, err := s.Fork("fork", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fork.DrainInbox(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("a fork has got %v, %v", texts(got), err)
	}
	got, err := openSession(t, m, "a").DrainInbox(t.Context(), nil)
	if want := []string{"1", "2", "for b", "for c"}; err != nil || !cmp.Equal(texts(got), want) {
		t.Errorf("delivered %v, %v, want %v", texts(got), err, want)
	}
	if got, err := s.DrainInbox(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("delivered again: %v, %v", texts(got), err)
	}
}
