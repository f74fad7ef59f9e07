package dynamotest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	minidyn "github.com/truora/minidyn/server"
)

// Minidyn returns a new, empty minidyn, which is memory of this process.
func Minidyn() *Server {
	return &Server{
		Name:      "minidyn",
		Endpoint:  "http://minidyn.invalid",
		Embedded:  true,
		transport: &embedded{server: minidyn.NewServer(), ttl: make(map[string]string)},
	}
}

// embedded is the transport to a minidyn. It adds what that lacks: the two
// calls about time to live, an error in place of a panic, and a lock, since
// tables may be created and used at the same time.
type embedded struct {
	server *minidyn.Server
	mu     sync.RWMutex
	ttl    map[string]string // the attribute, by table
}

// RoundTrip implements http.RoundTripper.
func (e *embedded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	defer req.Body.Close()
	switch operation := operationOf(req); {
	case strings.HasSuffix(operation, "TimeToLive"):
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.timeToLive(req, operation)
	case strings.HasSuffix(operation, "Table"):
		e.mu.Lock()
		defer e.mu.Unlock()
	default:
		e.mu.RLock()
		defer e.mu.RUnlock()
	}
	return e.serve(req)
}

// serve lets minidyn answer. It panics over an index that a table lacks, which
// DynamoDB refuses.
func (e *embedded) serve(req *http.Request) (resp *http.Response, err error) {
	defer func() {
		if r := recover(); r != nil {
			resp, err = failure(req, http.StatusBadRequest, "ValidationException")
		}
	}()
	w := httptest.NewRecorder()
	e.server.ServeHTTP(w, req)
	resp = w.Result()
	resp.Request = req
	return resp, nil
}

func (e *embedded) timeToLive(req *http.Request, operation string) (*http.Response, error) {
	type specification struct {
		AttributeName string
		Enabled       bool
	}
	var in struct {
		TableName               string
		TimeToLiveSpecification specification
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if operation == "UpdateTimeToLive" {
		e.ttl[in.TableName] = in.TimeToLiveSpecification.AttributeName
		return reply(req, http.StatusOK, map[string]any{"TimeToLiveSpecification": in.TimeToLiveSpecification})
	}
	description := map[string]string{"TimeToLiveStatus": "DISABLED"}
	if a, on := e.ttl[in.TableName]; on {
		description = map[string]string{"TimeToLiveStatus": "ENABLED", "AttributeName": a}
	}
	return reply(req, http.StatusOK, map[string]any{"TimeToLiveDescription": description})
}
