// Package redistest gives tests a Redis to run on, and makes it fail.
//
// [Each] runs a test on miniredis, which is part of the test program, and on a
// real server, which is the first of these that is there:
//
//   - the one at the address that the environment variable SESSION_TEST_REDIS
//     holds, such as 127.0.0.1:6379;
//   - a container that testcontainers starts, where a Docker engine answers and
//     has the image redis:7 or may pull it, or the image that
//     SESSION_TEST_REDIS_IMAGE names, which listens on port 6379;
//   - the program redis-server, if it is installed.
//
// A test that restarts, fills or locks its server has one of its own, by
// [StartProgram], and one on a cluster has that of [StartCluster], whose nodes
// are programs too, or are those whose addresses SESSION_TEST_REDIS_CLUSTER
// holds, separated by commas.
//
// [Faults] stands between a client and its servers.
package redistest

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session/internal/testserver"
)

// Server is a Redis that tests run on. Its methods may be called from any
// goroutine.
type Server struct {
	// Name says what it is, for a person.
	Name string
	// Addrs are its addresses, host:port, those of all nodes if it is a
	// cluster.
	Addrs []string
	// IsCluster says that it is a cluster.
	IsCluster bool
	// Mini is the server if it is miniredis, which keeps no limits of memory,
	// does not expire keys unless it is told to, and has Lua written in Go.
	// nil: it is a real one.
	Mini *miniredis.Miniredis

	password string
}

// Each runs a test twice, as Miniredis and as Server. The latter is skipped
// where there is no server.
func Each(t *testing.T, run func(t *testing.T, s *Server)) {
	t.Helper()
	t.Run("Miniredis", func(t *testing.T) { run(t, Miniredis(t)) })
	t.Run("Server", func(t *testing.T) { run(t, Start(t)) })
}

// Miniredis returns a server that is part of the test program and ends with the
// test.
func Miniredis(tb testing.TB) *Server {
	tb.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Close)
	return &Server{Name: "miniredis", Addrs: []string{m.Addr()}, Mini: m}
}

// Start returns the real server that is there, and skips the test if there is
// none. A server that is there and can't be used fails the test. It ends with
// the test, but for the one in the environment, where others may be at work too:
// use a [Server.Prefix].
func Start(tb testing.TB) *Server {
	tb.Helper()
	if address := os.Getenv("SESSION_TEST_REDIS"); address != "" {
		return use(tb, &Server{Name: "the server at " + address, Addrs: []string{address}})
	}
	address, noContainer := testserver.Container(tb, "redis")
	if noContainer == nil {
		return use(tb, &Server{Name: "a container of " + cmp.Or(os.Getenv("SESSION_TEST_REDIS_IMAGE"), "redis:7"), Addrs: []string{address}})
	}
	if os.Getenv("SESSION_TEST_REDIS_IMAGE") != "" {
		tb.Fatal(noContainer) // it was asked for
	}
	if noProgram := findProgram(); noProgram != nil {
		tb.Skipf("no Redis server: SESSION_TEST_REDIS is not set; %v; %v", noContainer, noProgram)
	}
	return StartProgram(tb, nil).Server
}

// use makes sure that a server answers, and prints what it is.
func use(tb testing.TB, s *Server) *Server {
	tb.Helper()
	info, err := s.Client(tb).Info(tb.Context(), "server").Result()
	if err != nil {
		tb.Fatalf("%s: %v", s.Name, err)
	}
	for line := range strings.Lines(info) {
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			s.Name += ", Redis " + strings.TrimSpace(version)
		}
	}
	tb.Logf("Redis server: %s", s.Name)
	return s
}

// Client returns a client of the server, which is closed with the test. change
// may change its options. Its own retries are on, as they are by default.
func (s *Server) Client(tb testing.TB, change ...func(*redis.UniversalOptions)) redis.UniversalClient {
	tb.Helper()
	o := &redis.UniversalOptions{Addrs: s.Addrs, IsClusterMode: s.IsCluster, Password: s.password}
	for _, c := range change {
		c(o)
	}
	client := redis.NewUniversalClient(o)
	tb.Cleanup(func() { client.Close() })
	return client
}

// Through returns a change of a client's options by which it connects through
// faults.
func Through(f *Faults) func(*redis.UniversalOptions) {
	return func(o *redis.UniversalOptions) { o.Dialer = f.Dial }
}

// Prefix returns a prefix for keys that nobody else has. Keys that it is a part
// of are removed at the end of the test.
func (s *Server) Prefix(tb testing.TB) string {
	tb.Helper()
	prefix := "test-" + strings.ToLower(rand.Text())
	client := s.Client(tb)
	tb.Cleanup(func() {
		// The test's context is done by now. A server that does not answer any
		// more was the test's own.
		_ = eachNode(context.Background(), client, func(ctx context.Context, node redis.UniversalClient) error {
			return removeKeys(ctx, node, "*"+prefix+"*")
		})
	})
	return prefix
}

// Keys returns the keys that prefix is a part of, in no order.
func (s *Server) Keys(tb testing.TB, prefix string) []string {
	tb.Helper()
	var keys []string
	client := s.Client(tb)
	err := eachNode(tb.Context(), client, func(ctx context.Context, node redis.UniversalClient) error {
		scan := node.Scan(ctx, 0, "*"+prefix+"*", 1000).Iterator()
		for scan.Next(ctx) {
			keys = append(keys, scan.Val())
		}
		return scan.Err()
	})
	if err != nil {
		tb.Fatalf("scanning the keys of %s: %v", s.Name, err)
	}
	return keys
}

// eachNode calls f with one master after the other, or with the one server.
func eachNode(ctx context.Context, client redis.UniversalClient, f func(context.Context, redis.UniversalClient) error) error {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return f(ctx, client)
	}
	turn := make(chan struct{}, 1)
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		turn <- struct{}{} // ForEachMaster calls at the same time
		defer func() { <-turn }()
		return f(ctx, node)
	})
}

func removeKeys(ctx context.Context, node redis.UniversalClient, pattern string) error {
	scan := node.Scan(ctx, 0, pattern, 1000).Iterator()
	for scan.Next(ctx) {
		if err := node.Unlink(ctx, scan.Val()).Err(); err != nil {
			return err
		}
	}
	return scan.Err()
}
