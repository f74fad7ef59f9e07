package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// Model is what Run drives: an LLM behind a provider's client.
type Model interface {
	// Invoke answers a request: pieces of text as they come, and last the
	// whole message. Nothing follows an error. An overflow of the model's
	// context window wraps ErrContextOverflow.
	Invoke(ctx context.Context, request ModelRequest) iter.Seq2[ModelEvent, error]
}

// ModelRequest is what a model is sent. It is not to be changed.
type ModelRequest struct {
	Messages []Message
	Tools    []Tool
}

// ModelEvent is a piece of an answer, or the whole.
type ModelEvent struct {
	Delta   string   // a piece of text
	Message *Message // the whole message, once and last
}

// Tool is what a model may call.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // of the input, a JSON schema
	// Call runs the tool; several calls may run at once. An error is shown to
	// the model as an error result, and so is a panic. When ctx is done, its
	// result is no longer waited for.
	Call func(ctx context.Context, use *ToolUseBlock) ([]Block, error)
}

// RunOptions are the options of Run. nil or all zero: no hooks, no tools.
type RunOptions struct {
	Hooks *HookRegistry // with its plugins' tools
	Tools []Tool        // beside these
	// MaxModelCalls is how often the model may be called. 0: 50. When more is
	// needed: ErrTurnLimit.
	MaxModelCalls int
	// Clock gives messages that have no Time one, the prompt included. nil:
	// they get none.
	Clock func() time.Time
}

// RunEvent is what a run shows of itself: a piece of the model's text, or a
// message that was added to the history.
type RunEvent struct {
	Delta   string
	Message *Message
}

// InterruptedKey marks, in a message's Metadata, an answer that was cut off: it
// holds the text that had come until then, and no calls.
const InterruptedKey = "interrupted"

// Run answers a prompt: it calls the model, the tools that the model asks for,
// all calls of one message at once, and the model again, until there are no
// more calls. It keeps the history of this stream alone; a SessionPlugin puts
// the session's before it and stores what comes.
//
// Run yields what happens. It ends with an error, last, or without one. If the
// caller stops early or ctx is done, nothing new is begun; text that had come is
// kept as a message marked with InterruptedKey, and calls that are not finished
// are answered by error results. The after-hooks run in any case, before Run
// returns.
func Run(ctx context.Context, model Model, prompt Message, opts *RunOptions) iter.Seq2[RunEvent, error] {
	var o RunOptions
	if opts != nil {
		o = *opts
	}
	return func(yield func(RunEvent, error) bool) {
		stream, ctx := NewStream(ctx)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		r := &run{stream: stream, model: model, hooks: o.Hooks, clock: o.Clock, yield: yield, cancel: cancel}
		if r.hooks == nil {
			r.hooks = NewHookRegistry()
		}
		err := r.begin(ctx, prompt, o)
		if err == nil {
			err = r.loop(ctx, o.MaxModelCalls)
		}
		err = errors.Join(err, Notify(ctx, r.hooks, &AfterStreamHook{Stream: stream, Messages: r.history, Err: err}))
		if err != nil && !r.stopped {
			yield(RunEvent{}, err)
		}
	}
}

// run is one call of Run.
type run struct {
	stream  *Stream
	model   Model
	hooks   *HookRegistry
	tools   []Tool
	history []Message
	clock   func() time.Time
	yield   func(RunEvent, error) bool
	stopped bool // the caller takes no more events
	cancel  context.CancelFunc
}

const defaultModelCalls = 50

func (r *run) begin(ctx context.Context, prompt Message, o RunOptions) error {
	if r.model == nil {
		return fmt.Errorf("%w: no model", ErrInvalidOption)
	}
	names := make(map[string]bool)
	r.tools = append(r.hooks.Tools(), o.Tools...)
	for _, t := range r.tools {
		if t.Name == "" || t.Call == nil || names[t.Name] {
			return fmt.Errorf("%w: tool %q without a name or a Call, or twice", ErrInvalidOption, t.Name)
		}
		names[t.Name] = true
	}
	e := &BeforeStreamHook{Stream: r.stream, Messages: []Message{r.timed(prompt)}}
	if err := NotifyBefore(ctx, r.hooks, e); err != nil {
		return err
	}
	r.history = e.Messages
	return nil
}

