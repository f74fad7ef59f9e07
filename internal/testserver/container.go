package testserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// removeTimeout bounds how long a container may take to go.
const removeTimeout = time.Minute

// Container starts a server in a container that ends with the test, and returns
// its address, host:port. kind is one of those that the program in
// internal/containers knows: that program is built and run, which needs the go
// command, and may need a network for its modules and for the image. It returns
// an error if no Docker engine answers, or if that fails.
func Container(tb testing.TB, kind string) (address string, err error) {
	tb.Helper()
	if err := dialEngine(); err != nil {
		return "", err
	}
	_, file, _, _ := runtime.Caller(0)
	folder := filepath.Join(filepath.Dir(file), "..", "containers")
	cmd := exec.Command("go", "run", "-C", folder, ".", kind)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOOS=", "GOARCH=")
	var stderr tail
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		stdin.Close()
		_ = cmd.Wait() // what it has printed says more
		return "", fmt.Errorf("no container: %s", strings.TrimSpace(stderr.String()))
	}
	tb.Cleanup(func() {
		if err := end(cmd, stdin); err != nil {
			tb.Errorf("the container of %s: %v\n%s", kind, err, stderr.String())
		}
	})
	return strings.TrimSpace(line), nil
}

// end closes the program's input and waits until the container is gone.
func end(cmd *exec.Cmd, stdin io.Closer) error {
	stdin.Close()
	late := time.AfterFunc(removeTimeout, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	return cmd.Wait()
}

// dialEngine returns why no Docker engine can be reached, nil if one can.
func dialEngine() error {
	network, address := "unix", ""
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		u, err := url.Parse(host)
		if err != nil {
			return errors.New("no Docker engine: DOCKER_HOST is not a URL")
		}
		if network, address = u.Scheme, u.Host; network == "unix" {
			address = u.Path
		}
		return dial(network, address)
	}
	err := errors.New("no Docker engine")
	for _, socket := range sockets() {
		if err = dial(network, socket); err == nil {
			return nil
		}
	}
	return err
}

// sockets returns where engines listen.
func sockets() []string {
	all := []string{"/var/run/docker.sock"}
	if folder := os.Getenv("XDG_RUNTIME_DIR"); folder != "" {
		all = append(all, filepath.Join(folder, "docker.sock"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		all = append(all, filepath.Join(home, ".docker", "run", "docker.sock"))
	}
	return all
}

func dial(network, address string) error {
	conn, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return fmt.Errorf("no Docker engine: %w", err)
	}
	return conn.Close()
}
