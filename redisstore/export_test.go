package redisstore

import (
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
)

// OpenDriver opens what a Store stores through.
func OpenDriver(client redis.UniversalClient, opts *Options) (session.Driver, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return newDriver(client, o, nil), nil
}
