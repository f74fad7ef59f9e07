package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/sqlitestore"
)

// asVictim makes the test binary a chat on the store it names, whose calculator
// kills the process.
const asVictim = "SESSION_EXAMPLE_AS_VICTIM"

func victim(storeURL string) {
	store, err := stores.Open(context.Background(), storeURL)
	if err != nil {
		panic(err)
	}
	policy, err := session.NewSlidingWindowManager(session.SlidingWindowOptions{WindowSize: 100})
	if err != nil {
		panic(err)
	}
	kill := newTool("calculator", "", "{}", func(context.Context, json.RawMessage) (string, error) {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			self.Kill()
		}
		select {} // until the signal arrives
	})
	c := &chat{store: store, sessionID: "ada", model: rules{}, tools: []session.Tool{kill}, policy: policy, clock: time.Now}
	c.turn(context.Background(), "What is 2 * 3?") // does not return
}

// A process that is killed between a call and its result costs neither the
// session nor what it had stored.
func TestKillBetweenCallAndResult(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process can't kill itself on Windows")
	}
	file := filepath.Join(t.TempDir(), "chat.db")
	url := "sqlite:" + filepath.ToSlash(file)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), asVictim+"="+url)
	if err := cmd.Run(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the process was not killed: %v", err)
	}
	store, err := sqlitestore.Open(t.Context(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	left, err := store.Load(t.Context(), "ada")
	if err != nil || len(left) != 2 || left[0].Text() != "What is 2 * 3?" || len(left[1].ToolUses()) != 1 {
		t.Fatalf("the store has %v, %v, want the prompt and the call", left, err)
	}
	// The dead process's lease lasts for its term; a clock that is ahead is
	// past it.
	c := newChat(t)
	ahead, err := sqlitestore.Open(t.Context(), file, &sqlitestore.Options{Clock: func() time.Time { return time.Now().Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	defer ahead.Close()
	c.store = ahead
	sent := 0
	c.model = modelFunc(func(ctx context.Context, view []session.Message) (session.Message, error) {
		sent++
		for _, p := range []*session.Profile{session.Anthropic, session.OpenAI, session.BedrockConverse, session.Gemini} {
			if err := session.Validate(view, p); err != nil {
				t.Errorf("the model is sent what %s refuses: %v", p.Name(), err)
			}
		}
		return rules{}.Reply(ctx, view)
	})
	if got := ask(t, c, "And what is 1 + 1?"); got != "1 + 1 = 2." || sent != 2 {
		t.Errorf("the next turn answers %q after %d model calls, want the sum after 2", got, sent)
	}
	got, err := store.Load(t.Context(), "ada")
	if err != nil || !session.EqualMessages(got[:2], left) || len(got) != 6 {
		t.Errorf("then the store has %v, %v; want what was left, and the four messages of the turn", got, err)
	}
}
