package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// once switches the SDK's own retries off: whether a write may be repeated, and
// what a conflict means then, only the caller can tell.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = 2 * time.Second
)

// patience is how long one request is tried again.
type patience struct {
	limit time.Duration
	since time.Time // the first try, or the last that got on
	tries int
}

func (d *driver) patience() *patience {
	return &patience{limit: d.opts.RetryTime, since: time.Now()}
}

// progress says that the last try got on.
func (p *patience) progress() { p.since, p.tries = time.Now(), 0 }

// wait waits before another try, longer each time. It reports false if there
// is to be none.
func (p *patience) wait(ctx context.Context) bool {
	pause := rand.N(min(minBackoff<<min(p.tries, 16), maxBackoff)) + time.Millisecond
	p.tries++
	if time.Since(p.since)+pause > p.limit {
		return false
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt makes one try of a request, within its time.
func (d *driver) attempt(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.opts.RequestTimeout)
	defer cancel()
	return call(ctx)
}

// retry makes a request that may be repeated, until it is answered or refused.
func (d *driver) retry(ctx context.Context, call func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for p := d.patience(); ; {
		err := d.attempt(ctx, call)
		if err == nil {
			return nil
		}
		if classify(err) == failRefused || !p.wait(ctx) {
			return d.failed(ctx, err)
		}
	}
}

// failed makes the error of a request the caller's.
func (d *driver) failed(ctx context.Context, err error) error {
	if c := ctx.Err(); c != nil {
		return fmt.Errorf("dynamostore: %w: %w", c, d.explain(ctx, err))
	}
	if errors.Is(err, context.DeadlineExceeded) { // one of attempt's, not the caller's
		return fmt.Errorf("dynamostore: no answer within %v: %v", d.opts.RequestTimeout, err)
	}
	return d.explain(ctx, err)
}
