package session

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// Stream is one run of an agent loop: what plugins keep for it lives here and
// not in the plugin, so that one plugin and one registry serve any number of
// streams at once. It is in every event and in the context of every hook.
type Stream struct {
	parent *Stream
	mu     sync.Mutex
	values map[any]any
}

type streamKey struct{}

// NewStream returns a new stream, and a context that carries it. If ctx
// carries one already, as when a tool runs an agent of its own, that one is its
// parent.
func NewStream(ctx context.Context) (*Stream, context.Context) {
	s := &Stream{parent: StreamFrom(ctx), values: make(map[any]any)}
	return s, context.WithValue(ctx, streamKey{}, s)
}

// StreamFrom returns the stream that a context carries, or nil.
func StreamFrom(ctx context.Context) *Stream {
	s, _ := ctx.Value(streamKey{}).(*Stream)
	return s
}

// Parent returns the stream inside of which this one runs, or nil.
func (s *Stream) Parent() *Stream { return s.parent }

// Value returns what was last set for a key, nil if nothing was. Use a key of
// a type of your own, or the plugin's pointer.
func (s *Stream) Value(key any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key]
}

// SetValue keeps a value for the life of the stream; nil removes it.
func (s *Stream) SetValue(key, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value == nil {
		delete(s.values, key)
		return
	}
	s.values[key] = value
}

// The events of a loop. A before-hook may change what its event holds, and the
// loop goes on with that. An after-hook may look.
type (
	// BeforeStreamHook comes first in a stream. Messages are what the stream
	// begins with, at first the prompt alone; what hooks make of them is the
	// history from then on.
	BeforeStreamHook struct {
		Stream   *Stream
		Messages []Message
	}
	// BeforeModelInvokeHook comes before each model call. Messages are the
	// view that the model is sent, at first the history; what hooks make of
	// them counts for this call alone. History is not to be changed.
	BeforeModelInvokeHook struct {
		Stream   *Stream
		History  []Message
		Messages []Message
		Tools    []Tool
	}
	// BeforeToolCycleHook comes before the calls of one message are made.
	BeforeToolCycleHook struct {
		Stream  *Stream
		Message Message
	}
	// BeforeToolCallHook comes before each call, perhaps several at once.
	// A hook that sets Result answers the call in the tool's place.
	BeforeToolCallHook struct {
		Stream *Stream
		Use    *ToolUseBlock
		Result *ToolResultBlock
	}

	// AfterStreamHook comes last in a stream, however it ended.
	AfterStreamHook struct {
		Stream   *Stream
		Messages []Message // the history
		Err      error     // what ended the stream, nil if it is done
	}
	// AfterModelInvokeHook comes after each model call.
	AfterModelInvokeHook struct {
		Stream   *Stream
		Messages []Message // the view that was sent
		Message  Message   // the answer, if Err is nil
		Err      error
	}
	// AfterToolCycleHook comes after the calls of one message were answered.
	AfterToolCycleHook struct {
		Stream  *Stream
		Results Message
	}
	// AfterToolCallHook comes after each call, perhaps several at once.
	AfterToolCallHook struct {
		Stream *Stream
		Use    *ToolUseBlock
		Result *ToolResultBlock
	}
	// AfterMessageAppendedHook comes after each message that the loop has
	// added to the history, behind those of the BeforeStreamHook. Message is
	// the history's own and not to be changed.
	AfterMessageAppendedHook struct {
		Stream  *Stream
		Message Message
	}
)

// BeforeHook is an event that can be changed and refused.
type BeforeHook interface {
	BeforeStreamHook | BeforeModelInvokeHook | BeforeToolCycleHook | BeforeToolCallHook
}

// AfterHook is an event that has happened.
type AfterHook interface {
	AfterStreamHook | AfterModelInvokeHook | AfterToolCycleHook | AfterToolCallHook | AfterMessageAppendedHook
}

// Plugin extends a loop by tools and hooks.
type Plugin interface {
	Name() string
	// Tools returns tools that the model may call, or nil.
	Tools() []Tool
	// Init registers the plugin's hooks. It is called once for a registry.
	Init(*HookRegistry)
}

// Recoverer is what a Plugin may also be: the loop asks it after a model call
// that failed with ErrContextOverflow.
type Recoverer interface {
	// Recover returns a view of the history that is smaller than the one that
	// overflowed with err, or why there is none.
	Recover(ctx context.Context, err error, history []Message) ([]Message, error)
}

// HookRegistry holds hooks and plugins. Register first, then run: streams may
// use one registry at once, but not while hooks are being registered.
type HookRegistry struct {
	hooks   map[reflect.Type][]any
	plugins []Plugin
}

// NewHookRegistry returns a registry with the hooks of the given plugins, in
// that order.
func NewHookRegistry(plugins ...Plugin) *HookRegistry {
	r := &HookRegistry{hooks: make(map[reflect.Type][]any), plugins: slices.Clone(plugins)}
	for _, p := range plugins {
		p.Init(r)
	}
	return r
}

// Tools returns the tools of the registry's plugins.
func (r *HookRegistry) Tools() []Tool {
	var tools []Tool
	for _, p := range r.plugins {
		tools = append(tools, p.Tools()...)
	}
	return tools
}

// OnBefore registers a hook. Hooks of one event run in the order in which they
// were registered; the first error ends it, and what the event was to come
// before does not happen.
func OnBefore[E BeforeHook](r *HookRegistry, hook func(ctx context.Context, event *E) error) {
	on(r, hook)
}

// OnAfter registers a hook. All hooks of one event run, in the order in which
// they were registered, whatever the others return, and with a context that is
// not cancelled. An error fails the stream.
func OnAfter[E AfterHook](r *HookRegistry, hook func(ctx context.Context, event *E) error) {
	on(r, hook)
}

func on[E any](r *HookRegistry, hook func(context.Context, *E) error) {
	t := reflect.TypeFor[E]()
	r.hooks[t] = append(r.hooks[t], hook)
}

// NotifyBefore runs the hooks of an event that is about to happen, for those
// who write a loop of their own.
func NotifyBefore[E BeforeHook](ctx context.Context, r *HookRegistry, event *E) error {
	for _, h := range r.hooks[reflect.TypeFor[E]()] {
		if err := callHook(ctx, h.(func(context.Context, *E) error), event); err != nil {
			return err
		}
	}
	return nil
}

// Notify runs the hooks of an event that has happened, for those who write a
// loop of their own, and returns their errors joined.
func Notify[E AfterHook](ctx context.Context, r *HookRegistry, event *E) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for _, h := range r.hooks[reflect.TypeFor[E]()] {
		if err := callHook(ctx, h.(func(context.Context, *E) error), event); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// callHook makes an error of a panic: one hook's fault must not cost another
// its turn, which may be to store the history.
func callHook[E any](ctx context.Context, hook func(context.Context, *E) error, event *E) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("session: a hook of %T panicked: %v", *event, p)
		}
	}()
	return hook(ctx, event)
}
