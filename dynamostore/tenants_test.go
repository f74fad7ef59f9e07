package dynamostore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/dynamostore"
	"github.com/holdfast-go/session/internal/dynamotest"
	"github.com/holdfast-go/session/storetest"
)

// Users and sessions whose names hold what separates the parts of keys.
var confusable = [][2]string{
	{"a:b", "c"}, {"a", "b:c"}, {"a:", "b:c"}, {"a", "b"}, {"a", "b#c"}, {"a#b", "c"},
	{"u_1", "s"}, {"u%1", "s"}, {"user1", "s"}, {"user10", "s"},
	{"1a", "b"}, {"p1a", "b"}, // which with or without a store's prefix might be a and b
}

func TestConfusableNames(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		table := s.Table(t, createTable)
		var stores []*dynamostore.Store
		for _, prefix := range []string{"", "p", "p1", "p2"} {
			f := &tables{server: s, opts: dynamostore.Options{KeyPrefix: prefix}}
			stores = append(stores, f.in(t, table))
		}
		for n, store := range stores {
			for _, c := range confusable {
				add(t, store, session.JoinID(c[0], c[1]), fmt.Sprint(n, c))
			}
		}
		for n, store := range stores {
			for _, c := range confusable {
				id := session.JoinID(c[0], c[1])
				if got, want := texts(t, store, id), []string{fmt.Sprint(n, c)}; !slices.Equal(got, want) {
					t.Errorf("store %d: Load(%q) = %q, want %q", n, id, got, want)
				}
			}
			for _, user := range []string{"user1", "u_1", "u%1"} {
				folder := session.JoinID(user, "")
				if got, want := ids(t, store, &session.ListOptions{Prefix: folder}), []string{session.JoinID(user, "s")}; !slices.Equal(got, want) {
					t.Errorf("store %d: List(%q) = %q, want %q", n, folder, got, want)
				}
			}
			if got := ids(t, store, nil); len(got) != len(confusable) {
				t.Errorf("store %d: List = %q, want %d sessions", n, got, len(confusable))
			}
		}
		check(t, stores[1].Delete(t.Context(), session.JoinID("a", "b"), nil))
		for n, store := range stores {
			for _, c := range confusable {
				want := 1
				if n == 1 && c == [2]string{"a", "b"} {
					want = 0
				}
				if got := texts(t, store, session.JoinID(c[0], c[1])); len(got) != want {
					t.Errorf("store %d after a Delete in store 1: %q has %d messages, want %d", n, c, len(got), want)
				}
			}
		}
	})
}

// A policy can keep a tenant to its partition keys, of the table and of the
// indexes.
func TestAllPartitionKeysHaveThePrefix(t *testing.T) {
	f := &tables{server: dynamotest.Minidyn(), opts: dynamostore.Options{KeyPrefix: "tenant"}}
	table := f.server.Table(t, createTable)
	store := f.in(t, table)
	for _, id := range []string{"plain", "user/one", "a:b", "tenant:x"} {
		add(t, store, id, "x")
		items := itemsOf(t, f.server.Client(), table, "tenant:"+id)
		if len(items) != 2 {
			t.Errorf("session %q has %d items under the tenant's prefix, want 2", id, len(items))
		}
		for _, i := range items {
			for _, name := range []string{"pk", "ap", "fp"} {
				if v, ok := i[name].(*types.AttributeValueMemberS); ok && (len(v.Value) < 7 || v.Value[:7] != "tenant:") {
					t.Errorf("session %q: %s = %q, want it to begin with the tenant's prefix", id, name, v.Value)
				}
			}
		}
	}
}

// Sessions that have expired don't show, although DynamoDB deletes their items
// days later, and none of their messages comes back with a new session.
func TestExpiredItemsThatAreStillThere(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		clock := storetest.NewClock()
		f := &tables{server: s, opts: dynamostore.Options{TTL: time.Hour, Clock: clock.Now}}
		table := s.Table(t, createTable)
		store := f.in(t, table)
		add(t, store, "s1", "old", "older")
		clock.Advance(time.Hour - time.Second)
		add(t, store, "s2", "young")
		clock.Advance(time.Second)
		if items := itemsOf(t, s.Client(), table, ":s1"); len(items) == 0 {
			t.Fatal("the items are gone, and the test shows nothing")
		}
		for _, store := range []*dynamostore.Store{store, f.in(t, table)} {
			if got := texts(t, store, "s1"); len(got) > 0 {
				t.Errorf("Load of an expired session = %q, want nothing", got)
			}
			if got := ids(t, store, nil); !slices.Equal(got, []string{"s2"}) {
				t.Errorf("List = %q, want s2 alone", got)
			}
		}
		add(t, store, "s1", "new")
		if got := texts(t, f.in(t, table), "s1"); !slices.Equal(got, []string{"new"}) {
			t.Errorf("Load of a session begun anew = %q, want the new message", got)
		}
		clock.Advance(time.Hour - time.Second)
		if got := texts(t, store, "s2"); len(got) > 0 {
			t.Errorf("Load of s2 = %q, want nothing: it has expired", got)
		}
	})
}

// A session that is written again and again for longer than its TTL loses no
// item to DynamoDB: each has a ttl that is later than the session's end.
func TestLiveSessionsKeepAllItems(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		clock := storetest.NewClock()
		f := &tables{server: s, opts: dynamostore.Options{TTL: time.Hour, Clock: clock.Now}}
		table := s.Table(t, createTable)
		store := f.in(t, table)
		_, err := store.Append(t.Context(), "s", batchLines(6), nil)
		check(t, err)
		_, err = store.Update(t.Context(), "s", func(m *session.Meta) error { m.Summary = string(make([]byte, 4<<10)); return nil })
		check(t, err)
		for n := range 60 {
			clock.Advance(47 * time.Minute)
			if n%7 == 0 {
				store = f.in(t, table) // another process
			}
			add(t, store, "s", fmt.Sprint(n))
			info, err := store.Info(t.Context(), "s")
			check(t, err)
			for _, i := range itemsOf(t, s.Client(), table, ":s") {
				ttl, ok := i["ttl"].(*types.AttributeValueMemberN)
				if !ok {
					t.Fatalf("after write %d the item %v has no ttl", n, i["sk"])
				}
				var at int64
				_, err := fmt.Sscan(ttl.Value, &at)
				check(t, err)
				if at <= info.Expires.Unix() {
					t.Fatalf("after write %d the item %v may be deleted at %v, and the session lives until %v", n, i["sk"], time.Unix(at, 0).UTC(), info.Expires)
				}
			}
		}
		if got := texts(t, store, "s"); len(got) != 66 {
			t.Errorf("%d messages, want 66", len(got))
		}
	})
}
