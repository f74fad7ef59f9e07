package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
)

// Errors that are no fault of a call's. The error that wraps one also wraps
// go-redis's.
var (
	// ErrAccess: the user or the password is wrong, or the user may not do
	// what the store needs.
	ErrAccess = errors.New("redisstore: access denied; check the user, the password and its permissions")
	// ErrFull: the server has reached maxmemory. Nothing was written.
	ErrFull = errors.New("redisstore: the server's memory is full")
	// ErrUnavailable: no server can be reached that takes the call: the
	// connection failed, the cluster is down, the server is loading, or it is a
	// replica that takes no writes. Trying again may help.
	ErrUnavailable = errors.New("redisstore: the server is unavailable")
)

// replyCodes are the first words of error replies, which are Redis's error
// codes.
var replyCodes = []struct {
	code string
	err  error
}{
	{"NOAUTH", ErrAccess}, {"WRONGPASS", ErrAccess}, {"NOPERM", ErrAccess},
	{"OOM", ErrFull},
	{"READONLY", ErrUnavailable}, {"CLUSTERDOWN", ErrUnavailable}, {"MASTERDOWN", ErrUnavailable},
	{"LOADING", ErrUnavailable}, {"BUSY", ErrUnavailable}, {"TRYAGAIN", ErrUnavailable},
	{"MISCONF", ErrUnavailable}, {"NOREPLICAS", ErrUnavailable},
	{"WRONGTYPE", session.ErrCorrupt},
}

// explain adds to an error of go-redis what it means.
func explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if c := contextErr(ctx); c != nil {
		return fmt.Errorf("redisstore: %w: %w", c, err)
	}
	for _, r := range replyCodes {
		if redis.HasErrorPrefix(err, r.code) {
			return fmt.Errorf("%w: %w", r.err, err)
		}
	}
	var network net.Error
	if errors.As(err, &network) || errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("redisstore: %w", err)
}

// contextErr is the context's error. A connection's deadline is the context's
// own, and may have passed a moment before.
func contextErr(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < 10*time.Millisecond {
		return context.DeadlineExceeded
	}
	return nil
}

// explainOf is explain for a session, whose keys may hold something else.
func (d *driver) explainOf(ctx context.Context, id string, err error) error {
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return d.otherType(id)
	}
	var network net.Error
	if c, ok := d.client.(*redis.ClusterClient); ok && errors.As(err, &network) {
		c.ReloadState(ctx) // a node may have failed, and another taken its place
	}
	return explain(ctx, err)
}

func (d *driver) otherType(id string) error {
	return fmt.Errorf("%w: key %q, %q or %q holds something that is not this store's",
		session.ErrCorrupt, d.headKey(id), d.messagesKey(id), d.metaKey(id))
}

func newerFormat(key string) error {
	return fmt.Errorf("%w: key %q", session.ErrNewerFormat, key)
}
