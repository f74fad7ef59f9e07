package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

func begin(t *testing.T, s session.Store, opts *session.ConversationOptions) *session.Conversation {
	t.Helper()
	c, err := session.Begin(t.Context(), s, "s", opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func appendText(t *testing.T, c *session.Conversation, texts ...string) error {
	t.Helper()
	var m []session.Message
	for _, text := range texts {
		m = append(m, session.UserText(text))
	}
	return c.Append(t.Context(), m...)
}

func conversationTexts(c *session.Conversation) (texts []string) {
	for _, m := range c.Messages() {
		texts = append(texts, m.Text())
	}
	return texts
}

func TestConversationWritesThrough(t *testing.T) {
	for name, store := range map[string]session.Store{"log": memstore.New(nil), "plain": &plainStore{memstore.New(nil)}} {
		t.Run(name, func(t *testing.T) {
			c := begin(t, store, nil)
			for _, batch := range [][]string{{"a"}, {"b", "c"}, nil} {
				if err := appendText(t, c, batch...); err != nil {
					t.Fatal(err)
				}
			}
			want := []string{"a", "b", "c"}
			if got := conversationTexts(c); !slices.Equal(got, want) {
				t.Errorf("Messages() = %q, want %q", got, want)
			}
			if got := texts(t, store, "s"); !slices.Equal(got, want) {
				t.Errorf("the store has %q, want %q", got, want)
			}
			c.Messages()[0].Content[0].(*session.TextBlock).Text = "changed"
			if got := conversationTexts(c); !slices.Equal(got, want) {
				t.Errorf("Messages() shares with the conversation: %q", got)
			}
			if got := conversationTexts(begin(t, store, nil)); !slices.Equal(got, want) {
				t.Errorf("another conversation begins with %q, want %q", got, want)
			}
			if err := c.Append(t.Context(), session.UserText("bad \xff")); !errors.Is(err, session.ErrInvalidMessage) {
				t.Errorf("Append of an invalid message = %v, want ErrInvalidMessage", err)
			}
			if err := c.End(t.Context()); err != nil {
				t.Error(err)
			}
			if err := appendText(t, c, "late"); !errors.Is(err, session.ErrClosed) {
				t.Errorf("Append after End = %v, want ErrClosed", err)
			}
			if got := texts(t, store, "s"); !slices.Equal(got, want) {
				t.Errorf("then the store has %q, want %q", got, want)
			}
		})
	}
}

func TestConversationConflicts(t *testing.T) {
	for name, test := range map[string]struct {
		store      func() session.Store
		onConflict session.OnConflict
		other      func(*testing.T, session.Store)
		want       []string // nil: ErrConflict
	}{
		"fail":             {log, session.ConflictFail, otherAppends, nil},
		"fail, plain":      {plain, session.ConflictFail, otherAppends, nil},
		"reload":           {log, session.ConflictReload, otherAppends, []string{"a", "other", "mine"}},
		"reload, plain":    {plain, session.ConflictReload, otherAppends, []string{"a", "other", "mine"}},
		"reload, replaced": {log, session.ConflictReload, otherReplaces, nil},
		"append":           {log, session.ConflictAppend, otherAppends, []string{"a", "other", "mine"}},
		"append, replaced": {log, session.ConflictAppend, otherReplaces, []string{"new", "mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := test.store()
			save(t, store, "s", "a")
			c := begin(t, store, &session.ConversationOptions{OnConflict: test.onConflict})
			test.other(t, store)
			before := texts(t, store, "s")
			err := appendText(t, c, "mine")
			after := texts(t, store, "s")
			if test.want == nil {
				if !errors.Is(err, session.ErrConflict) || !slices.Equal(after, before) {
					t.Errorf("Append = %v, and the store has %q; want ErrConflict and %q", err, after, before)
				}
				return
			}
			if err != nil || !slices.Equal(after, test.want) || !slices.Equal(conversationTexts(c), test.want) {
				t.Errorf("Append = %v, the store has %q, the conversation %q; want %q", err, after, conversationTexts(c), test.want)
			}
			if err := appendText(t, c, "more"); err != nil {
				t.Errorf("the next Append = %v", err)
			}
		})
	}
}

func log() session.Store   { return memstore.New(nil) }
func plain() session.Store { return &plainStore{memstore.New(nil)} }

func otherAppends(t *testing.T, s session.Store) {
	m, err := s.Load(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Save(t.Context(), "s", append(m, session.UserText("other"))); err != nil {
		t.Fatal(err)
	}
}

func otherReplaces(t *testing.T, s session.Store) { save(t, s, "s", "new") }

func TestConversationsOnAPlainStoreLoseNothing(t *testing.T) {
	store := plain()
	const writers, each = 8, 20
	var wg sync.WaitGroup
	for w := range writers {
		c := begin(t, store, &session.ConversationOptions{OnConflict: session.ConflictReload})
		wg.Go(func() {
			for i := range each {
				if err := appendText(t, c, fmt.Sprint(w, " ", i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(texts(t, store, "s")); got != writers*each {
		t.Errorf("%d messages, want %d", got, writers*each)
	}
}

func TestConversationLease(t *testing.T) {
	store := memstore.New(nil)
	opts := &session.ConversationOptions{Lease: true}
	c := begin(t, store, opts)
	if _, err := session.Begin(t.Context(), store, "s", opts); !errors.Is(err, session.ErrLocked) {
		t.Errorf("Begin of a session whose lease is taken = %v, want ErrLocked", err)
	}
	if err := c.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-c.Lost()
	if err := begin(t, store, opts).End(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := session.Begin(t.Context(), plain(), "s", opts); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Begin with a lease on a plain store = %v, want ErrUnsupported", err)
	}
	failing := &flakyStore{Backend: store, fail: map[string]int{"read": 1}}
	if _, err := session.Begin(t.Context(), failing, "s", opts); !errors.Is(err, errDown) {
		t.Errorf("Begin when the load fails = %v", err)
	}
	if err := begin(t, store, opts).End(t.Context()); err != nil {
		t.Errorf("a Begin that failed kept the lease: %v", err)
	}
}

func TestConversationRewindsAndForks(t *testing.T) {
	store := memstore.New(nil)
	c := begin(t, store, nil)
	if err := c.Append(t.Context(), turnsHistory()...); err != nil {
		t.Fatal(err)
	}
	info, err := c.Fork(t.Context(), "fork")
	if err != nil || info.Messages != 7 || info.Parent != "s" {
		t.Errorf("Fork = %+v, %v", info, err)
	}
	removed, err := c.Rewind(t.Context(), 1)
	if err != nil || len(removed) != 2 {
		t.Errorf("Rewind(1) removed %d messages, %v; want 2", len(removed), err)
	}
	if err := appendText(t, c, "another way"); err != nil {
		t.Fatal(err)
	}
	want := append(turnsHistory()[:5], session.UserText("another way"))
	if got, _ := store.Load(t.Context(), "s"); !session.EqualMessages(got, want) || !session.EqualMessages(c.Messages(), want) {
		t.Errorf("after a rewind the store has %v", got)
	}
	if _, err := c.Rewind(t.Context(), 0); !errors.Is(err, session.ErrInvalidOption) {
		t.Errorf("Rewind(0) = %v, want ErrInvalidOption", err)
	}
}

// The view of a history that a killed process left is valid, and what is stored
// stays as it is: C42.
func TestConversationViewIsValid(t *testing.T) {
	store := memstore.New(nil)
	left := []session.Message{session.UserText("run it"),
		session.NewMessage(session.RoleAssistant, session.Text("running"), session.ToolUse("t1", "bash", `{"cmd":"./x"}`))}
	if err := store.Save(t.Context(), "s", left); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c := begin(t, store, &session.ConversationOptions{Policy: mustWindow(t, 50)})
		if err := appendText(t, c, "go on"); err != nil {
			t.Fatal(err)
		}
		view, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*session.Profile{session.Anthropic, session.OpenAI, session.BedrockConverse, session.Gemini} {
			if err := session.Validate(view, p); err != nil {
				t.Errorf("the view is not valid for %s: %v", p.Name(), err)
			}
		}
	}
	got, err := store.Load(t.Context(), "s")
	if err != nil || !session.EqualMessages(got[:2], left) || len(got) != 5 {
		t.Errorf("the store has %v, %v", got, err)
	}
}

func TestConversationOnErrorDecides(t *testing.T) {
	s := &flakyStore{Backend: memstore.New(nil), fail: map[string]int{}}
	told := 0
	c := begin(t, s, &session.ConversationOptions{Retries: -1, OnError: func(_ context.Context, err error) error {
		told++
		if !errors.Is(err, errDown) {
			t.Errorf("OnError is told %v", err)
		}
		return nil
	}})
	s.fail["append"] = 1
	if err := appendText(t, c, "not stored"); err != nil || told != 1 {
		t.Errorf("Append = %v after OnError was told %d times, want nil after 1", err, told)
	}
	if got := conversationTexts(c); !slices.Equal(got, []string{"not stored"}) {
		t.Errorf("Messages() = %q", got)
	}
}

// readCounter counts the reads of a store.
type readCounter struct {
	session.Backend
	reads int
}

func (s *readCounter) Read(ctx context.Context, id string, o *session.ReadOptions) (session.Snapshot, error) {
	s.reads++
	return s.Backend.Read(ctx, id, o)
}

// No policy for conflicts reads the history back while there are none.
func TestConversationAppendsWithoutReading(t *testing.T) {
	for _, onConflict := range []session.OnConflict{session.ConflictFail, session.ConflictReload, session.ConflictAppend} {
		s := &readCounter{Backend: memstore.New(nil)}
		c := begin(t, s, &session.ConversationOptions{OnConflict: onConflict})
		for range 5 {
			if err := appendText(t, c, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if s.reads != 1 || len(c.Messages()) != 5 {
			t.Errorf("OnConflict %d: %d reads for five appends and %d messages, want the one of Begin and 5", onConflict, s.reads, len(c.Messages()))
		}
	}
}
