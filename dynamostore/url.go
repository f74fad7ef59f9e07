package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/session"
)

// OpenURL opens "dynamodb://TABLE", with the SDK's default configuration:
// credentials and region come from the environment, the shared files or the
// machine's role. Parameters are
//
//	region           of the table
//	endpoint         URL of a server other than the region's, such as
//	                 http://127.0.0.1:8000
//	prefix           Options.KeyPrefix
//	ttl              Options.TTL, a duration ("24h")
//	index_every      Options.IndexEvery, a duration
//	max_batch_bytes  Options.MaxBatchBytes
//	create           true: CreateTable first
//
// Others are ErrInvalidOption. It does no I/O beyond that configuration, unless
// create is set. For an endpoint on this machine it needs no region, and asks
// at once for credentials (any will do), else ErrAccess.
func OpenURL(ctx context.Context, rawURL string) (session.Backend, error) {
	s, err := openURL(ctx, rawURL)
	switch {
	case err == nil:
		return s, nil
	case errors.As(err, new(*session.Error)):
		return nil, err // and not a nil *Store in an interface
	}
	return nil, &session.Error{Op: "open", Err: err}
}

// target is a URL taken apart.
type target struct {
	table, region, endpoint string
	create                  bool
	opts                    Options
}

func openURL(ctx context.Context, rawURL string) (*Store, error) {
	t, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	client, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	if t.create {
		if err := CreateTable(ctx, client, t.table, nil); err != nil {
			return nil, err
		}
	}
	return New(client, t.table, &t.opts)
}

func parseURL(rawURL string) (t target, err error) {
	u, err := session.ParseStoreURL(rawURL)
	if err != nil {
		return t, err
	}
	if !strings.EqualFold(u.Scheme, "dynamodb") {
		return t, fmt.Errorf("%w: not a dynamodb: URL", session.ErrInvalidOption)
	}
	t.table = strings.TrimSuffix(strings.TrimPrefix(u.Name, "//"), "/")
	if t.table == "" || strings.ContainsAny(t.table, "/@%") {
		return t, fmt.Errorf("%w: a dynamodb: URL is dynamodb://TABLE with parameters", session.ErrInvalidOption)
	}
	t.region, t.endpoint, t.opts.KeyPrefix = u.Take("region"), u.Take("endpoint"), u.Take("prefix")
	if t.opts.TTL, err = u.Duration("ttl"); err != nil {
		return t, err
	}
	if t.opts.IndexEvery, err = u.Duration("index_every"); err != nil {
		return t, err
	}
	if v := u.Take("max_batch_bytes"); v != "" {
		if t.opts.MaxBatchBytes, err = strconv.Atoi(v); err != nil || t.opts.MaxBatchBytes < 0 {
			return t, fmt.Errorf("%w: max_batch_bytes is no number of bytes", session.ErrInvalidOption)
		}
	}
	if v := u.Take("create"); v != "" {
		if t.create, err = strconv.ParseBool(v); err != nil {
			return t, fmt.Errorf("%w: create is true or false", session.ErrInvalidOption)
		}
	}
	if t.endpoint != "" {
		if e, err := url.Parse(t.endpoint); err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" {
			return t, fmt.Errorf("%w: endpoint is no URL such as http://127.0.0.1:8000", session.ErrInvalidOption)
		}
	}
	if _, err := t.opts.withDefaults(); err != nil {
		return t, err
	}
	return t, u.Unused()
}

// connect makes the client.
func (t target) connect(ctx context.Context) (*dynamodb.Client, error) {
	local := isLocal(t.endpoint)
	var load []func(*config.LoadOptions) error
	if t.region != "" {
		load = append(load, config.WithRegion(t.region))
	}
	if local {
		load = append(load, config.WithDefaultRegion("us-east-1"),
			config.WithEC2IMDSClientEnableState(imds.ClientDisabled)) // the machine's role is not for a server on it
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("dynamostore: the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("%w: no region: add region=… to the URL or set AWS_REGION", session.ErrInvalidOption)
	}
	if local {
		if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
			return nil, &hint{ErrAccess, "the endpoint is on this machine, where any credentials will do, but there are none: set AWS_ACCESS_KEY_ID=local and AWS_SECRET_ACCESS_KEY=local", err}
		}
	}
	return dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		if t.endpoint != "" {
			o.BaseEndpoint = aws.String(t.endpoint)
		}
	}), nil
}

// isLocal reports whether an endpoint is on this machine.
func isLocal(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	if u.Hostname() == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback()
}

// redactURL returns scheme and host of a URL, without what may be secret.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "an endpoint that is no URL"
	}
	return u.Scheme + "://" + u.Host
}
