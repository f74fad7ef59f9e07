// Package dynamotest gives tests a DynamoDB to run on, and makes it fail.
//
// [Each] runs a test on minidyn, which is part of the test program, and on a
// server, which is more exact. The server is the first of these that is there:
//
//   - the one whose URL the environment variable SESSION_TEST_DYNAMODB holds,
//     such as http://127.0.0.1:8000;
//   - a container, where a Docker engine answers, of amazon/dynamodb-local or of
//     the image that SESSION_TEST_DYNAMODB_IMAGE names;
//   - dynalite, if npm ci has installed it in this folder.
//
// Each test that asks for a server gets one of its own, except at a URL, and
// tables of its own.
package dynamotest

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Server is a DynamoDB that tests run on. Its methods may be called from any
// goroutine.
type Server struct {
	// Name says what it is, for a person.
	Name string
	// Endpoint is its URL. That of minidyn leads nowhere: only clients that
	// have its transport reach it.
	Endpoint string
	// Embedded says that it is minidyn, which keeps no limits of size, knows
	// no pages of 1 MB and looks at all items of a table in every query.
	Embedded bool

	transport http.RoundTripper
}

// Region is where all clients think they are.
const Region = "us-east-1"

// Each runs a test twice, as Minidyn and as Server. The latter is skipped where
// there is no server.
func Each(t *testing.T, run func(t *testing.T, s *Server)) {
	t.Helper()
	t.Run("Minidyn", func(t *testing.T) { run(t, Minidyn()) })
	t.Run("Server", func(t *testing.T) { run(t, Start(t)) })
}

// Client returns a client of the server. Its requests go through the
// transports that wrap returns, the last one first, and then to the server. The
// SDK's own retries are on, as they are by default.
func (s *Server) Client(wrap ...func(next http.RoundTripper) http.RoundTripper) *dynamodb.Client {
	transport := s.transport
	for _, w := range wrap {
		transport = w(transport)
	}
	return dynamodb.New(dynamodb.Options{
		Region:       Region,
		BaseEndpoint: aws.String(s.Endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("local", "local", ""),
		HTTPClient:   &http.Client{Transport: transport},
	})
}

// Table makes a table with a name of its own by create, which is called with
// a client, waits until it can be used, and returns the name.
func (s *Server) Table(tb testing.TB, create func(ctx context.Context, client *dynamodb.Client, table string) error) string {
	tb.Helper()
	name := "test-" + strings.ToLower(rand.Text())
	client := s.Client()
	err := create(tb.Context(), client, name)
	for err == nil {
		var out *dynamodb.DescribeTableOutput
		out, err = client.DescribeTable(tb.Context(), &dynamodb.DescribeTableInput{TableName: &name})
		if err == nil && out.Table.TableStatus != types.TableStatusCreating {
			return name
		}
	}
	tb.Fatalf("creating a table on %s: %v", s.Name, err)
	return ""
}
