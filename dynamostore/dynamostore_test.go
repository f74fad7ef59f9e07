package dynamostore_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/dynamostore"
	"github.com/holdfast-go/session/internal/dynamotest"
	"github.com/holdfast-go/session/storetest"
)

// createTable is dynamostore.CreateTable with defaults.
func createTable(ctx context.Context, client *dynamodb.Client, table string) error {
	return dynamostore.CreateTable(ctx, client, table, nil)
}

// tables opens stores in tables of a server, each through a client of its own,
// and remembers which table a store is in, for its peers.
type tables struct {
	server *dynamotest.Server
	opts   dynamostore.Options
	wrap   []func(http.RoundTripper) http.RoundTripper
	m      sync.Map
}

// open opens a store in a new table.
func (f *tables) open(tb testing.TB) session.Store {
	tb.Helper()
	return f.in(tb, f.server.Table(tb, createTable))
}

func (f *tables) peer(tb testing.TB, s session.Store) session.Store {
	tb.Helper()
	table, _ := f.m.Load(s)
	return f.in(tb, table.(string))
}

func (f *tables) in(tb testing.TB, table string) *dynamostore.Store {
	tb.Helper()
	s, err := dynamostore.New(f.server.Client(f.wrap...), table, &f.opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	f.m.Store(session.Store(s), table)
	return s
}

// With options that TestDriver does not have, which runs the suite with the
// defaults on all servers.
func TestStore(t *testing.T) {
	t.Run("Server", func(t *testing.T) {
		clock := storetest.NewClock()
		f := &tables{server: dynamotest.Start(t), opts: dynamostore.Options{TTL: time.Hour, Clock: clock.Now, KeyPrefix: "tenant", Uncompressed: true}}
		storetest.Run(t, f.open, &storetest.Options{Peer: f.peer, TTL: time.Hour, Advance: clock.Advance})
	})
}

func TestDriver(t *testing.T) {
	dynamotest.Each(t, func(t *testing.T, s *dynamotest.Server) {
		var table string // of the last driver: one is tested after the other
		open := func(tb testing.TB) session.Driver {
			d, err := dynamostore.NewDriver(s.Client(), table, nil)
			if err != nil {
				tb.Fatal(err)
			}
			return d
		}
		storetest.RunDriver(t, func(tb testing.TB) session.Driver {
			table = s.Table(tb, createTable)
			return open(tb)
		}, &storetest.DriverOptions{Peer: func(tb testing.TB, _ session.Driver) session.Driver { return open(tb) }})
	})
}

// check ends the test if a call failed that had no reason to.
func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// texts returns the texts of a session's messages.
func texts(tb testing.TB, s session.Store, id string) []string {
	tb.Helper()
	messages, err := s.Load(tb.Context(), id)
	check(tb, err)
	return textsOf(messages)
}

func textsOf(messages []session.Message) []string {
	all := make([]string, len(messages))
	for i, m := range messages {
		all[i] = m.Text()
	}
	return all
}

func user(texts ...string) []session.Message {
	var messages []session.Message
	for _, t := range texts {
		messages = append(messages, session.UserText(t))
	}
	return messages
}

func add(tb testing.TB, s session.Log, id string, texts ...string) {
	tb.Helper()
	_, err := s.Append(tb.Context(), id, user(texts...), nil)
	check(tb, err)
}

// ids returns the IDs that a list yields.
func ids(tb testing.TB, s session.Catalog, opts *session.ListOptions) []string {
	tb.Helper()
	all := []string{}
	for info, err := range s.List(tb.Context(), opts) {
		check(tb, err)
		all = append(all, info.ID)
	}
	return all
}

func TestOptions(t *testing.T) {
	client := dynamotest.Minidyn().Client()
	for name, opts := range map[string]*dynamostore.Options{
		"TTL":            {TTL: -1},
		"MaxBatchBytes":  {MaxBatchBytes: -1},
		"RequestTimeout": {RequestTimeout: -1},
		"RetryTime":      {RetryTime: -1},
		"Colon":          {KeyPrefix: "a:b"},
		"NUL":            {KeyPrefix: "a\x00"},
		"UTF8":           {KeyPrefix: "\xff"},
	} {
		if _, err := dynamostore.New(client, "t", opts); !errors.Is(err, session.ErrInvalidOption) {
			t.Errorf("New with a bad %s = %v, want ErrInvalidOption", name, err)
		}
	}
	if _, err := dynamostore.New(nil, "t", nil); !errors.Is(err, session.ErrInvalidOption) {
		t.Errorf("New without a client = %v, want ErrInvalidOption", err)
	}
	if _, err := dynamostore.New(client, "", nil); !errors.Is(err, session.ErrInvalidOption) {
		t.Errorf("New without a table = %v, want ErrInvalidOption", err)
	}
}
