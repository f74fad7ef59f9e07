// Containers starts a server for tests in a container:
//
//	containers redis
//	containers dynamodb
//
// It prints the server's address, host:port, on a line of its own once the
// server accepts connections, and waits until its standard input ends. Then it
// removes the container. A test that dies can't leave one behind: its end of
// the pipe goes with it.
//
// The images are redis:7 and amazon/dynamodb-local, or what the environment
// variables SESSION_TEST_REDIS_IMAGE and SESSION_TEST_DYNAMODB_IMAGE name. An
// image that is not there is pulled.
//
// It is a module of its own, so that the users of the library and its tests
// don't depend on Docker.
//
// Exit codes: 2 a wrong command line, 3 no Docker engine, 4 no such image, 1
// all else.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"
)

// server is what can be started.
type server struct {
	image    string
	variable string // that names another image
	port     string // inside the container
}

var servers = map[string]server{
	"redis":    {"redis:7", "SESSION_TEST_REDIS_IMAGE", "6379/tcp"},
	"dynamodb": {"amazon/dynamodb-local", "SESSION_TEST_DYNAMODB_IMAGE", "8000/tcp"},
}

var (
	errUsage    = errors.New("usage: containers redis|dynamodb")
	errNoEngine = errors.New("no Docker engine answers")
	errNoImage  = errors.New("the image is not there and can't be pulled")
)

const (
	startTimeout = time.Minute      // for a container to listen
	pullTimeout  = 3 * time.Minute  // for an image
	stopTimeout  = 20 * time.Second // for a container to go
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "containers:", err)
	}
	os.Exit(exitCode(err))
}

func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	case errors.Is(err, errNoEngine):
		return 3
	case errors.Is(err, errNoImage):
		return 4
	}
	return 1
}

// run starts the server that args name, prints its address, and removes it when
// stdin ends.
func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) (err error) {
	if len(args) != 1 {
		return errUsage
	}
	s, ok := servers[args[0]]
	if !ok {
		return errUsage
	}
	image := cmp.Or(os.Getenv(s.variable), s.image)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel() // whoever does not wait any more wants no container
		_, _ = io.Copy(io.Discard, stdin)
	}()
	host, err := prepare(ctx, image)
	if err != nil {
		return err
	}
	c, err := start(ctx, host, image, s.port)
	if c != nil {
		defer func() { err = errors.Join(err, remove(c)) }()
	}
	if err != nil {
		return err
	}
	address, err := c.PortEndpoint(ctx, s.port, "")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, address); err != nil {
		return err
	}
	<-ended
	return nil
}

// prepare makes sure that there are an engine and the image, and returns the
// engine's host.
func prepare(ctx context.Context, image string) (host string, err error) {
	defer func() { // testcontainers panics where it finds no engine
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errNoEngine, r)
		}
	}()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(log.NewNoopLogger()))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoEngine, err)
	}
	defer provider.Close()
	if err := provider.Health(ctx); err != nil {
		return "", fmt.Errorf("%w: %w", errNoEngine, err)
	}
	if host, err = provider.DaemonHost(ctx); err != nil {
		return "", fmt.Errorf("%w: %w", errNoEngine, err)
	}
	if _, err := provider.Client().ImageInspect(ctx, image); err == nil {
		return host, nil
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	if err := provider.PullImage(ctx, image); err != nil {
		return "", fmt.Errorf("%w: %s: %w", errNoImage, image, err)
	}
	return host, nil
}

// start starts a container. It may return one that has to be removed with an
// error.
func start(ctx context.Context, host, image, port string) (testcontainers.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	c, err := testcontainers.Run(ctx, image,
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithExposedPorts(port),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			if at, ok := interfaceOf(host); ok {
				h.PortBindings = network.PortMap{network.MustParsePort(port): {{HostIP: at}}}
			}
		}),
		testcontainers.WithWaitStrategyAndDeadline(startTimeout, wait.ForListeningPort(port)))
	if c == nil {
		return nil, err // not a nil pointer in an interface
	}
	return c, err
}

// interfaceOf returns the one interface that a container of an engine on this
// machine is reached through: that of the loop, or, from within a container,
// the bridge's.
func interfaceOf(host string) (netip.Addr, bool) {
	if host == "localhost" {
		host = "127.0.0.1"
	}
	at, err := netip.ParseAddr(host)
	remote := os.Getenv("DOCKER_HOST") != "" && !strings.HasPrefix(os.Getenv("DOCKER_HOST"), "unix:")
	return at, err == nil && !remote
}

func remove(c testcontainers.Container) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return testcontainers.TerminateContainer(c, testcontainers.StopContext(ctx), testcontainers.StopTimeout(time.Second))
}
