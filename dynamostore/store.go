package dynamostore

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/session"
)

// API is what a Store asks of DynamoDB. A *dynamodb.Client is one.
type API interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
}

var _ API = (*dynamodb.Client)(nil)

// Options are the options of New. nil and zero values are defaults for
// production. Stores that share a table and a KeyPrefix should have the same.
type Options struct {
	// KeyPrefix begins every partition key, with a colon behind it, so that
	// several stores share a table without seeing each other, and a policy
	// with dynamodb:LeadingKeys keeps a tenant to its own. At most 512 bytes
	// of valid UTF-8, without colon and NUL.
	KeyPrefix string
	// TTL is how long after its last write a session expires. 0: never.
	TTL time.Duration
	// Clock tells the time. nil: time.Now.
	Clock func() time.Time
	// MaxBatchBytes is how much the messages of one write may take, encoded;
	// more is ErrTooLarge. 0: what a Store holds, 256 MiB a message.
	MaxBatchBytes int
	// IndexEvery is how old a session's entry in the indexes may become before
	// a write refreshes it, which costs two write units an index. List is
	// exact all the same; it reads a little further. 0: a minute. Negative:
	// every write refreshes it. To lower it puts sessions that were written
	// before out of order, until they are written again.
	IndexEvery time.Duration
	// Uncompressed stores messages as they are and not by zstd, where that is
	// smaller. Both can be read whatever this says.
	Uncompressed bool
	// RequestTimeout bounds one try of one request. 0: 10 seconds.
	RequestTimeout time.Duration
	// RetryTime bounds how long a request that is throttled or unanswered is
	// tried again, if the context doesn't end it sooner. 0: 30 seconds.
	RetryTime time.Duration
}

// Store is a session.Backend in a DynamoDB table.
type Store struct {
	*session.DriverBackend
	driver *driver
}

var _ session.Backend = (*Store)(nil)

// New returns a Store in a table, which must exist (see [CreateTable]). It does
// no I/O: what is wrong with the table, the region or the credentials is told
// by the first call. The client remains the caller's; its own retries are
// switched off for the Store's requests.
func New(client API, table string, opts *Options) (*Store, error) {
	d, err := newDriver(client, table, opts)
	if err != nil {
		return nil, &session.Error{Op: "open", Err: err}
	}
	return &Store{session.NewBackend(d, &session.BackendOptions{
		TTL: d.opts.TTL, Clock: d.opts.Clock, MaxBatchBytes: d.opts.MaxBatchBytes,
	}), d}, nil
}

// Delete implements session.Catalog. The session is gone as soon as its head
// says so. An error that comes behind that says that some of its items could
// not be removed; Delete, called again without IfVersion, goes on with it.
func (s *Store) Delete(ctx context.Context, sessionID string, opts *session.WriteOptions) error {
	if err := s.DriverBackend.Delete(ctx, sessionID, opts); err != nil {
		return err
	}
	if err := s.driver.finishRemoval(ctx, sessionID); err != nil {
		return &session.Error{Op: "delete", SessionID: sessionID, Err: err}
	}
	return nil
}

// maxPrefixBytes leaves room in a partition key, which may be 2,048 bytes.
const maxPrefixBytes = 512

func (o *Options) withDefaults() (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	switch {
	case d.TTL < 0 || d.MaxBatchBytes < 0 || d.RequestTimeout < 0 || d.RetryTime < 0:
		return d, fmt.Errorf("%w: a negative option", session.ErrInvalidOption)
	case len(d.KeyPrefix) > maxPrefixBytes || !utf8.ValidString(d.KeyPrefix) || strings.ContainsAny(d.KeyPrefix, ":\x00"):
		return d, fmt.Errorf("%w: KeyPrefix %q", session.ErrInvalidOption, d.KeyPrefix)
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.IndexEvery == 0 {
		d.IndexEvery = time.Minute
	}
	if d.RequestTimeout == 0 {
		d.RequestTimeout = 10 * time.Second
	}
	if d.RetryTime == 0 {
		d.RetryTime = 30 * time.Second
	}
	return d, nil
}
