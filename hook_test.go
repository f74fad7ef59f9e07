package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/session"
)

func TestHooksRunInOrder(t *testing.T) {
	r := session.NewHookRegistry()
	var ran []int
	stop := errors.New("stop")
	for i := range 4 {
		session.OnBefore(r, func(context.Context, *session.BeforeStreamHook) error {
			ran = append(ran, i)
			if i == 2 {
				return stop
			}
			return nil
		})
		session.OnAfter(r, func(ctx context.Context, _ *session.AfterStreamHook) error {
			ran = append(ran, 10+i)
			if ctx.Err() != nil {
				t.Error("an after-hook runs with a context that is cancelled")
			}
			if i == 1 {
				panic("careless")
			}
			return fmt.Errorf("error %d", i)
		})
	}
	stream, ctx := session.NewStream(t.Context())
	if err := session.NotifyBefore(ctx, r, &session.BeforeStreamHook{Stream: stream}); !errors.Is(err, stop) {
		t.Errorf("NotifyBefore = %v, want the first error", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	err := session.Notify(ctx, r, &session.AfterStreamHook{Stream: stream})
	if want := []int{0, 1, 2, 10, 11, 12, 13}; !slices.Equal(ran, want) {
		t.Errorf("hooks ran in the order %v, want %v", ran, want)
	}
	if joined, ok := err.(interface{ Unwrap() []error }); !ok || len(joined.Unwrap()) != 4 {
		t.Errorf("Notify = %v, want all four errors", err)
	}
}

func TestStreamValues(t *testing.T) {
	if session.StreamFrom(t.Context()) != nil {
		t.Error("a context without a stream has one")
	}
	outer, ctx := session.NewStream(t.Context())
	inner, ctx := session.NewStream(ctx)
	if session.StreamFrom(ctx) != inner || inner.Parent() != outer || outer.Parent() != nil {
		t.Error("the stream in the context is not the inner one, inside of the outer one")
	}
	type key struct{}
	outer.SetValue(key{}, 1)
	if inner.Value(key{}) != nil || outer.Value(key{}) != 1 {
		t.Error("streams share values")
	}
	outer.SetValue(key{}, nil)
	if outer.Value(key{}) != nil {
		t.Error("a value that was removed is still there")
	}
}
