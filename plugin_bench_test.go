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
// histories of 1,000 and of 10,000 messages: against one without options, and
// against one that is as safe as the plugin's, at a known version and with a
// key; and what the longer history adds.
func BenchmarkSessionPlugin(b *testing.B) {
	for _, size := range []int{1_000, 10_000} {
		history := storetest.Messages(size)
		b.Run(fmt.Sprintf("%d/plain", size), func(b *testing.B) {
			ratio.ReportFresh(b, "x-bare-append", func() (floor, ours func()) {
				return bareAppends(b, history, nil), pluginAppends(b, history)
			})
		})
		b.Run(fmt.Sprintf("%d/safe", size), func(b *testing.B) {
			ratio.ReportFresh(b, "x-safe-append", func() (floor, ours func()) {
				return bareAppends(b, history, &session.WriteOptions{}), pluginAppends(b, history)
			})
		})
	}
	short, long := storetest.Messages(1_000), storetest.Messages(10_000)
	b.Run("growth", func(b *testing.B) {
		ratio.ReportFresh(b, "x-short", func() (floor, ours func()) {
			return pluginAppends(b, short), pluginAppends(b, long)
		})
	})
}

// streams is how many sessions a run appends to, messagesEach how many to each.
const (
	streams      = 20
	messagesEach = 200
)

// bareAppends returns what appends to sessions that hold a history; with
// options, each at the version of the one before and with a key of its own.
func bareAppends(b *testing.B, history []session.Message, opts *session.WriteOptions) func() {
	store := memstore.New(nil)
	versions := make([]session.Version, streams)
	for i := range versions {
		versions[i] = prepareSession(b, store, fmt.Sprint(i), history)
	}
	messages := storetest.Messages(messagesEach)
	return func() {
		for s := range streams {
			id := fmt.Sprint(s)
			for i := range messages {
				if opts != nil {
					opts = &session.WriteOptions{IfVersion: versions[s], Key: fmt.Sprint("key-", i)}
				}
				v, err := store.Append(b.Context(), id, messages[i:i+1], opts)
				if err != nil {
					b.Fatal(err)
				}
				versions[s] = v
			}
		}
	}
}

// pluginAppends does the same through a SessionPlugin, one stream a session.
func pluginAppends(b *testing.B, history []session.Message) func() {
	store := memstore.New(nil)
	type idKey struct{}
	hooks := session.NewHookRegistry(session.NewSessionPlugin(session.SessionPluginOptions{
		Store: store, ResolveID: func(ctx context.Context) (string, error) { return ctx.Value(idKey{}).(string), nil },
	}))
	var opened []*session.Stream
	var contexts []context.Context
	for i := range streams {
		id := fmt.Sprint(i)
		prepareSession(b, store, id, history)
		stream, ctx := session.NewStream(context.WithValue(b.Context(), idKey{}, id))
		if err := session.NotifyBefore(ctx, hooks, &session.BeforeStreamHook{Stream: stream}); err != nil {
			b.Fatal(err)
		}
		opened, contexts = append(opened, stream), append(contexts, ctx)
	}
	messages := storetest.Messages(messagesEach)
	return func() {
		for s, stream := range opened {
			for i := range messages {
				if err := session.Notify(contexts[s], hooks, &session.AfterMessageAppendedHook{Stream: stream, Message: messages[i]}); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
}

// prepareSession stores a history, and one message more, so that the memory
// store has made room behind it.
func prepareSession(b *testing.B, store session.Log, id string, history []session.Message) session.Version {
	b.Helper()
	if err := store.Save(b.Context(), id, history); err != nil {
		b.Fatal(err)
	}
	v, err := store.Append(b.Context(), id, history[:1], nil)
	if err != nil {
		b.Fatal(err)
	}
	return v
}
