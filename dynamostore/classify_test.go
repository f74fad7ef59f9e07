package dynamostore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// broken is a transport that never has a response.
type broken struct{ err error }

func (b broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.err }

// ask makes a request that is answered so, and returns the error.
func ask(t *testing.T, status int, contentType, body string) error {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer s.Close()
	return get(t.Context(), dynamodb.Options{BaseEndpoint: &s.URL})
}

// get makes a request by a client with options, and keys if they have none.
func get(ctx context.Context, o dynamodb.Options) error {
	if o.Credentials == nil {
		o.Credentials = credentials.NewStaticCredentialsProvider("key", "secret", "token")
	}
	if o.Region == "" {
		o.Region = "r"
	} else if o.Region == "none" {
		o.Region = ""
	}
	_, err := dynamodb.New(o).GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String("t"), Key: item{attrPK: str("p"), attrSK: str("s")},
	}, once)
	return err
}

func TestClassify(t *testing.T) {
	const awsJSON = "application/x-amz-json-1.0"
	answer := func(status int, code string) error {
		return ask(t, status, awsJSON, `{"__type":"com.amazonaws.dynamodb.v20120810#`+code+`","message":"m"}`)
	}
	lost := func(err error) error {
		return get(t.Context(), dynamodb.Options{BaseEndpoint: aws.String("http://127.0.0.1"), HTTPClient: &http.Client{Transport: broken{err}}})
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, test := range []struct {
		name string
		err  error
		want failure
	}{
		{"throughput", answer(400, "ProvisionedThroughputExceededException"), failThrottled},
		{"throttling", answer(400, "ThrottlingException"), failThrottled},
		{"account limit", answer(400, "RequestLimitExceeded"), failThrottled},
		{"transaction in progress", answer(400, "TransactionInProgressException"), failThrottled},
		{"transaction conflict", answer(400, "TransactionConflictException"), failThrottled},
		{"too many requests", ask(t, 429, "text/html", "<html>"), failThrottled},
		{"validation", answer(400, "ValidationException"), failRefused},
		{"condition", answer(400, "ConditionalCheckFailedException"), failRefused},
		{"no table", answer(400, "ResourceNotFoundException"), failRefused},
		{"denied", answer(400, "AccessDeniedException"), failRefused},
		{"expired", answer(400, "ExpiredTokenException"), failRefused},
		{"unheard of", answer(400, "BrandNewException"), failRefused},
		{"a proxy's 403", ask(t, 403, "text/html", "<html>"), failRefused},
		{"a proxy's 408", ask(t, 408, "text/html", "<html>"), failUnknown},
		{"internal", answer(500, "InternalServerError"), failUnknown},
		{"unavailable", answer(503, "ServiceUnavailable"), failUnknown},
		{"a proxy's 502", ask(t, 502, "text/html", "<html>"), failUnknown},
		{"half a reply", ask(t, 200, awsJSON, `{"Item":{"pk"`), failUnknown},
		{"typed throttling", &types.ProvisionedThroughputExceededException{}, failThrottled},
		{"typed internal", &types.InternalServerError{}, failUnknown},
		{"typed validation", &smithy.GenericAPIError{Code: "ValidationException"}, failRefused},
		{"reset", lost(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), failUnknown},
		{"broken pipe", lost(&net.OpError{Op: "write", Err: syscall.EPIPE}), failUnknown},
		{"cut off", lost(errors.New("EOF")), failUnknown},
		{"connection refused", lost(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), failThrottled},
		{"no such host", lost(&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}), failRefused},
		{"name server busy", lost(&net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}), failThrottled},
		{"another's certificate", lost(&tls.CertificateVerificationError{Err: errors.New("no")}), failRefused},
		{"no TLS there", lost(tls.RecordHeaderError{Msg: "no"}), failRefused},
		{"no region", get(t.Context(), dynamodb.Options{Region: "none"}), failRefused},
		{"no URL", get(t.Context(), dynamodb.Options{BaseEndpoint: aws.String("127.0.0.1:8000")}), failRefused},
		{"no credentials", get(t.Context(), dynamodb.Options{Credentials: credentials.NewStaticCredentialsProvider("", "", "")}), failRefused},
		{"credentials unreachable", &smithy.OperationError{ServiceID: "DynamoDB", Err: fmt.Errorf("get identity: %w", &smithy.OperationError{ServiceID: "STS", Err: &net.OpError{Op: "read"}})}, failRefused},
		{"cancelled", get(done, dynamodb.Options{BaseEndpoint: aws.String("http://127.0.0.1:1")}), failUnknown},
		{"timed out", get(late, dynamodb.Options{BaseEndpoint: aws.String("http://127.0.0.1:1")}), failUnknown},
		{"anything else", errors.New("?"), failUnknown},
	} {
		if test.err == nil {
			t.Errorf("%s: no error", test.name)
		} else if got := classify(test.err); got != test.want {
			t.Errorf("%s: classify(%v) = %d, want %d", test.name, test.err, got, test.want)
		}
	}
}

