package redisstore

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session"
)

// parseURL returns the client and the options that a URL names. Errors don't
// show the URL, which may hold a password.
func parseURL(rawURL string) (redis.UniversalClient, *Options, error) {
	scheme, rest, _ := strings.Cut(rawURL, ":")
	base, query, _ := strings.Cut(rest, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the query of the URL", session.ErrInvalidOption)
	}
	opts := &Options{}
	for name, set := range urlParams {
		values, given := params[name]
		if !given {
			continue
		}
		if len(values) != 1 || set(opts, values[0]) != nil {
			return nil, nil, fmt.Errorf("%w: URL parameter %q", session.ErrInvalidOption, name)
		}
		delete(params, name)
	}
	scheme, cluster := strings.CutSuffix(strings.ToLower(scheme), "+cluster")
	client, err := newClient(scheme+":"+base+"?"+params.Encode(), cluster)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: no URL of a Redis server, or an unknown parameter", session.ErrInvalidOption)
	}
	return client, opts, nil
}

func newClient(rawURL string, cluster bool) (redis.UniversalClient, error) {
	if cluster {
		o, err := redis.ParseClusterURL(rawURL)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled = true
		return redis.NewClusterClient(o), nil
	}
	o, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o.ContextTimeoutEnabled = true
	return redis.NewClient(o), nil
}

var urlParams = map[string]func(o *Options, value string) error{
	"prefix":          func(o *Options, v string) error { o.Prefix = v; return nil },
	"ttl":             func(o *Options, v string) (err error) { o.TTL, err = time.ParseDuration(v); return },
	"index_every":     func(o *Options, v string) (err error) { o.IndexEvery, err = time.ParseDuration(v); return },
	"max_batch_bytes": func(o *Options, v string) (err error) { o.MaxBatchBytes, err = strconv.Atoi(v); return },
}
