package session_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

// modelFunc is a Model that answers with one message at once.
type modelFunc func(ctx context.Context, r session.ModelRequest) (session.Message, error)

func (f modelFunc) Invoke(ctx context.Context, r session.ModelRequest) iter.Seq2[session.ModelEvent, error] {
	return func(yield func(session.ModelEvent, error) bool) {
		m, err := f(ctx, r)
		yield(session.ModelEvent{Message: &m}, err)
	}
}

// script returns a model that gives the answers one after another, and notes
// what it was sent.
type script struct {
	mu      sync.Mutex
	answers []session.Message
	sent    [][]session.Message
}

func (s *script) Invoke(ctx context.Context, r session.ModelRequest) iter.Seq2[session.ModelEvent, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, session.CloneMessages(r.Messages))
	answer := session.AssistantText("no more answers")
	if len(s.answers) > 0 {
		answer, s.answers = s.answers[0], s.answers[1:]
	}
	return func(yield func(session.ModelEvent, error) bool) {
		yield(session.ModelEvent{Message: &answer}, nil)
	}
}

type sessionIDKey struct{}

func withSession(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, sessionIDKey{}, id)
}

func resolve(ctx context.Context) (string, error) {
	id, ok := ctx.Value(sessionIDKey{}).(string)
	if !ok {
		return "", errors.New("no session in the context")
	}
	return id, nil
}

func plugin(store session.Store, opts *session.ConversationOptions) *session.SessionPlugin {
	return session.NewSessionPlugin(session.SessionPluginOptions{Store: store, ResolveID: resolve, Conversation: opts})
}

// drain runs to the end and returns the error that ended it.
func drain(events iter.Seq2[session.RunEvent, error]) error {
	for _, err := range events {
		if err != nil {
			return err
		}
	}
	return nil
}

func echoTool() session.Tool {
	return session.Tool{Name: "echo", Call: func(_ context.Context, use *session.ToolUseBlock) ([]session.Block, error) {
		return []session.Block{session.Text(string(use.Input))}, nil
	}}
}

func loaded(t *testing.T, s session.Store, id string) []string {
	t.Helper()
	m, err := s.Load(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range m {
		out = append(out, m.String())
	}
	return out
}

// plainStore hides all of a store but Load and Save.
type plainStore struct{ session.Store }

// Each run stores its new messages, not the history again: C33.
func TestSessionPluginStoresEachMessageOnce(t *testing.T) {
	for name, store := range map[string]session.Store{"log": memstore.New(nil), "plain": &plainStore{memstore.New(nil)}} {
		t.Run(name, func(t *testing.T) {
			var want []string
			p := plugin(store, nil)
			for n := range 3 {
				if n == 2 {
					p = plugin(store, nil)
				}
				model := &script{answers: []session.Message{
					session.NewMessage(session.RoleAssistant, session.ToolUse(fmt.Sprint("t", n), "echo", `{"n":1}`)),
					session.AssistantText(fmt.Sprint("R", n)),
				}}
				r := session.NewHookRegistry(p)
				err := drain(session.Run(withSession(t.Context(), "s"), model, session.UserText(fmt.Sprint("Q", n)),
					&session.RunOptions{Hooks: r, Tools: []session.Tool{echoTool()}}))
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, fmt.Sprint("user: Q", n), fmt.Sprintf(`assistant: [t%d echo({"n":1})]`, n),
					fmt.Sprintf(`tool: [t%d -> {"n":1}]`, n), fmt.Sprint("assistant: R", n))
				if got := loaded(t, store, "s"); !slices.Equal(got, want) {
					t.Fatalf("after run %d: %q, want %q", n, got, want)
				}
				// What the model saw: all that was before, and the prompt.
				if got := len(model.sent[0]); got != 4*n+1 {
					t.Errorf("the model saw %d messages, want %d", got, 4*n+1)
				}
			}
		})
	}
}

func TestPromptIsStoredBeforeTheModelIsCalled(t *testing.T) {
	store := memstore.New(nil)
	model := modelFunc(func(ctx context.Context, _ session.ModelRequest) (session.Message, error) {
		if got := loaded(t, store, "s"); !slices.Equal(got, []string{"user: hi"}) {
			t.Errorf("when the model is called the store has %q, want the prompt", got)
		}
		return session.Message{}, errors.New("no answer today")
	})
	err := drain(session.Run(withSession(t.Context(), "s"), model, session.UserText("hi"), &session.RunOptions{Hooks: session.NewHookRegistry(plugin(store, nil))}))
	if err == nil || !strings.Contains(err.Error(), "no answer today") {
		t.Errorf("Run = %v, want the model's error", err)
	}
}

