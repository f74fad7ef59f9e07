package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// SessionIDResolver says which session a stream belongs to, from its context.
type SessionIDResolver func(ctx context.Context) (string, error)

// SessionPluginOptions are the options of NewSessionPlugin.
type SessionPluginOptions struct {
	// Store is where the histories are. A Log makes appends cheap. Required.
	Store Store
	// ResolveID says which session a stream belongs to. Required.
	ResolveID SessionIDResolver
	// Conversation says how to write; its Policy is not used. nil: defaults.
	Conversation *ConversationOptions
}

// SessionPlugin loads a session's history before a stream and stores each
// message as it is appended, the prompt before the model is called. An error of
// the store fails the stream, unless ConversationOptions.OnError decides
// otherwise. Its state belongs to the stream: one plugin serves any number of
// concurrent streams. A stream inside a stream of the same session gets
// ErrLocked.
type SessionPlugin struct{ opts SessionPluginOptions }

// NewSessionPlugin returns a plugin. A missing Store or ResolveID is reported
// by the first stream, as ErrInvalidOption.
func NewSessionPlugin(opts SessionPluginOptions) *SessionPlugin {
	o := ConversationOptions{}
	if opts.Conversation != nil {
		o = *opts.Conversation
	}
	o.Policy = nil
	opts.Conversation = &o
	return &SessionPlugin{opts}
}

// Name implements Plugin.
func (p *SessionPlugin) Name() string { return "session" }

// Tools implements Plugin: there are none.
func (p *SessionPlugin) Tools() []Tool { return nil }

// Init implements Plugin.
func (p *SessionPlugin) Init(r *HookRegistry) {
	OnBefore(r, p.beforeStream)
	OnBefore(r, p.beforeModelInvoke)
	OnAfter(r, p.afterMessageAppended)
	OnAfter(r, p.afterStream)
}

// Conversation returns the conversation of a stream, nil if it has none.
func (p *SessionPlugin) Conversation(s *Stream) *Conversation {
	if st := p.state(s); st != nil {
		return st.conversation
	}
	return nil
}

// sessionStream is what the plugin keeps for a stream.
type sessionStream struct {
	conversation *Conversation
	settled      bool // the history has been compared with what other hooks made of it
}

func (p *SessionPlugin) state(s *Stream) *sessionStream {
	st, _ := s.Value(p).(*sessionStream)
	return st
}

func (p *SessionPlugin) beforeStream(ctx context.Context, e *BeforeStreamHook) error {
	if p.opts.Store == nil || p.opts.ResolveID == nil {
		return fmt.Errorf("%w: SessionPlugin without a Store or a ResolveID", ErrInvalidOption)
	}
	id, err := p.opts.ResolveID(ctx)
	if err != nil {
		return fmt.Errorf("session: resolve the session ID: %w", err)
	}
	for outer := e.Stream.Parent(); outer != nil; outer = outer.Parent() {
		if c := p.Conversation(outer); c != nil && c.ID() == id {
			return wrapError("begin", id, fmt.Errorf("%w: by the stream that this one runs in", ErrLocked))
		}
	}
	c, err := Begin(ctx, p.opts.Store, id, p.opts.Conversation)
	if err != nil {
		return err
	}
	e.Stream.SetValue(p, &sessionStream{conversation: c})
	e.Stream.SetValue(summaryKeeperKey{}, c)
	if err := c.Append(ctx, e.Messages...); err != nil {
		return err
	}
	e.Messages = c.Messages()
	return nil
}

// beforeModelInvoke settles, before the first model call, what other hooks have
// made of the history.
func (p *SessionPlugin) beforeModelInvoke(ctx context.Context, e *BeforeModelInvokeHook) error {
	st := p.state(e.Stream)
	if st == nil || st.settled {
		return nil
	}
	st.settled = true
	return st.conversation.settle(ctx, e.History)
}

func (p *SessionPlugin) afterMessageAppended(ctx context.Context, e *AfterMessageAppendedHook) error {
	st := p.state(e.Stream)
	if st == nil {
		return nil
	}
	return st.conversation.appendOwned(ctx, []Message{e.Message}) // History is not to be changed
}

func (p *SessionPlugin) afterStream(ctx context.Context, e *AfterStreamHook) error {
	st := p.state(e.Stream)
	if st == nil {
		return nil
	}
	e.Stream.SetValue(p, nil)
	return st.conversation.End(ctx)
}

// TrimmingPluginOptions are the options of NewTrimmingPlugin.
type TrimmingPluginOptions struct {
	// Policy makes the view of each model call. Required.
	Policy HistoryPolicy
	// AutoRecover makes a smaller view after a call that failed with
	// ErrContextOverflow.
	AutoRecover bool
	// MaxRetries is how often in a stream. 0: 1.
	MaxRetries int
}

