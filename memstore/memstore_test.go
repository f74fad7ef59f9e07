package memstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
	"github.com/holdfast-go/session/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(testing.TB) session.Store { return memstore.New(nil) }, nil)
}

func TestStoreWithTTL(t *testing.T) {
	clock := storetest.NewClock()
	const ttl = time.Hour
	storetest.Run(t, func(testing.TB) session.Store {
		return memstore.New(&memstore.Options{TTL: ttl, Clock: clock.Now})
	}, &storetest.Options{TTL: ttl, Advance: clock.Advance})
}

func TestMaxBatchBytes(t *testing.T) {
	s := memstore.New(&memstore.Options{MaxBatchBytes: 1000})
	half := session.UserText(strings.Repeat("x", 400))
	if _, err := s.Append(t.Context(), "s", []session.Message{half, half}, nil); err != nil {
		t.Errorf("Append of less than MaxBatchBytes = %v", err)
	}
	if _, err := s.Append(t.Context(), "s", []session.Message{half, half, half}, nil); !errors.Is(err, session.ErrTooLarge) {
		t.Errorf("Append of more than MaxBatchBytes = %v, want ErrTooLarge", err)
	}
	if got, err := s.Load(t.Context(), "s"); err != nil || len(got) != 2 {
		t.Errorf("%d messages, %v, want the 2 before", len(got), err)
	}
}

func TestExpiredSessionsAreFreed(t *testing.T) {
	clock := storetest.NewClock()
	s := memstore.New(&memstore.Options{TTL: time.Hour, Clock: clock.Now})
	for i := range 1000 {
		if err := s.Save(t.Context(), fmt.Sprint("old/", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(2 * time.Hour)
	for i := range 1000 {
		if err := s.Save(t.Context(), fmt.Sprint("new/", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.Stored(); n != 1000 {
		t.Errorf("%d sessions in memory, want the 1000 live ones", n)
	}
}

func TestListOfANestedFolder(t *testing.T) {
	s := memstore.New(nil)
	for _, id := range []string{"t/u/1", "t/u/2", "t/u2/1", "t/u", "t/u/v/w", "u/1"} {
		if err := s.Save(t.Context(), id, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(t.Context(), "t/u/2", nil); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]int{"t/u/": 2, "t/": 4, "t/u/v/": 1, "t/u/v/w": 1, "t/u": 4, "u/": 1, "": 5, "x/": 0} {
		n := 0
		for _, err := range s.List(t.Context(), &session.ListOptions{Prefix: prefix}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Errorf("List of %q yields %d sessions, want %d", prefix, n, want)
		}
	}
}
