package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/sqlitestore"
)

// asChat makes the test binary be the chat.
const asChat = "SESSION_EXAMPLE_AS_CHAT"

func TestMain(m *testing.M) {
	if os.Getenv(asChat) != "" {
		main()
		return
	}
	if url := os.Getenv(asVictim); url != "" {
		victim(url)
		return
	}
	os.Exit(m.Run())
}

// command returns the chat as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = append(os.Environ(), asChat+"=1")
	cmd.Dir = t.TempDir()
	return cmd
}

// result is what a process did.
type result struct {
	stdout, stderr string
	code           int
}

// start runs the chat as a process.
func start(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// call runs the chat in this process.
func call(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	code := exitCode(err, &stderr)
	return result{stdout.String(), stderr.String(), code}
}

func TestProcessesShareASession(t *testing.T) {
	store := "sqlite:" + filepath.ToSlash(filepath.Join(t.TempDir(), "chat.db"))
	for _, turn := range []struct{ prompt, want string }{
		{"My name is Ada and I like tea.", "Nice to meet you, Ada. I'll remember that you like tea.\n"},
		{"What is my name?", "Your name is Ada.\n"},
		{"What do I like?", "You like tea.\n"},
	} {
		want := result{stdout: turn.want}
		if got := start(t, "", "-store", store, "-session", "ada", turn.prompt); got != want {
			t.Errorf("chat %q = %+v, want %+v", turn.prompt, got, want)
		}
	}
	want := result{stdout: "I don't know. You have not told me.\n"}
	if got := start(t, "", "-store", store, "-session", "grace", "What is my name?"); got != want {
		t.Errorf("chat in another session = %+v, want %+v", got, want)
	}
}

func TestInteractive(t *testing.T) {
	got := call(t, "My name is Ada.\n\n/history\n/help\nWhat is my name?\n/quit\nnever read\n", "-store", "memory:", "-session", "ada")
	want := result{stdout: "> Nice to meet you, Ada.\n" +
		"> > 1 user: My name is Ada.\n2 assistant: Nice to meet you, Ada.\n" +
		"> There are the commands /history and /quit.\n" +
		"> Your name is Ada.\n> "}
	if got != want {
		t.Errorf("chat = %+v, want %+v", got, want)
	}
	// A last line without an end counts too.
	got = call(t, "Hello", "-store", "memory:", "-session", "ada")
	if want := (result{stdout: "> Hello! What is your name?\n> \n"}); got != want {
		t.Errorf("chat = %+v, want %+v", got, want)
	}
}

func TestCommandLineErrors(t *testing.T) {
	missing := "sqlite:" + filepath.ToSlash(filepath.Join(t.TempDir(), "missing", "chat.db"))
	tests := []struct {
		name string
		args []string
		code int
		want string // in stderr
	}{
		{"NoSession", []string{"hi"}, 2, "-session needs a name"},
		{"EmptySession", []string{"-session", "", "hi"}, 2, "-session needs a name"},
		{"LongSession", []string{"-session", strings.Repeat("x", session.MaxIDBytes+1), "hi"}, 2, "invalid session ID"},
		{"NoWindow", []string{"-window", "0", "-session", "ada", "hi"}, 2, "-window"},
		{"EmptyText", []string{"-session", "ada", " "}, 2, "the text is empty"},
		{"UnknownFlag", []string{"-sesion", "ada", "hi"}, 2, "-sesion"},
		{"UnknownScheme", []string{"-store", "paper:chat", "-session", "ada", "hi"}, 2, "dynamodb, file, memory"},
		{"NoScheme", []string{"-store", "chat.db", "-session", "ada", "hi"}, 2, "dynamodb, file, memory"},
		{"UnknownParameter", []string{"-store", "sqlite:x.db?colour=red", "-session", "ada", "hi"}, 2, "colour"},
		{"MissingFolder", []string{"-store", missing, "-session", "ada", "hi"}, 1, "folder"},
		{"BadText", []string{"-store", "memory:", "-session", "ada", "\xff"}, 1, "invalid message"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := call(t, "", test.args...)
			if got.code != test.code || got.stdout != "" || !strings.Contains(got.stderr, test.want) {
				t.Errorf("chat %.40q = %+v, want code %d and %q in stderr alone", test.args, got, test.code, test.want)
			}
		})
	}
	if got := call(t, "", "-help"); got.code != 0 || !strings.Contains(got.stderr, "usage: chat") {
		t.Errorf("chat -help = %+v, want code 0 and the usage", got)
	}
}

func TestSecondProcessOnASession(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.db")
	store, err := sqlitestore.Open(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	lease, err := store.Lock(t.Context(), "ada", nil)
	if err != nil {
		t.Fatal(err)
	}
	url := "sqlite:" + filepath.ToSlash(file)
	got := start(t, "", "-store", url, "-session", "ada", "Hello")
	if got.code != 1 || !strings.HasPrefix(got.stderr, "chat: another process has this session") {
		t.Errorf("chat in a locked session = %+v, want code 1 and the reason", got)
	}
	got = call(t, "Hello\n/quit\n", "-store", url, "-session", "ada")
	if got.code != 1 || got.stdout != "> > " || !strings.HasPrefix(got.stderr, "chat: another process has this session") {
		t.Errorf("interactive chat in a locked session = %+v, want code 1 and the reason", got)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := start(t, "", "-store", url, "-session", "ada", "Hello"); got.code != 0 {
		t.Errorf("chat after the release = %+v, want code 0", got)
	}
}

// A database of the chat may end in a call without a result.
func TestProcessAfterAKilledOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.db")
	store, err := sqlitestore.Open(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Append(t.Context(), "ada", []session.Message{
		session.UserText("What is 1 + 1?"),
		session.NewMessage(session.RoleAssistant, session.ToolUse("call_1_1", "calculator", `{"expression":"1 + 1"}`)),
	}, nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	got := start(t, "What is 2 + 2?\n/history\n", "-store", "sqlite:"+filepath.ToSlash(file), "-session", "ada")
	for _, want := range []string{"2 + 2 = 4.", "2 assistant: [call_1_1 calculator", "3 user: What is 2 + 2?"} {
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("chat = %+v, want code 0 and %q", got, want)
		}
	}
}

func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("on Windows a process can't send another an interrupt")
	}
	cmd := command(t, "-store", "memory:", "-session", "ada")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write([]byte("Hello\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil { // the answer
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // the exit code is looked at below
	if code := cmd.ProcessState.ExitCode(); code != 1 || stderr.String() != "chat: interrupted\n" {
		t.Errorf("interrupted chat: code %d, stderr %q, want 1 and \"chat: interrupted\"", code, &stderr)
	}
}
