package dynamostore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/dynamostore"
	"github.com/holdfast-go/session/internal/dynamotest"
)

// noise returns bytes that can't be compressed, the same ones each time.
func noise(n int) []byte {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(b) // never fails
	return b
}

func media(n int) session.Message {
	return session.NewMessage(session.RoleUser, &session.MediaBlock{Type: session.MediaImage, MIMEType: "image/png", Data: noise(n)})
}

// metered opens a store whose costs are counted, in a new table.
func metered(t testing.TB, s *dynamotest.Server, opts *dynamostore.Options) (*dynamostore.Store, *dynamotest.Meter) {
	t.Helper()
	meter := &dynamotest.Meter{}
	store, err := dynamostore.New(s.Client(meter.Wrap), s.Table(t, createTable), opts)
	check(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if refused := meter.Refused(); len(refused) > 0 {
			t.Errorf("DynamoDB would have refused %q", refused)
		}
	})
	return store, meter
}

func same(t *testing.T, s session.Store, id string, want []session.Message) {
	t.Helper()
	got, err := s.Load(t.Context(), id)
	check(t, err)
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d", len(got), len(want))
	}
	for i := range got {
		if !got[i].Equal(want[i]) {
			t.Fatalf("message %d differs: %.500s", i+1, cmp.Diff(want[i], got[i]))
		}
	}
}

// What is larger than an item of DynamoDB is stored all the same.
func TestLargeMessagesAndHistories(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		for name, opts := range map[string]*dynamostore.Options{"Compressed": nil, "Uncompressed": {Uncompressed: true}} {
			t.Run(name, func(t *testing.T) {
				store, _ := metered(t, s, opts)
				long := "s" + strings.Repeat("/long", 100)

				var history []session.Message
				for i := range 500 {
					history = append(history, session.UserText(fmt.Sprint(i, string(bytes.Repeat([]byte("z"), 1190)))))
				}
				_, err := store.Append(t.Context(), long, history, nil)
				check(t, err)
				for _, m := range []session.Message{
					media(450_000),
					session.UserText(strings.Repeat("x", 399_900)),
					media(399_900 * 3 / 4),
					media(3 << 20),
				} {
					_, err := store.Append(t.Context(), long, []session.Message{m}, nil)
					check(t, err)
					history = append(history, m)
				}
				same(t, store, long, history)

				snap, err := store.Read(t.Context(), long, &session.ReadOptions{Last: 2})
				check(t, err)
				if len(snap.Messages) != 2 || !snap.Messages[1].Equal(history[len(history)-1]) {
					t.Errorf("Read of the last 2 = %d messages from %d", len(snap.Messages), snap.First)
				}
			})
		}
	})
}

// Messages of all sizes around what an item holds.
func TestSizesAroundAnItem(t *testing.T) {
	s := dynamotest.Minidyn()
	for _, id := range []string{"s", strings.Repeat("s", session.MaxIDBytes)} {
		store, _ := metered(t, s, &dynamostore.Options{Uncompressed: true, KeyPrefix: "tenant"})
		var history []session.Message
		for n := 400<<10 - 1500; n <= 400<<10+100; n += 97 {
			history = append(history, session.UserText(strings.Repeat("x", n)))
		}
		for i := range history {
			_, err := store.Append(t.Context(), id, history[i:i+1], nil)
			check(t, err)
		}
		same(t, store, id, history)
	}
}

func Test20MBHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		f := &tables{server: s}
		table := s.Table(t, createTable)
		store := f.in(t, table)
		var history []session.Message
		size := 0
		for i := 0; size < 20<<20; i++ {
			m := session.AssistantText(fmt.Sprintf("%d %x", i, noise(1000+i%9000)))
			size += len(m.Text())
			history = append(history, m)
		}
		// The first half at once, the second in turns of ten.
		_, err := store.Append(t.Context(), "s", history[:len(history)/2], nil)
		check(t, err)
		for at := len(history) / 2; at < len(history); at += 10 {
			_, err := store.Append(t.Context(), "s", history[at:min(at+10, len(history))], nil)
			check(t, err)
		}
		reader := f.in(t, table)
		same(t, reader, "s", history)
		snap, err := reader.Read(t.Context(), "s", &session.ReadOptions{After: 1000, Limit: 5})
		check(t, err)
		if len(snap.Messages) != 5 || !snap.Messages[0].Equal(history[1000]) {
			t.Errorf("Read from the middle = %d messages from %d, want 5 from 1001", len(snap.Messages), snap.First)
		}
		t.Logf("%d messages, %d bytes of text", len(history), size)
	})
}

// A batch with one message that is too large is not stored in part.
func TestTooLargeWritesNothing(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		store, meter := metered(t, s, &dynamostore.Options{MaxBatchBytes: 100_000})
		add(t, store, "s", "before")
		meter.Take()
		_, err := store.Append(t.Context(), "s", append(user("fits"), media(100_000)), nil)
		if !errors.Is(err, session.ErrTooLarge) {
			t.Errorf("Append of too much = %v, want ErrTooLarge", err)
		}
		if cost := meter.Take(); cost.Writes > 0 {
			t.Errorf("Append of too much wrote %v units, want none", cost.Writes)
		}
		same(t, store, "s", user("before"))
	})
}
