package dynamostore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// TestDeleteReportsWhatItLeaves refuses the removal of batches, then lets it
// be: the second Delete, by another process, removes them.
func TestDeleteReportsWhatItLeaves(t *testing.T) {
	f := newFake()
	ctx := t.Context()
	open := func() *Store {
		s, err := New(f, "t", &Options{RetryTime: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	for range 3 {
		if _, err := s.Append(ctx, "s", []session.Message{session.UserText("hi")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	refused := errors.New("no removals today")
	f.before = func(_ context.Context, request string, apply func()) error {
		if strings.HasPrefix(request, "BatchWriteItem") {
			return refused
		}
		apply()
		return nil
	}
	for range 2 {
		if err := s.Delete(ctx, "s", nil); !errors.Is(err, refused) {
			t.Errorf("Delete that can't remove batches: error = %v, want the one that it met", err)
		}
		if _, err := s.Info(ctx, "s"); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("Info afterwards: error = %v, want ErrNotFound", err)
		}
	}
	f.before = nil
	if err := open().Delete(ctx, "s", nil); err != nil {
		t.Errorf("Delete, again: error = %v", err)
	}
	if len(f.items) != 1 {
		t.Errorf("%d items are left, want the tombstone", len(f.items))
	}
}
