package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/holdfast-go/session"
)

func openStore(t *testing.T, client API, o *Options) *Store {
	t.Helper()
	s, err := New(client, "table", o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func appendText(t *testing.T, s *Store, text string) {
	t.Helper()
	if _, err := s.Append(t.Context(), "s", []session.Message{session.UserText(text)}, nil); err != nil {
		t.Fatal(err)
	}
}

// beforeFirst calls act before the first request of a kind.
func beforeFirst(f *fake, kind string, act func()) {
	f.before = func(_ context.Context, request string, apply func()) error {
		if request == kind {
			f.before = nil
			act()
		}
		apply()
		return nil
	}
}

// expire removes what the service would have removed by then.
func expire(f *fake, now time.Time) {
	for key, it := range f.items {
		if ttl := numOf(it, attrTTL); ttl != 0 && ttl < now.Unix() {
			delete(f.items, key)
		}
	}
}

func numOf(it item, name string) int64 {
	f := fields{item: it}
	return f.optNum(name)
}

// A process knows the tombstone of an early life, in which the session had many
// commits, and removes a later one, whose successor begins just then.
func TestDeleteLeavesTheNextLifeAlone(t *testing.T) {
	f := newFake()
	a, b := openStore(t, f, nil), openStore(t, f, nil)
	for i := range 30 {
		appendText(t, b, fmt.Sprint(i))
	}
	beforeFirst(f, "BatchWriteItem", func() { // between tombstone and clean-up
		if _, err := a.Info(t.Context(), "s"); !errors.Is(err, session.ErrNotFound) {
			t.Error(err)
		}
	})
	if err := b.Delete(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	expire(f, time.Now().Add(2*tombstoneFor))
	appendText(t, b, "second life")
	beforeFirst(f, "BatchWriteItem", func() { appendText(t, b, "third life") })
	if err := a.Delete(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := openStore(t, f, nil).Load(t.Context(), "s"); err != nil || len(got) != 1 {
		t.Errorf("Load = %d messages, %v, want that of the third life", len(got), err)
	}
}

// A Delete that is killed leaves a tombstone that stays until another one has
// removed the rest.
func TestTombstoneStaysUntilAllIsRemoved(t *testing.T) {
	f := newFake()
	s := openStore(t, f, &Options{RetryTime: time.Millisecond})
	for i := range 5 {
		appendText(t, s, fmt.Sprint(i))
	}
	killed := false
	f.before = func(_ context.Context, request string, apply func()) error {
		if killed = killed || request == "BatchWriteItem"; killed {
			return errServer
		}
		apply()
		return nil
	}
	if err := s.Delete(t.Context(), "s", nil); err == nil {
		t.Error("Delete that left something returned nil")
	}
	f.before = nil
	expire(f, time.Now().Add(2*tombstoneFor))
	if err := openStore(t, f, nil).Delete(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	if len(f.items) != 1 {
		t.Errorf("%d items are left, want the tombstone", len(f.items))
	}
	if expire(f, time.Now().Add(2*tombstoneFor)); len(f.items) != 0 {
		t.Error("the tombstone of a session of which nothing is left has no ttl")
	}
}

// A process that knows a session of many commits goes on with the one that
// begins under its ID when the service has removed the first.
func TestWarmAppendsInALaterLife(t *testing.T) {
	f := newFake()
	now := time.Now()
	s := openStore(t, f, &Options{TTL: time.Hour, Clock: func() time.Time { return now }})
	for i := range 20 {
		appendText(t, s, fmt.Sprint(i))
	}
	now = now.Add(100 * time.Hour)
	expire(f, now)
	appendText(t, s, "returns")
	f.before = func(_ context.Context, request string, apply func()) error {
		if request == "GetItem" {
			t.Error("a warm append reads the head")
		}
		apply()
		return nil
	}
	for i := range 3 {
		appendText(t, s, fmt.Sprint(i))
	}
}

// Setting ttl anew takes longer than a call has. The next ones get on with it.
func TestRearmGetsOn(t *testing.T) {
	f := newFake()
	now := time.Now()
	s := openStore(t, f, &Options{TTL: time.Hour, Clock: func() time.Time { return now }})
	for i := range 100 {
		appendText(t, s, fmt.Sprint(i))
	}
	now = now.Add(59 * time.Minute)
	appendText(t, s, "alive")
	now = now.Add(59 * time.Minute)
	total := 0
	for try := 0; ; try++ {
		now = now.Add(time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int32
		f.before = func(c context.Context, request string, apply func()) error {
			if request == "UpdateItem" && n.Add(1) > 40 {
				cancel()
			}
			if c.Err() != nil {
				return c.Err()
			}
			apply()
			return nil
		}
		_, err := s.Append(ctx, "s", []session.Message{session.UserText("x")}, nil)
		cancel()
		if total += int(n.Load()); err == nil {
			break
		}
		if try == 10 {
			t.Fatalf("after %d tries: %v", try, err)
		}
	}
	if total < 100 || total > 250 {
		t.Errorf("%d items were set anew, want about the 101 that there are", total)
	}
	now = now.Add(59 * time.Minute)
	expire(f, now.Add(24*time.Hour))
	if got, err := openStore(t, f, &Options{TTL: time.Hour, Clock: func() time.Time { return now }}).Load(t.Context(), "s"); err != nil || len(got) != 102 {
		t.Errorf("Load = %d messages, %v, want 102", len(got), err)
	}
}

// Something below the SDK, such as a proxy, sends the head again. That the
// second is refused does not make the first another's.
func TestHeadIsWrittenTwice(t *testing.T) {
	for _, oldItems := range []bool{false, true} {
		f := newFake()
		f.oldItems = oldItems
		s := openStore(t, f, nil)
		appendText(t, s, "first")
		f.before = func(_ context.Context, request string, apply func()) error {
			if apply(); request == "PutItem" {
				apply()
			}
			return nil
		}
		appendText(t, s, "second")
		f.before = nil
		if got, err := openStore(t, f, nil).Load(t.Context(), "s"); err != nil || len(got) != 2 {
			t.Errorf("Load = %d messages, %v, want 2", len(got), err)
		}
	}
}

// An index that is just changing shows a session at its old place and its new.
func TestListOfASessionThatStandsTwice(t *testing.T) {
	f := newFake()
	s := openStore(t, twice{f}, nil)
	appendText(t, s, "x")
	var ids []string
	for info, err := range s.List(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	if len(ids) != 1 {
		t.Errorf("List = %q, want s once", ids)
	}
}

// twice shows each entry of an index twice.
type twice struct{ *fake }

func (c twice) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := c.fake.Query(ctx, in, o...)
	if err == nil && in.IndexName != nil {
		out.Items = append(out.Items, out.Items...)
	}
	return out, err
}

// A list of few sessions does not cost a request for every few entries that it
// has to pass.
func TestListWithASmallLimit(t *testing.T) {
	f := newFake()
	f.pageSize = 1 << 20
	s := openStore(t, f, nil)
	for i := range 500 {
		id := fmt.Sprintf("u/%03d", i)
		if _, err := s.Append(t.Context(), id, []session.Message{session.UserText("x")}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, opts := range []session.ListOptions{{Limit: 1, Prefix: "u/"}, {Limit: 1, Prefix: "u/000"}} {
		requests, found := 0, 0
		f.before = func(_ context.Context, _ string, apply func()) error {
			requests++
			apply()
			return nil
		}
		for _, err := range s.List(t.Context(), &opts) {
			if err != nil {
				t.Fatal(err)
			}
			found++
		}
		f.before = nil
		if found != 1 || requests > 40 {
			t.Errorf("%+v: %d sessions by %d requests, want 1 by 40 at most", opts, found, requests)
		}
	}
}

// roundTrip is a server.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func openServer(t *testing.T, o *Options, serve roundTrip) *Store {
	return openStore(t, dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://db.invalid"), HTTPClient: &http.Client{Transport: serve},
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "token"),
	}), o)
}

func answer(r *http.Request, status int, date time.Time, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "Date": {date.UTC().Format(http.TimeFormat)}},
		Body:   io.NopCloser(strings.NewReader(body)),
	}
}

const badSignature = `{"__type":"com.amazon.coral.service#InvalidSignatureException","message":"signed with token"}`

// The machine's clock is wrong. The SDK learns that from the first answer.
func TestClockSkew(t *testing.T) {
	requests := 0
	s := openServer(t, nil, func(r *http.Request) (*http.Response, error) {
		if requests++; requests == 1 {
			return answer(r, 400, time.Now().Add(30*time.Minute), badSignature), nil
		}
		return answer(r, 200, time.Now().Add(30*time.Minute), "{}"), nil
	})
	if _, err := s.Load(t.Context(), "s"); err != nil || requests != 2 {
		t.Errorf("Load = %v after %d requests, want none after 2", err, requests)
	}
}

// What the service says of a signature is not for logs, even when the context
// has ended meanwhile.
func TestErrorsShowNoToken(t *testing.T) {
	for _, done := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := openServer(t, nil, func(r *http.Request) (*http.Response, error) {
			if done {
				cancel()
			}
			return answer(r, 400, time.Now(), badSignature), nil
		})
		_, err := s.Load(ctx, "s")
		if !errors.Is(err, ErrAccess) || strings.Contains(err.Error(), "token\"") || strings.Contains(err.Error(), "signed with") || errors.Is(err, context.Canceled) != done {
			t.Errorf("Load, context done: %v: %v", done, err)
		}
	}
}

// A server that does not answer is not the caller's deadline.
func TestRequestTimeout(t *testing.T) {
	s := openServer(t, &Options{RequestTimeout: 20 * time.Millisecond, RetryTime: 50 * time.Millisecond}, func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	if _, err := s.Load(t.Context(), "s"); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Load = %v, want an error that is not DeadlineExceeded", err)
	}
}
