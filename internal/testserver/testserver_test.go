package testserver

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// listenEnv makes the test binary a server at an address, or a program that
// ends at once.
const listenEnv = "TESTSERVER_TEST_LISTEN"

func TestMain(m *testing.M) {
	address, child := os.LookupEnv(listenEnv)
	if !child {
		os.Exit(m.Run())
	}
	fmt.Println("child", address)
	if address == "" {
		os.Exit(7)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		conn.Close()
	}
}

func child(t *testing.T, address string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), listenEnv+"="+address)
	return cmd
}

func TestProcess(t *testing.T) {
	for name, end := range map[string]func(p *Process) error{
		"Stop": (*Process).Stop,
		"Kill": func(p *Process) error { p.Kill(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			address := net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t)))
			p := Start(t, child(t, address))
			if err := p.Await(address); err != nil {
				t.Fatal(err)
			}
			if want := "child " + address; !strings.Contains(p.Output(), want) {
				t.Errorf("Output() = %q, want %q in it", p.Output(), want)
			}
			for range 2 {
				if err := end(p); err != nil {
					t.Errorf("%s() = %v", name, err)
				}
			}
			if conn, err := net.Dial("tcp", address); err == nil {
				conn.Close()
				t.Errorf("it still listens after %s", name)
			}
			if err := p.Await(address); err == nil {
				t.Errorf("Await after %s = nil, want an error", name)
			}
		})
	}
}

// Somebody else listens where the program should.
func TestAwaitOfAProgramThatHasEnded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := Start(t, child(t, ""))
	<-p.ended
	if err := p.Await(l.Addr().String()); err == nil || !strings.Contains(err.Error(), "child") {
		t.Errorf("Await = %v, want an error with the program's output", err)
	}
}

func TestProcessEndsWithItsTest(t *testing.T) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t)))
	t.Run("Child", func(t *testing.T) {
		if err := Start(t, child(t, address)).Await(address); err != nil {
			t.Fatal(err)
		}
	})
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Error("the program still listens after its test")
	}
}

func TestPortWithOffset(t *testing.T) {
	port := Port(t, 10_000)
	if port < firstPort || port > lastPort {
		t.Errorf("Port() = %d, want %d to %d", port, firstPort, lastPort)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if isFree(port) {
		t.Errorf("isFree(%d) = true while somebody listens", port)
	}
}

func TestOutputIsBounded(t *testing.T) {
	var out tail
	for range 100 {
		fmt.Fprintf(&out, "%s\n", strings.Repeat("x", 2000))
	}
	fmt.Fprint(&out, "the end")
	if got := out.String(); len(got) != maxOutput || !strings.HasSuffix(got, "the end") {
		t.Errorf("%d bytes are kept, want the last %d", len(got), maxOutput)
	}
}

func TestContainerWithoutAnEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "tcp://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(Port(t))))
	start := time.Now()
	if address, err := Container(t, "redis"); err == nil {
		t.Errorf("Container = %q, nil, want an error", address)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("Container took %v to find no engine", d)
	}
	t.Setenv("DOCKER_HOST", "%zz")
	if address, err := Container(t, "redis"); err == nil {
		t.Errorf("Container with a malformed DOCKER_HOST = %q, nil, want an error", address)
	}
}