// TrimmingPlugin sends the model a view of the history that a policy makes,
// repaired so that every provider accepts it. The history stays whole. In a
// stream of a SessionPlugin summaries are kept with the session. The plugin's
// state belongs to the stream: one plugin serves any number of concurrent
// streams, and what a stream has learned of the model's limit, it keeps.
type TrimmingPlugin struct {
	opts     TrimmingPluginOptions
	noStream trimmedStream // for calls outside of any stream
}

// trimmedStream is what the plugin keeps for a stream.
type trimmedStream struct {
	mu      sync.Mutex
	policy  HistoryPolicy // as reduced by recoveries; nil: the plugin's
	view    []Message     // of the last call
	retries int
}

// NewTrimmingPlugin returns a plugin. A missing Policy is reported by the first
// model call, as ErrInvalidOption.
func NewTrimmingPlugin(opts TrimmingPluginOptions) *TrimmingPlugin {
	if opts.MaxRetries <= 0 {
		opts.MaxRetries = 1
	}
	return &TrimmingPlugin{opts: opts}
}

// Name implements Plugin.
func (p *TrimmingPlugin) Name() string { return "trimming" }

// Tools implements Plugin: there are none.
func (p *TrimmingPlugin) Tools() []Tool { return nil }

// Init implements Plugin.
func (p *TrimmingPlugin) Init(r *HookRegistry) {
	OnBefore(r, func(ctx context.Context, e *BeforeModelInvokeHook) (err error) {
		e.Messages, err = p.view(ctx, e.Stream, e.Messages)
		return err
	})
	OnAfter(r, func(_ context.Context, e *AfterStreamHook) error {
		e.Stream.SetValue(p, nil)
		return nil
	})
}

func (p *TrimmingPlugin) state(s *Stream) *trimmedStream {
	if s == nil {
		return &p.noStream
	}
	if st, ok := s.Value(p).(*trimmedStream); ok {
		return st
	}
	st := &trimmedStream{}
	s.SetValue(p, st)
	return st
}

func (p *TrimmingPlugin) view(ctx context.Context, s *Stream, messages []Message) ([]Message, error) {
	if p.opts.Policy == nil {
		return nil, fmt.Errorf("%w: TrimmingPlugin without a Policy", ErrInvalidOption)
	}
	if s != nil {
		if k, ok := s.Value(summaryKeeperKey{}).(SummaryKeeper); ok {
			ctx = WithSummaryKeeper(ctx, k)
		}
	}
	st := p.state(s)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.policy == nil {
		st.policy = p.opts.Policy
	}
	view, err := st.policy.Select(ctx, messages)
	if err != nil {
		return nil, err
	}
	st.view = Repair(view)
	return st.view, nil
}

// Recover implements Recoverer: after a model call that failed with an
// overflow it returns a smaller view, by the policy's Reducer, and the stream
// of ctx keeps that lower limit. It returns err itself if it is no overflow,
// if AutoRecover is not set or if the stream has no retries left, and
// ErrCannotShrink wrapping err if there is nothing smaller.
func (p *TrimmingPlugin) Recover(ctx context.Context, err error, messages []Message) ([]Message, error) {
	s := StreamFrom(ctx)
	st := p.state(s)
	smaller, stop := p.reduce(ctx, st, err, messages)
	if stop != nil {
		return nil, stop
	}
	before := st.size()
	st.setPolicy(smaller)
	view, viewErr := p.view(ctx, s, messages)
	if viewErr != nil {
		return nil, errors.Join(viewErr, err)
	}
	if EstimateTokens(view) >= before {
		return nil, fmt.Errorf("%w: %w", ErrCannotShrink, err)
	}
	return view, nil
}

// reduce returns the policy to go on with, or the error to stop with.
func (p *TrimmingPlugin) reduce(ctx context.Context, st *trimmedStream, err error, messages []Message) (HistoryPolicy, error) {
	if !p.opts.AutoRecover || !errors.Is(err, ErrContextOverflow) {
		return nil, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.retries >= p.opts.MaxRetries {
		return nil, err
	}
	st.retries++
	policy := st.policy
	if policy == nil {
		policy = p.opts.Policy
	}
	r, ok := policy.(Reducer)
	if !ok {
		return nil, fmt.Errorf("%w: %w", ErrCannotShrink, err)
	}
	smaller, reduceErr := r.Reduce(ctx, messages, st.view)
	if reduceErr != nil {
		return nil, fmt.Errorf("%w: %w", reduceErr, err)
	}
	return smaller, nil
}

func (st *trimmedStream) size() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return EstimateTokens(st.view)
}

func (st *trimmedStream) setPolicy(policy HistoryPolicy) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.policy = policy
}

// ResetRetries lets the stream of ctx recover MaxRetries times more.
func (p *TrimmingPlugin) ResetRetries(ctx context.Context) {
	st := p.state(StreamFrom(ctx))
	st.mu.Lock()
	defer st.mu.Unlock()
	st.retries = 0
}
