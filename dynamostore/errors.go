package dynamostore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
)

// Errors that a person has to do something about. They are wrapped, with what
// to do and with the SDK's error.
var (
	// ErrTable: the table does not exist, or was made for something else.
	ErrTable = errors.New("dynamostore: no such table, or another's")
	// ErrAccess: DynamoDB is not where the region or the endpoint says, or
	// does not let the caller in.
	ErrAccess = errors.New("dynamostore: no access to DynamoDB")
)

// failure says what an error of a request means for the request.
type failure int

const (
	// failUnknown: the request may have been carried out, or may yet be.
	failUnknown failure = iota
	// failRefused: it was not carried out, nor would another try be.
	failRefused
	// failThrottled: it was not carried out, and another try may be.
	failThrottled
)

// classify says what the error of one try of a request means. Whatever is not
// known for certain is failUnknown.
func classify(err error) failure {
	if isCredentials(err) {
		return failRefused
	}
	status := statusOf(err)
	code := codeOf(err)
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	switch {
	case throttled, busyCodes[code], status == http.StatusTooManyRequests, accessCodes[code] != "" && isClockSkew(err):
		return failThrottled
	case status >= 500, status == http.StatusRequestTimeout, isServerFault(err):
		return failUnknown
	case status >= 400, code != "":
		return failRefused
	case status > 0:
		return failUnknown
	}
	return classifyUnanswered(err)
}

// isClockSkew reports whether the SDK puts an error of access down to the
// machine's clock, which it allows for from the next try on.
func isClockSkew(err error) bool {
	var again interface{ RetryableError() bool }
	return errors.As(err, &again) && again.RetryableError()
}

// busyCodes are of requests that met another, which hold for retries as
// throttling does and are not among the SDK's codes.
var busyCodes = map[string]bool{
	"TransactionConflictException":     true,
	"ReplicatedWriteConflictException": true,
}

// classifyUnanswered is classify for errors that no server sent.
func classifyUnanswered(err error) failure {
	var (
		name   *net.DNSError
		dial   *net.OpError
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &name) && name.IsNotFound, errors.As(err, &cert), errors.As(err, &record), neverSent(err):
		return failRefused
	case errors.As(err, &dial) && dial.Op == "dial":
		return failThrottled
	}
	return failUnknown
}

// neverSent reports whether the SDK gave up before it sent a request, such as
// for want of a region. Once it has tried to, it wraps every error in a
// ResponseError, be there a response or not.
func neverSent(err error) bool {
	var (
		operation *smithy.OperationError
		response  *awshttp.ResponseError
		decoding  *smithy.DeserializationError
		cancelled *smithy.CanceledError
		network   net.Error // context.DeadlineExceeded is one too
	)
	return errors.As(err, &operation) && operation.ServiceID == dynamodb.ServiceID &&
		!errors.As(err, &response) && !errors.As(err, &decoding) && !errors.As(err, &cancelled) &&
		!errors.As(err, &network) && !errors.Is(err, context.Canceled)
}

// isCredentials reports whether no credentials could be had, in which case
// nothing is sent: there are none, or a request to another service failed that
// was to bring some.
func isCredentials(err error) bool {
	if errors.As(err, new(*credentials.StaticCredentialsEmptyError)) {
		return true
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if o, ok := e.(*smithy.OperationError); ok && o.ServiceID != dynamodb.ServiceID {
			return true
		}
	}
	return false
}

// statusOf returns the HTTP status of a response, 0 if there was none.
func statusOf(err error) int {
	var r *awshttp.ResponseError
	if errors.As(err, &r) && r.Response != nil && r.Response.Response != nil {
		return r.HTTPStatusCode()
	}
	return 0
}

