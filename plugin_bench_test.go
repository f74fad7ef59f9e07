package session_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/ratio"
	"github.com/holdfast-go/session/memstore"
	"github.com/holdfast-go/session/storetest"
)

// BenchmarkSessionPlugin measures what the plugin adds to an Append, on
// histories of 1,000 and of 10,000 messages.
func BenchmarkSessionPlugin(b *testing.B) {
	messages := storetest.Messages(200)
	for _, size := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			store := memstore.New(nil)
			history := storetest.Messages(size)
			hooks := session.NewHookRegistry(session.NewSessionPlugin(session.SessionPluginOptions{
				Store: store, ResolveID: func(context.Context) (string, error) { return "plugin", nil },
			}))
			for _, id := range []string{"plugin", "bare"} {
				if err := store.Save(b.Context(), id, history); err != nil {
					b.Fatal(err)
				}
			}
			stream, ctx := session.NewStream(b.Context())
			if err := session.NotifyBefore(ctx, hooks, &session.BeforeStreamHook{Stream: stream}); err != nil {
				b.Fatal(err)
			}
			ratio.Report(b, "x-bare-append", func() {
				for i := range messages {
					if _, err := store.Append(ctx, "bare", messages[i:i+1], nil); err != nil {
						b.Fatal(err)
					}
				}
			}, func() {
				for i := range messages {
					if err := session.Notify(ctx, hooks, &session.AfterMessageAppendedHook{Stream: stream, Message: messages[i]}); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
