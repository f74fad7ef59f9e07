// Package redisstore keeps sessions in Redis, on a single server, behind
// Sentinel, or in a cluster, through github.com/redis/go-redis/v9.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redisstore.New(client, nil)
//
// It needs Redis 6.2 or newer. Any number of processes may share one database;
// Options.Prefix tells applications apart.
//
// # Durability
//
// What a returned write survives is the server's configuration. With
// appendonly yes and appendfsync always it survives power loss, with everysec,
// Redis's default for appendonly, all but the last second. Replication is
// asynchronous: a failover that nobody asked for may lose the last writes. The
// store never shows half a write, and a lost one never turns into damage.
//
// # Memory
//
// Set maxmemory-policy to noeviction. A server that is full then refuses
// writes, ErrFull, and reads go on. With another policy it may evict a part of
// a session, which is ErrCorrupt from then on, never a shorter history, until
// the keys that the error names are removed by hand. A session of which all is
// evicted is absent.
//
// # Access
//
// A user needs the commands GET, MGET, SET, LLEN, LPOS, LRANGE, LTRIM, RPUSH,
// UNLINK, EXISTS, PEXPIRE, PERSIST, ZADD, ZREM, ZSCORE, ZRANDMEMBER,
// ZREVRANGEBYSCORE, EVAL, EVALSHA, MULTI, EXEC and PING, and the keys ~prefix*.
package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
)

// Options are the options of New. nil and zero values are defaults for
// production.
type Options struct {
	// Prefix begins the name of every key. It must not hold braces. Empty:
	// "session:".
	Prefix string
	// TTL is how long after its last write a session expires. 0: never. Redis
	// frees the memory of an expired session a minute later by itself.
	TTL time.Duration
	// Clock tells the time. nil: time.Now.
	Clock func() time.Time
	// MaxBatchBytes is how much the messages of one write may take, encoded;
	// more is ErrTooLarge. 0: 256 MiB, half of what Redis takes in one value.
	// A write is one command: while it runs, the server does nothing else, for
	// about a millisecond a megabyte.
	MaxBatchBytes int
	// IndexEvery is how often a session that is written all the time is moved
	// to the front of the lists' index, which is a second round trip. Lists are
	// in order all the same. All processes on one prefix must have the same. 0:
	// a minute. Negative: with every write.
	IndexEvery time.Duration
}

// Store is a session.Backend in Redis.
type Store struct{ *session.DriverBackend }

var _ session.Backend = (*Store)(nil)

// New returns a store. It does not speak to the server. The client stays the
// caller's: Close does not close it.
// With ContextTimeoutEnabled in the client's options, as OpenURL has it, a call
// to a server that does not answer ends with its context.
func New(client redis.UniversalClient, opts *Options) (*Store, error) {
	s, err := newStore(client, opts, nil)
	if err != nil {
		return nil, &session.Error{Op: "open", Err: err}
	}
	return s, nil
}

func newStore(client redis.UniversalClient, opts *Options, closeClient func() error) (*Store, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, fmt.Errorf("%w: no client", session.ErrInvalidOption)
	}
	d := newDriver(client, o, closeClient)
	return &Store{session.NewBackend(d, &session.BackendOptions{TTL: o.TTL, Clock: o.Clock, MaxBatchBytes: o.MaxBatchBytes})}, nil
}

// most is how much a write may hold: Redis takes values of up to 512 MiB and
// commands of up to 1,048,576 words.
const (
	mostBytes    = 256 << 20
	mostMessages = 1_000_000
)

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	if d.TTL < 0 || d.MaxBatchBytes < 0 {
		return d, fmt.Errorf("%w: a negative option", session.ErrInvalidOption)
	}
	if strings.ContainsAny(d.Prefix, "{}") {
		return d, fmt.Errorf("%w: Prefix with braces", session.ErrInvalidOption)
	}
	if d.Prefix == "" {
		d.Prefix = "session:"
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.IndexEvery == 0 {
		d.IndexEvery = time.Minute
	}
	d.IndexEvery = max(d.IndexEvery, 0)
	return d, nil
}

// OpenURL opens the stores of "redis://user:password@host:port/db",
// "rediss://" (TLS) and "redis+cluster://host:port", for session.Openers. The
// URL's parameters are those of go-redis (addr adds nodes of a cluster), and
// prefix, ttl and index_every (durations, "24h") and max_batch_bytes. Others
// are ErrInvalidOption. Close closes the client.
func OpenURL(ctx context.Context, rawURL string) (session.Backend, error) {
	s, err := openURL(ctx, rawURL)
	if err != nil {
		return nil, &session.Error{Op: "open", Err: err}
	}
	return s, nil
}

func openURL(ctx context.Context, rawURL string) (*Store, error) {
	client, opts, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	s, err := newStore(client, opts, client.Close)
	if err != nil {
		client.Close()
		return nil, err
	}
	if err := client.Ping(ctx).Err(); err != nil {
		s.Close()
		return nil, explain(ctx, err)
	}
	return s, nil
}
