package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/session/internal/testserver"
)

const (
	startTries   = 5           // of a program, each on another port
	loadTimeout  = time.Minute // for a server to read its files
	pollInterval = 10 * time.Millisecond
	busOffset    = 10_000 // from a node's port to that of the cluster's bus
)

// ProgramOptions are the options of StartProgram. nil and zero values: a server
// in memory, without a password.
type ProgramOptions struct {
	// AppendOnly says that each write is on disk before it is answered, so
	// that it survives Kill.
	AppendOnly bool
	// MaxMemory is how many bytes it may use. More is an error, by the policy
	// noeviction, unless Config says otherwise. 0: no limit.
	MaxMemory int64
	// Password is what clients must give. Those of Client do.
	Password string
	// ReplicaOf is the server of which this one is a read-only replica. nil:
	// none.
	ReplicaOf *Program
	// Config has more of redis.conf: a name and its values each.
	Config [][]string
}

// Program is a redis-server of a test's own. Its methods are for one goroutine.
type Program struct {
	*Server
	args    []string
	process *testserver.Process
}

// findProgram returns why redis-server can't be started.
func findProgram() error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return fmt.Errorf("redis-server is not installed: %w", err)
	}
	return nil
}

// StartProgram starts a redis-server on a free port of the loopback interface,
// which ends with the test. It skips the test if the program is not installed.
func StartProgram(tb testing.TB, opts *ProgramOptions) *Program {
	tb.Helper()
	var o ProgramOptions
	if opts != nil {
		o = *opts
	}
	p := startProgram(tb, o)
	use(tb, p.Server)
	if o.ReplicaOf != nil {
		client := p.Client(tb)
		await(tb, "the replica to follow", func(ctx context.Context) (bool, error) {
			return infoHas(ctx, client, "replication", "master_link_status:up")
		})
	}
	return p
}

func startProgram(tb testing.TB, o ProgramOptions) *Program {
	tb.Helper()
	if err := findProgram(); err != nil {
		tb.Skipf("no Redis server: %v", err)
	}
	var err error
	for range startTries {
		port := testserver.Port(tb, busOffset)
		p := &Program{
			Server: &Server{Name: "redis-server", Addrs: []string{"127.0.0.1:" + strconv.Itoa(port)}, password: o.Password},
			args:   o.args(port, tb.TempDir()),
		}
		if err = p.Start(tb); err == nil {
			return p
		}
	}
	tb.Fatal(err)
	return nil
}

// args returns the command line.
func (o *ProgramOptions) args(port int, folder string) []string {
	args := []string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", folder, "--daemonize", "no",
		"--save", "", "--appendonly", "no", "--loglevel", "notice",
		// A lost connection is noticed soon, and a replica follows at once.
		"--repl-ping-replica-period", "1", "--repl-diskless-sync-delay", "0",
	}
	if o.AppendOnly {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	if o.MaxMemory > 0 {
		args = append(args, "--maxmemory", strconv.FormatInt(o.MaxMemory, 10), "--maxmemory-policy", "noeviction")
	}
	if o.Password != "" {
		args = append(args, "--requirepass", o.Password)
	}
	if o.ReplicaOf != nil {
		host, masterPort, _ := net.SplitHostPort(o.ReplicaOf.Addrs[0])
		args = append(args, "--replicaof", host, masterPort)
		if o.ReplicaOf.password != "" {
			args = append(args, "--masterauth", o.ReplicaOf.password)
		}
	}
	for _, c := range o.Config {
		args = append(args, "--"+c[0])
		args = append(args, c[1:]...)
	}
	return args
}

// Start starts the server again, after Stop or Kill, at the same address and on
// the files that it left behind.
func (p *Program) Start(tb testing.TB) error {
	tb.Helper()
	p.process = testserver.Start(tb, exec.Command("redis-server", p.args...))
	if err := p.process.Await(p.Addrs[0]); err != nil {
		p.process.Kill()
		return err
	}
	client := p.Client(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), loadTimeout)
	defer cancel()
	for {
		err := client.Ping(ctx).Err()
		if err == nil || !redis.IsLoadingError(err) {
			return err
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
}

// Stop ends the server in order.
func (p *Program) Stop() error { return p.process.Stop() }

// Kill ends the server as a crash would.
func (p *Program) Kill() { p.process.Kill() }

// Suspend lets the server stand still until Resume: it accepts connections and
// answers nothing. Where the system can't do so, it returns
// [errors.ErrUnsupported].
func (p *Program) Suspend() error { return p.process.Suspend() }

// Resume ends Suspend.
func (p *Program) Resume() error { return p.process.Resume() }

// infoHas reports whether a section of INFO has a line.
func infoHas(ctx context.Context, client redis.Cmdable, section, line string) (bool, error) {
	text, err := client.Info(ctx, section).Result()
	return hasLine(text, line), err
}

// await waits until something has happened, at most a minute.
func await(tb testing.TB, what string, happened func(context.Context) (bool, error)) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), loadTimeout)
	defer cancel()
	for {
		ok, err := happened(ctx)
		if ok && err == nil {
			return
		}
		if late := wait(ctx); late != nil {
			tb.Fatalf("waiting for %s: %v", what, errors.Join(late, err))
		}
	}
}

func wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollInterval):
		return nil
	}
}
