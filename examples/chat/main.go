// Chat is a small assistant that remembers. Each turn is stored as it happens,
// so the next process goes on where this one ended:
//
//	chat -session ada "My name is Ada and I like tea."
//	chat -session ada "What is my name?"
//
// Without a text it reads prompts from standard input, a line each, up to
// /quit or the end. /history shows the stored messages.
//
// Its model is made of rules and needs no network. It knows what the history
// says and nothing else; it can call a calculator and a clock.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/dynamostore"
	"github.com/holdfast-go/session/filestore"
	"github.com/holdfast-go/session/memstore"
	"github.com/holdfast-go/session/redisstore"
	"github.com/holdfast-go/session/sqlitestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

var (
	// errUsage is a command line that can't be followed.
	errUsage = errors.New("usage")
	// errReported is a failure that was reported already.
	errReported = errors.New("a turn failed")
)

// exitCode reports an error and returns the exit code for it.
func exitCode(err error, stderr io.Writer) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return 2 // the flag package or run has said why
	case errors.Is(err, errReported):
		return 1
	}
	report(stderr, err)
	return 1
}

func report(stderr io.Writer, err error) {
	var failed *session.Error
	switch {
	case !errors.Is(err, context.Canceled):
	case errors.As(err, &failed):
		err = fmt.Errorf("interrupted: %w", err)
	default:
		err = errors.New("interrupted")
	}
	fmt.Fprintln(stderr, "chat:", err)
}

// stores are the backends that -store may choose.
var stores = session.Openers{
	"dynamodb":      dynamostore.OpenURL,
	"file":          filestore.OpenURL,
	"memory":        memstore.OpenURL,
	"redis":         redisstore.OpenURL,
	"rediss":        redisstore.OpenURL,
	"redis+cluster": redisstore.OpenURL,
	"sqlite":        sqlitestore.OpenURL,
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("chat", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: chat -session NAME [-store URL] [-window TURNS] [text]\n")
		flags.PrintDefaults()
	}
	id := flags.String("session", "", "the `name` of the session")
	storeURL := flags.String("store", "sqlite:chat.db", "the store's `URL`: sqlite:FILE, file:DIR, dynamodb://TABLE, redis://HOST or memory:")
	window := flags.Int("window", 100, "how many of the last `turns` the model is shown at most")
	overflow := flags.Bool("overflow", false, "let the first model call fail as if the history were too long")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	usage := func(why string) error {
		fmt.Fprintln(stderr, "chat:", why)
		flags.Usage()
		return errUsage
	}
	text := strings.Join(flags.Args(), " ")
	if *id == "" {
		return usage("-session needs a name")
	}
	if err := session.CheckID(*id); err != nil {
		return usage("-session: " + err.Error())
	}
	if flags.NArg() > 0 && strings.TrimSpace(text) == "" {
		return usage("the text is empty")
	}
	policy, err := session.NewSlidingWindowManager(session.SlidingWindowOptions{WindowSize: *window})
	if err != nil {
		return usage("-window: " + err.Error())
	}
	store, err := stores.Open(ctx, *storeURL)
	if errors.Is(err, session.ErrInvalidOption) {
		return usage("-store: " + err.Error())
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()

	c := &chat{store: store, sessionID: *id, model: rules{}, tools: newTools(time.Now), policy: policy, clock: time.Now}
	if *overflow {
		c.model = &overflowing{model: c.model}
	}
	if flags.NArg() == 0 {
		return c.interactive(ctx, stdin, stdout, stderr)
	}
	answer, err := c.turn(ctx, text)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, answer)
	return err
}

// interactive answers lines until /quit, the end of stdin or an interrupt. A
// turn that fails is reported, and the next may succeed.
func (c *chat) interactive(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	lines := readLines(stdin)
	var failed error
	for {
		fmt.Fprint(stdout, "> ")
		var l line
		select {
		case <-ctx.Done():
			fmt.Fprintln(stdout)
			return ctx.Err()
		case l = <-lines:
		}
		if l.err != nil {
			fmt.Fprintln(stdout)
			if l.err == io.EOF {
				return failed
			}
			return l.err
		}
		var err error
		switch text := strings.TrimSpace(l.text); {
		case text == "":
		case text == "/quit":
			return failed
		case text == "/history":
			err = c.show(ctx, stdout)
		case strings.HasPrefix(text, "/"):
			fmt.Fprintln(stdout, "There are the commands /history and /quit.")
		default:
			var answer string
			if answer, err = c.turn(ctx, text); err == nil {
				fmt.Fprintln(stdout, answer)
			}
		}
		if ctx.Err() != nil {
			return cmp.Or(err, ctx.Err())
		}
		if err != nil {
			report(stderr, err)
			failed = errReported
		}
	}
}

// show prints the stored messages.
func (c *chat) show(ctx context.Context, w io.Writer) error {
	messages, err := c.store.Load(ctx, c.sessionID)
	if err != nil {
		return err
	}
	for i, m := range messages {
		if _, err := fmt.Fprintf(w, "%d %s\n", i+1, m); err != nil {
			return err
		}
	}
	return nil
}

// line is a line that was read, or why there is none.
type line struct {
	text string
	err  error
}

// readLines reads lines in the background, where an interrupt does not have to
// wait for the next one.
func readLines(r io.Reader) <-chan line {
	lines := make(chan line)
	go func() {
		b := bufio.NewReader(r)
		for {
			text, err := b.ReadString('\n')
			if text != "" {
				lines <- line{text: text}
			}
			if err != nil {
				lines <- line{err: err}
				return
			}
		}
	}()
	return lines
}
