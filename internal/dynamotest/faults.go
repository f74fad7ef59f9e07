package dynamotest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/session/internal/faults"
)

// Fault is a way in which a call goes wrong.
type Fault int

const (
	// None lets the call be.
	None Fault = iota
	// NotSent is a connection that can't be made. The server knows nothing.
	NotSent
	// ReplyLost is a connection that breaks after the server has done all.
	ReplyLost
	// Throughput is status 400, ProvisionedThroughputExceededException.
	Throughput
	// Throttling is status 400, ThrottlingException.
	Throttling
	// ServerError is status 500, InternalServerError, and nothing done.
	ServerError
	// ServerErrorDone is status 500, InternalServerError, after all was done.
	ServerErrorDone
	// Slow is a reply that comes after Faults.Delay.
	Slow
	// Partial is a batch of which the server does only the first half, rounded
	// down, and names the rest as unprocessed. Other calls it lets be.
	Partial
)

// String returns the fault's name.
func (f Fault) String() string {
	names := []string{"none", "not sent", "reply lost", "throughput exceeded", "throttled", "server error", "server error after all was done", "slow", "partial batch"}
	if f < 0 || int(f) >= len(names) {
		return strconv.Itoa(int(f))
	}
	return names[f]
}

// Call is a call that is on its way to the server.
type Call struct {
	N         int    // the how-manyth it is, from 1
	Operation string // "PutItem"
	Body      []byte // its JSON; not to be changed
}

// Faults is a transport that makes calls go wrong. The fields are not to be
// changed once it is in use.
type Faults struct {
	// Next is where calls go on.
	Next http.RoundTripper
	// Choose says what becomes of a call. It is never called twice at once.
	// nil: nothing goes wrong.
	Choose func(Call) Fault
	// Delay is how long Slow takes. 0: 20 milliseconds.
	Delay time.Duration

	faults.Picker[Fault]
}

// Wrap sets Next, and returns f, as [Server.Client] wants it.
func (f *Faults) Wrap(next http.RoundTripper) http.RoundTripper {
	f.Next = next
	return f
}

// Random is [faults.Random] for a Choose.
func Random(seed uint64, shares map[Fault]float64) func(Call) Fault {
	return faults.Random[Call](seed, shares)
}

func (f *Faults) choose(operation string, body []byte) Fault {
	return f.Pick(operation, func(n int) (fault Fault) {
		if f.Choose != nil {
			fault = f.Choose(Call{N: n, Operation: operation, Body: body})
		}
		if fault == Partial && !strings.HasPrefix(operation, "Batch") {
			return None
		}
		return fault
	})
}

// RoundTrip implements http.RoundTripper.
func (f *Faults) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := takeBody(req)
	if err != nil {
		return nil, err
	}
	operation := operationOf(req)
	switch f.choose(operation, body) {
	case NotSent:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case ReplyLost:
		if err := f.done(req); err != nil {
			return nil, err
		}
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	case Throughput:
		return failure(req, http.StatusBadRequest, "ProvisionedThroughputExceededException")
	case Throttling:
		return failure(req, http.StatusBadRequest, "ThrottlingException")
	case ServerError:
		return failure(req, http.StatusInternalServerError, "InternalServerError")
	case ServerErrorDone:
		if err := f.done(req); err != nil {
			return nil, err
		}
		return failure(req, http.StatusInternalServerError, "InternalServerError")
	case Slow:
		return f.late(req)
	case Partial:
		return f.half(req, operation, body)
	}
	return f.Next.RoundTrip(req)
}

// done makes the call, and throws the reply away.
func (f *Faults) done(req *http.Request) error {
	resp, err := f.Next.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// late makes the call, and keeps the reply back for a while.
func (f *Faults) late(req *http.Request) (*http.Response, error) {
	resp, err := f.Next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	delay := f.Delay
	if delay == 0 {
		delay = 20 * time.Millisecond
	}
	select {
	case <-time.After(delay):
		return resp, nil
	case <-req.Context().Done():
		resp.Body.Close()
		return nil, req.Context().Err()
	}
}

// half makes the first half of a batch.
func (f *Faults) half(req *http.Request, operation string, body []byte) (*http.Response, error) {
	first, rest, err := cut(operation, body)
	if err != nil {
		return nil, err
	}
	if first == nil { // the batch is of one: nothing is done
		empty := map[string]any{"UnprocessedItems": rest}
		if operation == "BatchGetItem" {
			empty = map[string]any{"Responses": map[string]any{}, "UnprocessedKeys": rest}
		}
		return reply(req, http.StatusOK, empty)
	}
	setBody(req, first)
	resp, err := f.Next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	var out map[string]json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil, err
	}
	name := "UnprocessedItems"
	if operation == "BatchGetItem" {
		name = "UnprocessedKeys"
	}
	if out[name], err = json.Marshal(rest); err != nil {
		return nil, err
	}
	return reply(req, http.StatusOK, out)
}

// cut returns the request of the first half of a batch, nil if that is empty,
// and the items or keys of the rest, as an answer names them.
func cut(operation string, body []byte) (first []byte, rest map[string]any, err error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, nil, err
	}
	keep, rest := make(map[string]any), make(map[string]any)
	if operation == "BatchGetItem" {
		var tables map[string]map[string]any
		if err := json.Unmarshal(in["RequestItems"], &tables); err != nil {
			return nil, nil, err
		}
		for table, request := range tables {
			keys, _ := request["Keys"].([]any)
			n := len(keys) / 2
			if n > 0 {
				keep[table] = with(request, "Keys", keys[:n])
			}
			rest[table] = with(request, "Keys", keys[n:])
		}
	} else {
		var tables map[string][]any
		if err := json.Unmarshal(in["RequestItems"], &tables); err != nil {
			return nil, nil, err
		}
		for table, requests := range tables {
			n := len(requests) / 2
			if n > 0 {
				keep[table] = requests[:n]
			}
			rest[table] = requests[n:]
		}
	}
	if len(keep) == 0 {
		return nil, rest, nil
	}
	if in["RequestItems"], err = json.Marshal(keep); err != nil {
		return nil, nil, err
	}
	first, err = json.Marshal(in)
	return first, rest, err
}

// with returns a copy of m in which name is v.
func with(m map[string]any, name string, v any) map[string]any {
	c := make(map[string]any, len(m))
	for k, old := range m {
		c[k] = old
	}
	c[name] = v
	return c
}

// operationOf returns the name of a request's operation.
func operationOf(req *http.Request) string {
	_, operation, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	return operation
}

// takeBody reads a request's body and leaves it there.
func takeBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return nil, err
	}
	setBody(req, body)
	return body, nil
}

// setBody gives a request another body. Servers for tests don't check the
// signature, which is that of the old one.
func setBody(req *http.Request, body []byte) {
	req.Body = io.NopCloser(bytes.NewReader(body))
	req.GetBody = nil
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Length", strconv.Itoa(len(body)))
}

// failure is the reply with an error of DynamoDB.
func failure(req *http.Request, status int, code string) (*http.Response, error) {
	return reply(req, status, map[string]string{
		"__type":  "com.amazonaws.dynamodb.v20120810#" + code,
		"message": "made to fail",
	})
}

// reply is a reply with a JSON body.
func reply(req *http.Request, status int, v any) (*http.Response, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status:        fmt.Sprintf("%d %s", status, http.StatusText(status)),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}, nil
}