// 64 streams over 8 sessions on one plugin and one registry, several on each
// session at once: no history gets what belongs to another, and each gets all
// that is its own. C37.
func TestStreamsAreNotMixed(t *testing.T) {
	const sessions, streams = 8, 8
	store := memstore.New(nil)
	hooks := session.NewHookRegistry(
		plugin(store, &session.ConversationOptions{OnConflict: session.ConflictReload}),
		session.NewTrimmingPlugin(session.TrimmingPluginOptions{Policy: mustWindow(t, 100)}))
	model := modelFunc(func(ctx context.Context, r session.ModelRequest) (session.Message, error) {
		id, _ := resolve(ctx)
		secret := ctx.Value(secretKey{}).(string)
		for _, m := range r.Messages {
			for _, b := range m.ToolResults() {
				if b.Text() == `"`+secret+`"` {
					return session.AssistantText("done " + secret), nil
				}
			}
			if s := m.String(); strings.Contains(s, "!") && !strings.Contains(s, id+"!") {
				t.Errorf("a stream of %s sees %v", id, m)
			}
		}
		if err := session.Validate(r.Messages, session.AnyProvider); err != nil {
			t.Errorf("a stream of %s sends an invalid view: %v", id, err)
		}
		return session.NewMessage(session.RoleAssistant, session.ToolUse("call-"+secret, "echo", `"`+secret+`"`)), nil
	})
	var wg sync.WaitGroup
	want := make(map[string][]string)
	for n := range sessions * streams {
		id := fmt.Sprintf("session-%d", n%sessions)
		secret := fmt.Sprintf("%s!%d", id, n)
		want[id] = append(want[id], "user: prompt "+secret, fmt.Sprintf("assistant: [call-%s echo(%q)]", secret, secret),
			fmt.Sprintf("tool: [call-%s -> %q]", secret, secret), "assistant: done "+secret)
		wg.Go(func() {
			ctx := context.WithValue(withSession(t.Context(), id), secretKey{}, secret)
			if err := drain(session.Run(ctx, model, session.UserText("prompt "+secret),
				&session.RunOptions{Hooks: hooks, Tools: []session.Tool{echoTool()}})); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for id, want := range want {
		got := loaded(t, store, id)
		for i := 0; i < len(want); i += 4 { // each stream's own four, in order
			at := -1
			for _, w := range want[i : i+4] {
				next := slices.Index(got[at+1:], w)
				if next < 0 {
					t.Errorf("%s lacks %q behind message %d", id, w, at+1)
					break
				}
				at += 1 + next
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s holds %d messages, want %d", id, len(got), len(want))
		}
	}
}

type secretKey struct{}

func mustWindow(t *testing.T, n int) session.HistoryPolicy {
	t.Helper()
	p, err := session.NewSlidingWindowManager(session.SlidingWindowOptions{WindowSize: n})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAStreamInsideItsOwnSessionIsLockedOut(t *testing.T) {
	store := memstore.New(nil)
	hooks := session.NewHookRegistry(plugin(store, &session.ConversationOptions{Lease: true}))
	var inner error
	tool := session.Tool{Name: "agent", Call: func(ctx context.Context, _ *session.ToolUseBlock) ([]session.Block, error) {
		inner = drain(session.Run(ctx, &script{}, session.UserText("inner"), &session.RunOptions{Hooks: hooks}))
		return nil, inner
	}}
	model := &script{answers: []session.Message{
		session.NewMessage(session.RoleAssistant, session.ToolUse("t1", "agent", "{}")), session.AssistantText("ok")}}
	if err := drain(session.Run(withSession(t.Context(), "s"), model, session.UserText("outer"),
		&session.RunOptions{Hooks: hooks, Tools: []session.Tool{tool}})); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(inner, session.ErrLocked) {
		t.Errorf("the inner stream = %v, want ErrLocked", inner)
	}
	if got := len(loaded(t, store, "s")); got != 4 {
		t.Errorf("%d messages, want the outer stream's 4", got)
	}
}

// flakyStore fails as it is told.
type flakyStore struct {
	session.Backend
	mu   sync.Mutex
	fail map[string]int // by method: how many calls more
}

var errDown = errors.New("the store is down")

func (s *flakyStore) failing(method string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[method]--
	return s.fail[method] >= 0
}

func (s *flakyStore) Append(ctx context.Context, id string, m []session.Message, o *session.WriteOptions) (session.Version, error) {
	if s.failing("append") {
		return "", errDown
	}
	v, err := s.Backend.Append(ctx, id, m, o)
	if s.failing("append reply") {
		return "", errDown
	}
	return v, err
}

func (s *flakyStore) Read(ctx context.Context, id string, o *session.ReadOptions) (session.Snapshot, error) {
	if s.failing("read") {
		return session.Snapshot{}, errDown
	}
	return s.Backend.Read(ctx, id, o)
}

// A failing store fails the turn, and costs nothing that was stored: C38.
func TestStoreErrorsReachTheCaller(t *testing.T) {
	turn := func(s session.Store, retries int, prompt string) error {
		hooks := session.NewHookRegistry(plugin(s, &session.ConversationOptions{Retries: retries}))
		session.OnAfter(hooks, func(context.Context, *session.AfterMessageAppendedHook) error { panic("a careless observer") })
		return drain(session.Run(withSession(t.Context(), "s"), &script{answers: []session.Message{session.AssistantText("re " + prompt)}},
			session.UserText(prompt), &session.RunOptions{Hooks: hooks}))
	}
	for name, test := range map[string]struct {
		method  string
		fails   int
		retries int
		lost    bool
	}{
		"append fails once and is retried":         {"append", 1, 0, false},
		"a lost reply is retried":                  {"append reply", 1, 0, false},
		"append fails without retries":             {"append", 1, -1, true},
		"append fails more often than are retries": {"append", 10, 2, true},
		"load fails": {"read", 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &flakyStore{Backend: memstore.New(nil), fail: map[string]int{}}
			if err := turn(s, 0, "one"); err == nil || !strings.Contains(err.Error(), "panicked") {
				t.Errorf("a panicking observer is not reported: %v", err)
			}
			before := loaded(t, s, "s")
			if len(before) != 2 {
				t.Fatalf("a panicking observer cost a message: %q", before)
			}
			s.fail[test.method] = test.fails
			err := turn(s, test.retries, "two")
			if errors.Is(err, errDown) != test.lost {
				t.Errorf("turn = %v, want the store's error: %v", err, test.lost)
			}
			clear(s.fail)
			after := loaded(t, s, "s")
			if !slices.Equal(after[:2], before) || !test.lost && len(after) != 4 {
				t.Errorf("then the store has %q", after)
			}
			turn(s, 0, "three")
			if got := loaded(t, s, "s"); got[len(got)-1] != "assistant: re three" {
				t.Errorf("the turn after that: %q", got)
			}
		})
	}
}
