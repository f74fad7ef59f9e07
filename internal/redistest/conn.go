package redistest

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// conn is a connection that fails as its Faults say. An exchange begins with
// the first Write after a Read and ends with the first Read after that.
type conn struct {
	net.Conn
	faults *Faults

	mu       sync.Mutex
	exchange bool
	fault    Fault  // of the exchange
	held     []byte // a late request
	broken   bool   // by a fault
	closed   bool
}

func reset(op string) error {
	return &net.OpError{Op: op, Net: "tcp", Err: syscall.ECONNRESET}
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	switch fault, first := c.begin(p); {
	case fault == Late:
		return len(p), nil
	case fault == NotSent:
		c.breakOff()
		return 0, reset("write")
	case fault == HalfSent && first:
		n, _ := c.Conn.Write(p[:len(p)/2])
		c.faults.count(n, 0)
		c.breakOff()
		return n, reset("write")
	case c.isBroken():
		return 0, reset("write")
	}
	n, err := c.Conn.Write(p)
	c.faults.count(n, 0)
	return n, err
}

// begin returns the fault of the exchange that a Write belongs to, and whether
// it is the first one of it.
func (c *conn) begin(p []byte) (fault Fault, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken || c.closed {
		return None, false
	}
	if first = !c.exchange; first {
		c.exchange, c.fault = true, c.faults.choose(commandOf(p))
	}
	if c.fault == Late {
		c.held = append(c.held, p...)
	}
	return c.fault, first
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	fault := c.end()
	if fault == Slow {
		time.Sleep(c.faults.delay())
	}
	if c.isBroken() {
		return 0, reset("read")
	}
	n, err := c.Conn.Read(p)
	c.faults.count(0, n)
	switch {
	case fault == ReplyLost && err == nil:
		c.breakOff()
		return 0, reset("read")
	case fault == ReplyCut && n > 1:
		c.breakOff()
		return n / 2, nil
	}
	return n, err
}

// end ends an exchange and returns its fault. A late request begins to wait.
func (c *conn) end() Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	fault := c.fault
	c.exchange, c.fault = false, None
	if fault == Late {
		c.broken = true
		go c.sendLate(c.held)
	}
	return fault
}

// sendLate sends a request that the client has given up, and waits until the
// server has answered, if it does within a second.
func (c *conn) sendLate(request []byte) {
	defer c.faults.late.Done()
	defer c.Conn.Close()
	time.Sleep(c.faults.delay())
	if err := c.Conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return
	}
	n, err := c.Conn.Write(request)
	c.faults.count(n, 0)
	if err == nil {
		_, _ = io.ReadAtLeast(c.Conn, make([]byte, 1), 1)
	}
}

func (c *conn) isBroken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.broken
}

// breakOff breaks the connection. What was sent arrives.
func (c *conn) breakOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
	c.Conn.Close()
}

// Close implements net.Conn. A late request arrives all the same.
func (c *conn) Close() error {
	c.faults.closed(c)
	late := c.end() == Late
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	if late || c.broken {
		return nil
	}
	return c.Conn.Close()
}

// commandOf returns the first command of a request, "" if there is none.
func commandOf(request []byte) string {
	parts := bytes.SplitN(request, []byte("\r\n"), 4)
	if len(parts) < 3 || !bytes.HasPrefix(parts[0], []byte("*")) {
		return ""
	}
	return strings.ToLower(string(parts[2]))
}
