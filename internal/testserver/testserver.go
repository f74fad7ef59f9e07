// Package testserver starts the servers that tests run on, as programs or in
// containers, and ends them with the test.
package testserver

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	startTimeout = 30 * time.Second // for a program to accept connections
	stopTimeout  = 20 * time.Second // for a program to end when it is asked to
	maxOutput    = 64 << 10         // bytes of a program's output that are kept
	pollInterval = 10 * time.Millisecond
)

// Process is a server program that runs. Its methods may be called from any
// goroutine.
type Process struct {
	cmd    *exec.Cmd
	output tail
	ended  chan struct{}
	err    error // of Wait; to be read after ended
}

// Start starts a program, whose output becomes part of the test's if the test
// fails. It ends with the test at the latest, and on Linux with the process of
// the test, however that ends.
func Start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("output of %s, process %d:\n%s", cmd.Path, p.PID(), p.Output())
		}
	})
	return p
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output returns the end of what the program has printed.
func (p *Process) Output() string { return p.output.String() }

// Await waits until the program accepts connections at an address. It returns
// an error if the program has ended instead, or takes more than 30 seconds.
func (p *Process) Await(address string) error {
	deadline := time.After(startTimeout)
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
		}
		select {
		case <-p.ended: // another program may have answered in its place
			return fmt.Errorf("%s has ended: %v\n%s", p.cmd.Path, p.err, p.Output())
		default:
		}
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
		case <-deadline:
			return fmt.Errorf("%s does not answer: %w\n%s", p.cmd.Path, err, p.Output())
		case <-time.After(pollInterval):
		}
	}
}

// Stop asks the program to end, and waits until it has. One that takes more
// than 20 seconds is killed, which is an error. Of one that has ended it
// returns nil.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.Kill() // it has ended, or the system knows no signals
		return nil
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("process %d did not end in %v", p.PID(), stopTimeout)
	}
}

// Kill ends the program at once, and waits until it has ended. It may be
// repeated.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error says that it has ended
	<-p.ended
}

// wait starts the program, says so, and waits for its end.
func (p *Process) wait(started chan<- error) {
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		close(p.ended)
	}
}

// Suspend lets the program stand still until Resume. Where the system can't do
// so, it returns errors.ErrUnsupported.
func (p *Process) Suspend() error { return p.suspend() }

// Resume lets a program go on that Suspend has stopped.
func (p *Process) Resume() error { return p.resume() }

// Ports from firstPort on, below those that systems give to clients.
const (
	firstPort = 10_000
	lastPort  = 19_999
)

// Port returns a port of the loopback interface that nobody listens on, nor on
// that port plus one of the offsets. Somebody else may take it in the meantime.
func Port(tb testing.TB, offsets ...int) int {
	tb.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		free := isFree(port)
		for _, o := range offsets {
			free = free && isFree(port+o)
		}
		if free {
			return port
		}
	}
	tb.Fatal("no free port on the loopback interface")
	return 0
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - maxOutput; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

// String returns the end of what was written.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
