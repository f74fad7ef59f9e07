package dynamotest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/session/internal/testserver"
)

const (
	urlVariable   = "SESSION_TEST_DYNAMODB"
	imageVariable = "SESSION_TEST_DYNAMODB_IMAGE"

	startTimeout = time.Minute // for a server to answer
)

// Start returns the server that is there, and skips the test if there is none.
// A server that is there and can't be used fails the test. It ends with the
// test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	if url := os.Getenv(urlVariable); url != "" {
		return begin(tb, "the one at "+url, url)
	}
	address, noContainer := container(tb)
	if noContainer == nil {
		return begin(tb, "a container of "+cmp.Or(os.Getenv(imageVariable), "amazon/dynamodb-local"), "http://"+address)
	}
	if os.Getenv(imageVariable) != "" { // it was asked for
		tb.Fatal(noContainer)
	}
	folder, noDynalite := dynalite()
	if noDynalite == nil {
		return begin(tb, "dynalite", startDynalite(tb, folder))
	}
	tb.Skipf("no DynamoDB server: %s is not set; %v; %v", urlVariable, noContainer, noDynalite)
	return nil
}

// begin waits until a server answers.
func begin(tb testing.TB, name, url string) *Server {
	tb.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.MaxIdleConnsPerHost = 64
	tb.Cleanup(transport.CloseIdleConnections)
	s := &Server{Name: name, Endpoint: url, transport: transport}
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	for {
		err := ping(ctx, transport, url)
		if err == nil {
			tb.Logf("DynamoDB server: %s", name)
			return s
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("DynamoDB server: %s does not answer: %v", name, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ping makes a request that any server answers, if only with an error.
func ping(ctx context.Context, transport http.RoundTripper, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// noContainer is why there is none. What failed once is not tried again: it may
// have taken minutes.
var noContainer struct {
	sync.Mutex
	err error
}

func container(tb testing.TB) (address string, err error) {
	tb.Helper()
	noContainer.Lock()
	defer noContainer.Unlock()
	if noContainer.err == nil {
		address, noContainer.err = testserver.Container(tb, "dynamodb")
	}
	return address, noContainer.err
}

// dynalite returns the folder that it is installed in, or why it can't be
// started.
var dynalite = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	folder := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(folder, "node_modules", "dynalite")); err != nil {
		return "", errors.New("dynalite is not installed: run npm ci in internal/dynamotest")
	}
	if _, err := exec.LookPath("node"); err != nil {
		return "", fmt.Errorf("dynalite is installed, but node is not: %w", err)
	}
	return folder, nil
})

// startDynalite returns the URL of a dynalite that ends with the test, and with
// this process, however that ends.
func startDynalite(tb testing.TB, folder string) string {
	tb.Helper()
	port := strconv.Itoa(testserver.Port(tb))
	cmd := exec.Command("node", "dynalite.js", port)
	cmd.Dir = folder
	if _, err := cmd.StdinPipe(); err != nil { // which stays open
		tb.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", port)
	if err := testserver.Start(tb, cmd).Await(address); err != nil {
		tb.Fatal(err)
	}
	return "http://" + address
}