// codeOf returns DynamoDB's code of an error, "" if it has none.
func codeOf(err error) string {
	var e smithy.APIError
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

func isServerFault(err error) bool {
	var e smithy.APIError
	return errors.As(err, &e) && e.ErrorFault() == smithy.FaultServer
}

// hint is an error with what to do about it. It does not show the text of the
// cause, which may quote a signed request with its session token.
type hint struct {
	kind  error // ErrTable or ErrAccess
	text  string
	cause error
}

func (e *hint) Error() string {
	s := fmt.Sprintf("%v: %s", e.kind, e.text)
	if code := codeOf(e.cause); code != "" {
		s += " (" + code + ")"
	}
	return s
}

func (e *hint) Unwrap() []error {
	if e.cause == nil {
		return []error{e.kind}
	}
	return []error{e.kind, e.cause}
}

// explain makes the last error of a request one that says what to do, where
// that is known. Others it returns as they are. After a ValidationException,
// which says what is wrong by its text alone, it looks at the table.
func (d *driver) explain(ctx context.Context, err error) error {
	done := ctx.Err() != nil
	if err == nil || done && codeOf(err) == "" {
		return err
	}
	place := placeOf(d.client, d.table)
	switch codeOf(err) {
	case "ResourceNotFoundException":
		return &hint{ErrTable, place + " does not exist: check name, region and endpoint, or create it with dynamostore.CreateTable", err}
	case "ValidationException":
		if !done {
			return d.diagnose(ctx, err)
		}
	}
	if text := accessHint(err); text != "" {
		return &hint{ErrAccess, place + ": " + text, err}
	}
	return err
}

// diagnose returns what is wrong with the table, or else err.
func (d *driver) diagnose(ctx context.Context, err error) error {
	out, describeErr := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &d.table})
	if describeErr != nil || out.Table == nil {
		return err // that of the request says more
	}
	if wrong := checkTable(out.Table); wrong != "" {
		return &hint{ErrTable, placeOf(d.client, d.table) + ": " + wrong, err}
	}
	return err
}

// accessHint says what to do about an error of access, "" if it is none.
func accessHint(err error) string {
	if isCredentials(err) {
		return "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or give the machine a role; a local server takes any"
	}
	code := codeOf(err)
	if text := accessCodes[code]; text != "" {
		return text
	}
	switch status := statusOf(err); {
	case code != "" || status >= 500 || status == http.StatusTooManyRequests:
		return ""
	case status > 0:
		return fmt.Sprintf("what answers there, with status %d, is no DynamoDB: check the endpoint and proxies", status)
	case classifyUnanswered(err) != failUnknown:
		return "it can't be reached: check region, endpoint and network"
	}
	return ""
}

const (
	hintCredentials = "the credentials are not accepted: check that key, secret and session token belong together, to this region and to this endpoint"
	hintExpired     = "the credentials have expired: renew them, and let the SDK's default chain read them again"
	hintPolicy      = "the policy does not allow it: the package comment of dynamostore has the least that is needed; check KeyPrefix if it has a condition on dynamodb:LeadingKeys"
	hintEndpoint    = "what answers there does not know DynamoDB's requests: check the endpoint"
)

// accessCodes are the codes of AWS's common errors and of DynamoDB's that
// concern access, and what to do.
var accessCodes = map[string]string{
	"AccessDenied":                        hintPolicy,
	"AccessDeniedException":               hintPolicy,
	"NotAuthorized":                       hintPolicy,
	"UnauthorizedOperation":               hintPolicy,
	"OptInRequired":                       hintPolicy,
	"ExpiredToken":                        hintExpired,
	"ExpiredTokenException":               hintExpired,
	"RequestExpired":                      hintExpired + "; the machine's clock may be wrong too",
	"RequestTimeTooSkewed":                "the machine's clock is wrong",
	"AuthFailure":                         hintCredentials,
	"IncompleteSignature":                 hintCredentials,
	"IncompleteSignatureException":        hintCredentials,
	"InvalidClientTokenId":                hintCredentials,
	"InvalidSignatureException":           hintCredentials,
	"MissingAuthenticationToken":          hintCredentials,
	"MissingAuthenticationTokenException": hintCredentials,
	"SignatureDoesNotMatch":               hintCredentials,
	"UnrecognizedClientException":         hintCredentials,
	"UnknownOperationException":           hintEndpoint,
}

// placeOf names a table with its region and endpoint, as far as the client
// tells them.
func placeOf(client any, table string) string {
	s := fmt.Sprintf("table %q", table)
	c, ok := client.(interface{ Options() dynamodb.Options })
	if !ok {
		return s
	}
	o := c.Options()
	if o.Region != "" {
		s += " in region " + o.Region
	} else {
		s += " in no region"
	}
	if o.BaseEndpoint != nil {
		s += " at " + redactURL(*o.BaseEndpoint)
	}
	return s
}
