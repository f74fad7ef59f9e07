package redistest

import (
	"context"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/session/internal/faults"
)

// Fault is a way in which an exchange of a request and its reply goes wrong. A
// request may be a pipeline of several commands.
type Fault int

const (
	// None lets the exchange be.
	None Fault = iota
	// NotSent breaks the connection before the server gets anything.
	NotSent
	// HalfSent breaks it in the middle of the request.
	HalfSent
	// Late breaks it, and the server gets the request only after Faults.Delay,
	// when the client may have tried again.
	Late
	// ReplyLost breaks it when the server has done all.
	ReplyLost
	// ReplyCut breaks it in the middle of the reply.
	ReplyCut
	// Slow is a reply that comes after Faults.Delay.
	Slow
)

// String returns the fault's name.
func (f Fault) String() string {
	names := []string{"none", "not sent", "half sent", "late", "reply lost", "reply cut", "slow"}
	if f < 0 || int(f) >= len(names) {
		return strconv.Itoa(int(f))
	}
	return names[f]
}

// Request is a request that is on its way to the server.
type Request struct {
	N       int    // the how-manyth it is, from 1
	Command string // its first command in lower case: "evalsha"
}

// Faults is what stands between clients and servers, of a cluster too, and
// makes their connections fail. Its Dial is to be the client's Dialer. The
// fields are not to be changed once it is in use; its methods may be called
// from any goroutine.
type Faults struct {
	// Choose says what becomes of an exchange. It is never called twice at
	// once. nil: nothing goes wrong.
	Choose func(Request) Fault
	// Delay is how long Late and Slow take. 0: 20 milliseconds.
	Delay time.Duration

	faults.Picker[Fault] // a call is a request, that is, a round trip

	late sync.WaitGroup

	mu       sync.Mutex
	refuse   bool
	open     map[*conn]bool
	dialled  int
	sent     int64
	received int64
}

// Random is [faults.Random] for a Choose.
func Random(seed uint64, shares map[Fault]float64) func(Request) Fault {
	return faults.Random[Request](seed, shares)
}

// Only returns a Choose that lets all requests be but those that begin with one
// of the commands, in lower case.
func Only(choose func(Request) Fault, commands ...string) func(Request) Fault {
	return func(r Request) Fault {
		for _, c := range commands {
			if r.Command == c {
				return choose(r)
			}
		}
		return None
	}
}

// Dial connects to a server.
func (f *Faults) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if f.refuses() {
		return nil, refused
	}
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	wrapped := &conn{Conn: c, faults: f}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse {
		c.Close()
		return nil, refused
	}
	if f.open == nil {
		f.open = make(map[*conn]bool)
	}
	f.open[wrapped] = true
	f.dialled++
	return wrapped, nil
}

func (f *Faults) refuses() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refuse
}

// Refuse lets all connections break, and no new one be made, until Accept.
func (f *Faults) Refuse() {
	f.mu.Lock()
	f.refuse = true
	f.mu.Unlock()
	f.Cut()
}

// Accept ends Refuse.
func (f *Faults) Accept() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = false
}

// Cut breaks all connections, wherever their exchanges are.
func (f *Faults) Cut() {
	f.mu.Lock()
	var all []*conn
	for c := range f.open {
		all = append(all, c)
	}
	f.mu.Unlock()
	for _, c := range all {
		c.Close()
	}
}

// Stop lets all later exchanges be, and waits until the late requests have come
// and been answered.
func (f *Faults) Stop() {
	f.Picker.Stop()
	f.late.Wait()
}

// Dialled returns how many connections were made.
func (f *Faults) Dialled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dialled
}

// Bytes returns how many bytes clients have sent and received.
func (f *Faults) Bytes() (sent, received int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent, f.received
}

func (f *Faults) choose(command string) Fault {
	return f.Pick(command, func(n int) (fault Fault) {
		if f.Choose != nil {
			fault = f.Choose(Request{N: n, Command: command})
		}
		if fault == Late { // before Stop can wait
			f.late.Add(1)
		}
		return fault
	})
}

func (f *Faults) delay() time.Duration {
	if f.Delay == 0 {
		return 20 * time.Millisecond
	}
	return f.Delay
}

func (f *Faults) count(sent, received int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent += int64(sent)
	f.received += int64(received)
}

func (f *Faults) closed(c *conn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, c)
}