func TestExplain(t *testing.T) {
	const awsJSON = "application/x-amz-json-1.0"
	endpoint := "http://key:secret@127.0.0.1:1"
	d := &driver{client: dynamodb.New(dynamodb.Options{Region: "eu-central-1", BaseEndpoint: &endpoint}), table: "sessions"}
	answer := func(code string) error {
		return ask(t, 400, awsJSON, `{"__type":"com.amazon.coral.service#`+code+`","message":"x-amz-security-token:TOKEN"}`)
	}
	for _, test := range []struct {
		name string
		err  error
		kind error
		says string
	}{
		{"no table", answer("ResourceNotFoundException"), ErrTable, "CreateTable"},
		{"denied", answer("AccessDeniedException"), ErrAccess, "policy"},
		{"expired", answer("ExpiredTokenException"), ErrAccess, "expired"},
		{"wrong secret", answer("InvalidSignatureException"), ErrAccess, "secret"},
		{"unknown key", answer("UnrecognizedClientException"), ErrAccess, "not accepted"},
		{"no signature", answer("MissingAuthenticationTokenException"), ErrAccess, "not accepted"},
		{"another service", answer("UnknownOperationException"), ErrAccess, "endpoint"},
		{"a web server", ask(t, 404, "text/html", "<html>"), ErrAccess, "404"},
		{"a web server's page", ask(t, 200, "text/html", "<html>"), ErrAccess, "200"},
		{"no region", get(t.Context(), dynamodb.Options{Region: "none"}), ErrAccess, "region"},
		{"no server", get(t.Context(), dynamodb.Options{BaseEndpoint: aws.String("http://127.0.0.1:1")}), ErrAccess, "reached"},
		{"no credentials", get(t.Context(), dynamodb.Options{Credentials: credentials.NewStaticCredentialsProvider("", "", "")}), ErrAccess, "AWS_ACCESS_KEY_ID"},
	} {
		err := d.explain(t.Context(), test.err)
		if !errors.Is(err, test.kind) || !errors.Is(err, test.err) {
			t.Errorf("%s: explain = %v, want one that wraps %v and the SDK's error", test.name, err, test.kind)
		}
		for _, want := range []string{test.says, `table "sessions" in region eu-central-1 at http://127.0.0.1:1`} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: explain = %q, want %q in it", test.name, err, want)
			}
		}
		for _, secret := range []string{"TOKEN", "key:secret"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: explain = %q, which shows a secret", test.name, err)
			}
		}
	}
	for _, plain := range []error{answer("ThrottlingException"), ask(t, 500, "text/html", "<html>"), errors.New("?")} {
		if err := d.explain(t.Context(), plain); err != plain {
			t.Errorf("explain(%v) = %v, want it as it is", plain, err)
		}
	}
	if err := d.explain(t.Context(), nil); err != nil {
		t.Errorf("explain(nil) = %v", err)
	}
}