func (r *run) loop(ctx context.Context, most int) error {
	if most <= 0 {
		most = defaultModelCalls
	}
	for range most {
		answer, err := r.invoke(ctx)
		if err != nil {
			return err
		}
		if err := r.append(ctx, answer); err != nil {
			return err
		}
		if len(answer.ToolUses()) == 0 {
			return nil
		}
		results, stop := r.callTools(ctx, answer)
		if err := r.append(ctx, results); err != nil {
			return err
		}
		if err := errors.Join(stop, ctx.Err()); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %d model calls", ErrTurnLimit, most)
}

// append adds a message to the history and tells the hooks and the caller.
func (r *run) append(ctx context.Context, m Message) error {
	m = r.timed(m)
	r.history = append(r.history, m)
	if err := Notify(ctx, r.hooks, &AfterMessageAppendedHook{Stream: r.stream, Message: m}); err != nil {
		return err
	}
	r.show(RunEvent{Message: &m})
	return nil
}

func (r *run) timed(m Message) Message {
	if m.Time.IsZero() && r.clock != nil {
		m.Time = r.clock()
	}
	return m
}

// show yields an event. A caller that takes no more cancels the run.
func (r *run) show(e RunEvent) {
	if !r.stopped && !r.yield(e, nil) {
		r.stopped = true
		r.cancel()
	}
}

// invoke calls the model, again with smaller views after overflows.
func (r *run) invoke(ctx context.Context) (Message, error) {
	if err := ctx.Err(); err != nil {
		return Message{}, err
	}
	e := &BeforeModelInvokeHook{Stream: r.stream, History: slices.Clip(r.history), Messages: slices.Clip(r.history), Tools: r.tools}
	if err := NotifyBefore(ctx, r.hooks, e); err != nil {
		return Message{}, err
	}
	for {
		answer, partial, err := r.answer(ctx, ModelRequest{Messages: e.Messages, Tools: e.Tools})
		hookErr := Notify(ctx, r.hooks, &AfterModelInvokeHook{Stream: r.stream, Messages: e.Messages, Message: answer, Err: err})
		if err == nil {
			return answer, hookErr
		}
		if partial != "" {
			m := AssistantText(partial)
			m.Metadata = map[string]any{InterruptedKey: true}
			return Message{}, errors.Join(err, hookErr, r.append(ctx, m))
		}
		if hookErr != nil || !errors.Is(err, ErrContextOverflow) {
			return Message{}, errors.Join(err, hookErr)
		}
		if e.Messages, err = r.recover(ctx, err); err != nil {
			return Message{}, err
		}
	}
}

// recover asks the plugins for a smaller view, the first that can make one.
func (r *run) recover(ctx context.Context, overflow error) ([]Message, error) {
	for _, p := range r.hooks.plugins {
		if p, ok := p.(Recoverer); ok {
			return p.Recover(ctx, overflow, slices.Clip(r.history))
		}
	}
	return nil, overflow
}

// answer makes one model call. partial is the text that had come when it failed.
func (r *run) answer(ctx context.Context, request ModelRequest) (answer Message, partial string, err error) {
	var text strings.Builder
	for e, err := range r.model.Invoke(ctx, request) {
		switch {
		case err != nil:
			return Message{}, text.String(), err
		case e.Message != nil:
			return sanitize(*e.Message), "", nil
		}
		text.WriteString(strings.ToValidUTF8(e.Delta, "\uFFFD"))
		r.show(RunEvent{Delta: e.Delta})
		if err := ctx.Err(); err != nil {
			return Message{}, text.String(), err
		}
	}
	if err := ctx.Err(); err != nil {
		return Message{}, text.String(), err
	}
	return Message{}, text.String(), errors.New("session: the model ended without a message")
}

// sanitize makes what a model says storable: text that is no UTF-8 gets
// replacement characters, tool input that is no JSON becomes a JSON string.
func sanitize(m Message) Message {
	m.Role = RoleAssistant
	m.Content = slices.Clone(m.Content)
	for i, b := range m.Content {
		switch b := b.(type) {
		case *TextBlock:
			m.Content[i] = sanitizeText(b)
		case *ToolUseBlock:
			if len(b.Input) > 0 && validateJSON(b.Input) != nil {
				fixed := *b
				fixed.Input, _ = json.Marshal(string(b.Input)) // never fails on a string
				m.Content[i] = &fixed
			}
		}
	}
	return m
}

func sanitizeText(b *TextBlock) *TextBlock {
	fixed := *b
	fixed.Text = strings.ToValidUTF8(b.Text, "\uFFFD")
	return &fixed
}

const notMade = "The call was not made."

// callTools answers all calls of a message. stop is why the run must end then.
func (r *run) callTools(ctx context.Context, m Message) (results Message, stop error) {
	uses := m.ToolUses()
	answers := make([]*ToolResultBlock, len(uses))
	if stop = NotifyBefore(ctx, r.hooks, &BeforeToolCycleHook{Stream: r.stream, Message: m}); stop != nil {
		for i, use := range uses {
			answers[i] = ToolError(use.ID, use.Name, notMade)
		}
		return ToolResults(answers...), stop
	}
	stops := make([]error, len(uses))
	var wg sync.WaitGroup
	for i, use := range uses {
		wg.Go(func() { answers[i], stops[i] = r.callTool(ctx, use) })
	}
	wg.Wait()
	results = ToolResults(answers...)
	stops = append(stops, Notify(ctx, r.hooks, &AfterToolCycleHook{Stream: r.stream, Results: results}))
	return results, errors.Join(stops...)
}

// callTool answers one call. A hook's ErrAbort, and an error of an after-hook,
// end the run.
func (r *run) callTool(ctx context.Context, use *ToolUseBlock) (*ToolResultBlock, error) {
	before := &BeforeToolCallHook{Stream: r.stream, Use: use}
	err := NotifyBefore(ctx, r.hooks, before)
	result := before.Result
	var stop error
	switch {
	case err != nil:
		result = ToolError(use.ID, use.Name, "The call was refused: "+err.Error())
		if errors.Is(err, ErrAbort) {
			stop = err
		}
	case result == nil:
		result = r.runTool(ctx, before.Use)
	}
	result.ToolUseID, result.Name = use.ID, use.Name
	for i, b := range result.Content {
		if t, ok := b.(*TextBlock); ok {
			result.Content[i] = sanitizeText(t)
		}
	}
	return result, errors.Join(stop, Notify(ctx, r.hooks, &AfterToolCallHook{Stream: r.stream, Use: use, Result: result}))
}

// runTool runs a tool, and stops waiting for it when ctx is done.
func (r *run) runTool(ctx context.Context, use *ToolUseBlock) *ToolResultBlock {
	i := slices.IndexFunc(r.tools, func(t Tool) bool { return t.Name == use.Name })
	if i < 0 {
		return ToolError(use.ID, use.Name, "There is no tool of that name.")
	}
	if ctx.Err() != nil {
		return ToolError(use.ID, use.Name, notMade)
	}
	done := make(chan *ToolResultBlock, 1)
	go func() {
		content, err := callGuarded(ctx, r.tools[i], use)
		if err != nil {
			done <- ToolError(use.ID, use.Name, err.Error())
			return
		}
		done <- &ToolResultBlock{Content: content}
	}()
	select {
	case result := <-done:
		return result
	case <-ctx.Done():
		return ToolError(use.ID, use.Name, "The call was cancelled. It may or may not have had its effect.")
	}
}

func callGuarded(ctx context.Context, t Tool, use *ToolUseBlock) (content []Block, err error) {
	defer func() {
		if p := recover(); p != nil {
			content, err = nil, fmt.Errorf("the tool panicked: %v", p)
		}
	}()
	return t.Call(ctx, use)
}
