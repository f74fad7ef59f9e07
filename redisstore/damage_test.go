package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/redistest"
	"github.com/holdfast-go/session/redisstore"
)

// TestDamage lets a part of a session be evicted, expire, or be overwritten by
// somebody else. That is an error from then on, never a shorter history.
func TestDamage(t *testing.T) {
	type damage struct {
		name string
		do   func(ctx context.Context, client redis.UniversalClient, key string) error
	}
	anyKey := []damage{
		{"Evicted", func(ctx context.Context, c redis.UniversalClient, key string) error { return c.Del(ctx, key).Err() }},
		{"Expired", func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.ExpireAt(ctx, key, time.Now().Add(-time.Minute)).Err()
		}},
		{"OverwrittenByAHash", func(ctx context.Context, c redis.UniversalClient, key string) error {
			return errors.Join(c.Del(ctx, key).Err(), c.HSet(ctx, key, "f", "v").Err())
		}},
		{"OverwrittenByASet", func(ctx context.Context, c redis.UniversalClient, key string) error {
			return errors.Join(c.Del(ctx, key).Err(), c.SAdd(ctx, key, "v").Err())
		}},
	}
	text := damage{"OverwrittenByAText", func(ctx context.Context, c redis.UniversalClient, key string) error {
		return c.Set(ctx, key, "something else", 0).Err()
	}}
	ofKey := map[string][]damage{
		"head": {text, {"Emptied", func(ctx context.Context, c redis.UniversalClient, key string) error {
			return c.Set(ctx, key, "", 0).Err()
		}},
			{"CutShort", func(ctx context.Context, c redis.UniversalClient, key string) error {
				head, err := c.Get(ctx, key).Result()
				return errors.Join(err, c.Set(ctx, key, head[:len(head)/2], 0).Err())
			}}},
		"messages": {text,
			{"WithoutTheLast", func(ctx context.Context, c redis.UniversalClient, key string) error { return c.RPop(ctx, key).Err() }},
			{"WithoutTheFirst", func(ctx context.Context, c redis.UniversalClient, key string) error { return c.LPop(ctx, key).Err() }},
			{"WithOneMore", func(ctx context.Context, c redis.UniversalClient, key string) error {
				return c.RPush(ctx, key, "{}").Err()
			}},
		},
		"meta": {},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		client := server.Client(t)
		for key, some := range ofKey {
			for _, d := range append(anyKey[:len(anyKey):len(anyKey)], some...) {
				t.Run(key+"/"+d.name, func(t *testing.T) {
					prefix := server.Prefix(t)
					opts := &redisstore.Options{Prefix: prefix}
					writer := openAt(t, client, opts)
					for _, m := range []string{"1", "2", "3"} {
						mustAppend(t, writer, "s", m)
					}
					if _, err := writer.Update(t.Context(), "s", func(m *session.Meta) error { m.Title = "x"; return nil }); err != nil {
						t.Fatal(err)
					}
					if err := d.do(t.Context(), client, keyOf(t, server, prefix, key)); err != nil {
						t.Fatal(err)
					}
					for _, s := range []*redisstore.Store{openAt(t, client, opts), writer} {
						checkDamaged(t, s)
					}
				})
			}
		}
	})
}

// Meta that somebody has overwritten with a text does not hinder reading the
// messages, which are whole.
func TestDamageOfMetaAlone(t *testing.T) {
	server := redistest.Miniredis(t)
	prefix := server.Prefix(t)
	client := server.Client(t)
	s := openAt(t, client, &redisstore.Options{Prefix: prefix})
	mustAppend(t, s, "s", "1")
	if _, err := s.Update(t.Context(), "s", func(m *session.Meta) error { m.Title = "x"; return nil }); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(t.Context(), keyOf(t, server, prefix, "meta"), "something else", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Info(t.Context(), "s"); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("Info = %v, want ErrCorrupt", err)
	}
	if got := texts(t, s, "s"); len(got) != 1 {
		t.Errorf("history = %q, want the one message", got)
	}
}

// keyOf returns the key of the one session of a prefix that has an ending.
func keyOf(t *testing.T, server *redistest.Server, prefix, ending string) string {
	t.Helper()
	for _, k := range server.Keys(t, prefix) {
		if strings.HasSuffix(k, "}:"+ending) {
			return k
		}
	}
	t.Fatalf("no key %s", ending)
	return ""
}

func checkDamaged(t *testing.T, s *redisstore.Store) {
	t.Helper()
	ctx := t.Context()
	check := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%s = %v, want ErrCorrupt", call, err)
		}
	}
	messages, err := s.Load(ctx, "s")
	if check("Load", err); len(messages) > 0 {
		t.Errorf("Load returned %d messages with an error", len(messages))
	}
	_, err = s.Read(ctx, "s", &session.ReadOptions{Last: 1})
	check("Read", err)
	_, err = s.Info(ctx, "s")
	check("Info", err)
	_, err = s.Append(ctx, "s", []session.Message{session.UserText("4")}, nil)
	check("Append", err)
	_, err = s.Update(ctx, "s", func(m *session.Meta) error { m.Title = "y"; return nil })
	check("Update", err)
	_, err = s.Truncate(ctx, "s", 1, nil)
	check("Truncate", err)
}
