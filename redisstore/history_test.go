package redisstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/redistest"
	"github.com/holdfast-go/session/redisstore"
	"github.com/holdfast-go/session/storetest"
)

// A history of 100,000 messages loads, and its last 20 take as many bytes and
// round trips as those of 100.
func TestLongHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 messages: left out by -short")
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		faults := &redistest.Faults{}
		s := openAt(t, server.Client(t, redistest.Through(faults)), &redisstore.Options{Prefix: server.Prefix(t)})
		const long = 100_000
		messages := make([]session.Message, 0, long)
		for n := range long {
			messages = append(messages, session.UserText(fmt.Sprintf("0 %d", n)))
		}
		for part := range slices.Chunk(messages, 10_000) {
			if _, err := s.Append(t.Context(), "long", part, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Append(t.Context(), "short", messages[long-100:], nil); err != nil {
			t.Fatal(err)
		}
		checkHistory(t, texts(t, s, "long"), []int{long})
		cost := func(id string) (requests int, bytes int64) {
			before := faults.Calls("")
			_, received := faults.Bytes()
			got, err := s.Read(t.Context(), id, &session.ReadOptions{Last: 20})
			if err != nil || len(got.Messages) != 20 || got.Messages[19].Text() != fmt.Sprintf("0 %d", long-1) {
				t.Fatalf("Read of the last 20 of %s = %d messages, %v", id, len(got.Messages), err)
			}
			_, after := faults.Bytes()
			return faults.Calls("") - before, after - received
		}
		longRequests, longBytes := cost("long")
		shortRequests, shortBytes := cost("short")
		if longRequests != shortRequests || longBytes > shortBytes+300 { // the record grows a little
			t.Errorf("the last 20 of %d take %d requests and %d bytes, of 100 %d and %d", long, longRequests, longBytes, shortRequests, shortBytes)
		}
	})
}

// An append is one round trip, whatever is there already.
func TestAppendIsOneRoundTrip(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		faults := &redistest.Faults{}
		s := openAt(t, server.Client(t, redistest.Through(faults)), &redisstore.Options{Prefix: server.Prefix(t)})
		for i := range 3 {
			mustAppend(t, s, "s", "first")
			before := faults.Calls("")
			sent, _ := faults.Bytes()
			mustAppend(t, s, "s", "next")
			after, _ := faults.Bytes()
			if n := faults.Calls("") - before; n != 1 {
				t.Errorf("round %d: an append takes %d round trips, want 1", i, n)
			}
			if after-sent > 1500 {
				t.Errorf("round %d: an append of a short text sends %d bytes", i, after-sent)
			}
			if _, err := s.Append(t.Context(), "s", storetest.Messages(2000), nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}
