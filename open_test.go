package session_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

func TestOpenersChooseByScheme(t *testing.T) {
	stores := session.Openers{"memory": memstore.OpenURL}
	for _, good := range []string{"memory:", "memory:?ttl=1h"} {
		b, err := stores.Open(t.Context(), good)
		if err != nil {
			t.Fatalf("Open(%q) = %v", good, err)
		}
		b.Close()
	}
	for _, bad := range []string{
		"", "memory", "redis://user:secret@host", ":memory:", "memory:name", "memory:?ttl=soon", "memory:?ttl=-1h", "memory:?colour=secret", "memory:?%zz",
	} {
		b, err := stores.Open(t.Context(), bad)
		if b != nil || !errors.Is(err, session.ErrInvalidOption) {
			t.Errorf("Open(%q) = %v, %v, want ErrInvalidOption", bad, b, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q) shows the URL: %v", bad, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stores.Open(ctx, "memory:"); !errors.Is(err, context.Canceled) {
		t.Errorf("Open with a context that is done = %v, want its error", err)
	}
}

func TestStoreURL(t *testing.T) {
	u, err := session.ParseStoreURL("x:a b/ü%20.db?ttl=90m&mode=fast")
	if err != nil {
		t.Fatal(err)
	}
	d, err := u.Duration("ttl")
	if u.Scheme != "x" || u.Name != "a b/ü%20.db" || err != nil || d != 90*time.Minute {
		t.Errorf("scheme %q, name %q, ttl %v, %v", u.Scheme, u.Name, d, err)
	}
	if err := u.Unused(); !errors.Is(err, session.ErrInvalidOption) {
		t.Errorf("Unused() with mode left = %v, want ErrInvalidOption", err)
	}
	if m := u.Take("mode"); m != "fast" || u.Unused() != nil {
		t.Errorf("Take(mode) = %q, then Unused() = %v", m, u.Unused())
	}
}

func TestJoinIDIsInjective(t *testing.T) {
	seen := make(map[string][]string)
	parts := []string{"", "a", "b", "a/b", "a%2Fb", "%", "a:b", "2F"}
	for _, x := range parts {
		for _, list := range [][]string{{x}, {x, ""}, {"", x}, {x, "b"}, {"a", x}, {x, x, x}} {
			id := session.JoinID(list...)
			if other, found := seen[id]; found && !slices.Equal(other, list) {
				t.Errorf("JoinID(%q) = JoinID(%q) = %q", list, other, id)
			}
			seen[id] = list
			if got := session.SplitID(id); !slices.Equal(got, list) {
				t.Errorf("SplitID(%q) = %q, want %q", id, got, list)
			}
		}
	}
	if got := session.SplitID("100%/50%zz/%2f"); !slices.Equal(got, []string{"100%", "50%zz", "%2f"}) {
		t.Errorf("SplitID of an ID that JoinID did not make = %q", got)
	}
}
