package filestore

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/rpc"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/session"
)

// remote is a driver in another process, which a test reaches through that
// process's standard input and output.
type remote struct {
	client *rpc.Client
	handle int
}

// served is what the other process has open.
type served struct {
	mu      sync.Mutex
	drivers []*files
}

// Call is what a method is given.
type Call struct {
	Handle int
	ID     string
	Head   session.Head
	From   int
	To     int
	Commit session.Commit
	Query  session.HeadQuery
}

// Answer is what it returns.
type Answer struct {
	Handle int
	Heads  []session.Head
	Lines  [][]byte
	Failed bool
	Text   string
	Is     []int // which of sentinels the error is
}

var sentinels = []error{
	session.ErrConflict, session.ErrTooLarge, session.ErrCorrupt, session.ErrNewerFormat, session.ErrInvalidOption,
}

// remoteError is an error of the other process.
type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.is }

func (a *Answer) set(err error) error {
	if a.Failed = err != nil; a.Failed {
		a.Text = err.Error()
		for i, s := range sentinels {
			if errors.Is(err, s) {
				a.Is = append(a.Is, i)
			}
		}
	}
	return nil
}

func (s *served) driver(handle int) *files {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drivers[handle]
}

// Open opens a driver in a directory.
func (s *served) Open(dir string, a *Answer) error {
	o, err := (&Options{Durability: DurabilityNormal, MaxOpenFiles: 3}).withDefaults()
	if err != nil {
		return a.set(err)
	}
	d, err := openFiles(dir, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	a.Handle = len(s.drivers)
	s.drivers = append(s.drivers, d)
	return a.set(err)
}

// GetHead is Head.
func (s *served) GetHead(c Call, a *Answer) error {
	h, err := s.driver(c.Handle).Head(context.Background(), c.ID)
	a.Heads = []session.Head{h}
	return a.set(err)
}

// GetRange is Range.
func (s *served) GetRange(c Call, a *Answer) (err error) {
	a.Lines, err = s.driver(c.Handle).Range(context.Background(), c.ID, c.Head, c.From, c.To)
	return a.set(err)
}

// DoCommit is Commit.
func (s *served) DoCommit(c Call, a *Answer) error {
	return a.set(s.driver(c.Handle).Commit(context.Background(), c.ID, c.Commit))
}

// GetHeads is Heads, all at once.
func (s *served) GetHeads(c Call, a *Answer) error {
	for h, err := range s.driver(c.Handle).Heads(context.Background(), c.Query) {
		if err != nil {
			return a.set(err)
		}
		a.Heads = append(a.Heads, h)
	}
	return nil
}

// Shut is Close.
func (s *served) Shut(c Call, a *Answer) error { return a.set(s.driver(c.Handle).Close()) }

// stdio is a process's standard input and output.
type stdio struct {
	io.Reader
	io.WriteCloser
}

// serveChild serves drivers until its input ends.
func serveChild([]string) error {
	server := rpc.NewServer()
	if err := server.RegisterName("Driver", &served{}); err != nil {
		return err
	}
	server.ServeConn(stdio{os.Stdin, os.Stdout})
	return nil
}

// startServing starts a process that serves drivers.
func startServing(t *testing.T, cmd *exec.Cmd) *rpc.Client {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client := rpc.NewClient(stdio{out, in})
	t.Cleanup(func() {
		client.Close()
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "signal") {
			t.Errorf("the other process: %v", err)
		}
	})
	return client
}

func openRemote(tb testing.TB, client *rpc.Client, dir string) *remote {
	tb.Helper()
	var a Answer
	if err := client.Call("Driver.Open", dir, &a); err != nil || a.Failed {
		tb.Fatalf("Open in the other process: %v, %s", err, a.Text)
	}
	return &remote{client, a.Handle}
}

func (r *remote) call(ctx context.Context, method string, c Call) (Answer, error) {
	var a Answer
	if err := ctx.Err(); err != nil {
		return a, err
	}
	c.Handle = r.handle
	if err := r.client.Call("Driver."+method, c, &a); err != nil {
		return a, err
	}
	for i := range a.Heads { // the form of times does not survive
		h := &a.Heads[i]
		if h.Updated = h.Updated.UTC(); !h.Expires.IsZero() {
			h.Expires = h.Expires.UTC()
		}
	}
	if !a.Failed {
		return a, nil
	}
	e := &remoteError{text: a.Text}
	for _, i := range a.Is {
		e.is = append(e.is, sentinels[i])
	}
	return a, e
}

func (r *remote) Head(ctx context.Context, id string) (session.Head, error) {
	a, err := r.call(ctx, "GetHead", Call{ID: id})
	if err != nil || a.Heads[0].Rev == "" {
		return session.Head{}, err
	}
	return a.Heads[0], nil
}

func (r *remote) Range(ctx context.Context, id string, h session.Head, from, to int) ([][]byte, error) {
	h.Appends = nil
	a, err := r.call(ctx, "GetRange", Call{ID: id, Head: h, From: from, To: to})
	return a.Lines, err
}

func (r *remote) Commit(ctx context.Context, id string, c session.Commit) error {
	_, err := r.call(ctx, "DoCommit", Call{ID: id, Commit: c})
	return err
}

func (r *remote) Heads(ctx context.Context, q session.HeadQuery) iter.Seq2[session.Head, error] {
	return func(yield func(session.Head, error) bool) {
		a, err := r.call(ctx, "GetHeads", Call{Query: q})
		for h := range slices.Values(a.Heads) {
			if ctx.Err() != nil || !yield(h, nil) {
				return
			}
		}
		if err != nil {
			yield(session.Head{}, err)
		}
	}
}

func (r *remote) Close() error {
	_, err := r.call(context.Background(), "Shut", Call{})
	return err
}
