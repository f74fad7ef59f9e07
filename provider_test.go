package session_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/memstore"
)

// provider is a server that answers as a model's would, and records what it was
// sent.
type provider struct {
	*httptest.Server
	mu       sync.Mutex
	requests [][]string
}

func newProvider(t *testing.T) *provider {
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request []string
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			m, err := session.DecodeMessage(lines.Bytes())
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			request = append(request, m.Text())
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests = append(p.requests, request)
		answer, _ := session.AppendMessage(nil, session.AssistantText(fmt.Sprint("answer ", len(p.requests))))
		w.Write(answer)
	}))
	t.Cleanup(p.Close)
	return p
}

// Invoke implements session.Model over the network.
func (p *provider) Invoke(ctx context.Context, r session.ModelRequest) iter.Seq2[session.ModelEvent, error] {
	return func(yield func(session.ModelEvent, error) bool) {
		m, err := p.post(ctx, r.Messages)
		yield(session.ModelEvent{Message: &m}, err)
	}
}

func (p *provider) post(ctx context.Context, messages []session.Message) (session.Message, error) {
	var body []byte
	for _, m := range messages {
		var err error
		if body, err = session.AppendMessage(body, m); err != nil {
			return session.Message{}, err
		}
		body = append(body, '\n')
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return session.Message{}, err
	}
	response, err := p.Client().Do(request)
	if err != nil {
		return session.Message{}, err
	}
	defer response.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(response.Body); err != nil {
		return session.Message{}, err
	}
	return session.DecodeMessage(answer.Bytes())
}

// What reaches the provider is the loaded history, through the policy.
func TestWhatReachesTheProvider(t *testing.T) {
	store := memstore.New(nil)
	p := newProvider(t)
	for n := range 6 {
		// A registry each time, as in a new process: the store alone remembers.
		hooks := session.NewHookRegistry(plugin(store, nil),
			session.NewTrimmingPlugin(session.TrimmingPluginOptions{Policy: mustWindow(t, 2)}))
		if err := drain(session.Run(withSession(t.Context(), "s"), p, session.UserText(fmt.Sprint("question ", n+1)), &session.RunOptions{Hooks: hooks})); err != nil {
			t.Fatal(err)
		}
	}
	for n, got := range p.requests {
		want := []string{fmt.Sprint("question ", n+1)}
		if n > 0 {
			want = append([]string{fmt.Sprint("question ", n), fmt.Sprint("answer ", n)}, want...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("request %d reached the provider as %q, want the last two turns %q", n+1, got, want)
		}
	}
	if got := loaded(t, store, "s"); len(got) != 12 {
		t.Errorf("the store has %d messages, want all 12", len(got))
	}
}
