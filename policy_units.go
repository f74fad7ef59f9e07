package session

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// span is a part of a history: the messages from first up to, not including,
// end.
type span struct{ first, end int }

// A unit is what policies keep or drop as a whole: a message that begins a
// turn, or assistant messages in a row and the tool results that follow them,
// which is a tool round or an answer. Other messages belong to the unit before
// them.

func startsTurn(messages []Message, i int) bool {
	return messages[i].Role == RoleUser && beginsTurn(messages[i])
}

func startsUnit(messages []Message, i int) bool {
	if messages[i].Role == RoleAssistant {
		return i == 0 || messages[i-1].Role != RoleAssistant
	}
	return startsTurn(messages, i)
}

// unitAt returns the unit that begins with message i.
func unitAt(messages []Message, i int) span {
	end := i + 1
	for end < len(messages) && !startsUnit(messages, end) {
		end++
	}
	return span{i, end}
}

// preambleOf returns how many messages stand before the first turn.
func preambleOf(messages []Message) int {
	for i := range messages {
		if startsTurn(messages, i) {
			return i
		}
	}
	return len(messages)
}

// answersAndAsks reports whether message i begins a turn and answers calls of
// the turn before too. Where these are not shown, nor are its results.
func answersAndAsks(messages []Message, i int) bool {
	return startsTurn(messages, i) && slices.ContainsFunc(messages[i].Content, isToolResult)
}

func withoutResults(m Message) Message {
	m.Content = slices.DeleteFunc(slices.Clone(m.Content), isToolResult)
	return m
}

func isToolResult(b Block) bool {
	_, ok := b.(*ToolResultBlock)
	return ok
}

func anyPinned(messages []Message) bool {
	for i := range messages {
		if isPinned(&messages[i]) {
			return true
		}
	}
	return false
}

// isPinned is Pinned without a copy of the message.
func isPinned(m *Message) bool {
	if len(m.Metadata) == 0 {
		return false
	}
	pinned, _ := m.Metadata[pinnedKey].(bool)
	return pinned
}

// dropper passes over the units of a history from the first turn on and notes
// what of them stays: pinned units and the prompts of their turns, and the
// prompt of the turn that it has come to.
type dropper struct {
	messages   []Message
	next       int    // the first message that was not passed
	kept       []span // what stays for a pin
	prompt     span   // of the turn passed last
	promptKept bool   // it is in kept
	pinned     bool   // the unit passed last is in kept
}

func newDropper(messages []Message, preamble int) dropper {
	d := dropper{messages: messages, next: preamble}
	d.pinned = preamble < len(messages) && answersAndAsks(messages, preamble) // the preamble calls, and stays
	return d
}

// drop passes one unit and keeps it if it is pinned.
func (d *dropper) drop() {
	u := d.pass()
	prompt := startsTurn(d.messages, u.first)
	if prompt {
		d.prompt, d.promptKept = u, false
	}
	if d.pinned {
		d.keepPrompt()
		if !prompt {
			d.kept = append(d.kept, u)
		}
	}
}

// pass passes one unit and notes only whether it is pinned. A unit is pinned
// if any message of it is, and with it the unit that its calls are answered in.
func (d *dropper) pass() span {
	u := unitAt(d.messages, d.next)
	answers := d.pinned && answersAndAsks(d.messages, u.first)
	answered := u.end < len(d.messages) && Pinned(d.messages[u.end]) && answersAndAsks(d.messages, u.end)
	d.pinned = answers || answered || anyPinned(d.messages[u.first:u.end])
	d.next = u.end
	return u
}

func (d *dropper) keepPrompt() {
	if !d.promptKept {
		d.kept = append(d.kept, d.prompt)
		d.promptKept = true
	}
}

// cut returns what is shown after what was passed is dropped.
func (d *dropper) cut(preamble int) cut {
	inTurn := d.next > preamble && d.next < len(d.messages) && !startsTurn(d.messages, d.next)
	if inTurn {
		d.keepPrompt()
	}
	return cut{preamble, d.kept, d.next}
}

// cut is what a policy shows of a history: the preamble, parts between, and
// everything from a message on.
type cut struct {
	preamble int
	kept     []span
	from     int
}

// cutAt returns the cut that drops everything between the preamble and from,
// which begins a unit, but for what pins and the turn at from need.
func cutAt(messages []Message, preamble, from int) cut {
	if from <= preamble || startsTurn(messages, from) && !anyPinned(messages[preamble:from+1]) &&
		!answersAndAsks(messages, preamble) {
		return cut{preamble: preamble, from: max(preamble, from)}
	}
	d := newDropper(messages, preamble)
	for d.next < from {
		d.drop()
	}
	return d.cut(preamble)
}

// shown returns the parts that are shown, in order, and how many messages they
// are.
func (c cut) shown(n int) (parts []span, total int) {
	parts = make([]span, 0, len(c.kept)+2)
	for _, s := range append(append([]span{{0, c.preamble}}, c.kept...), span{c.from, n}) {
		if s.first == s.end {
			continue
		}
		total += s.end - s.first
		if last := len(parts) - 1; last >= 0 && parts[last].end == s.first {
			parts[last].end = s.end
		} else {
			parts = append(parts, s)
		}
	}
	return parts, total
}

// view returns the messages that are shown: messages or a part of it where
// that will do, else a new slice.
func (c cut) view(messages []Message) []Message {
	view, at := c.raw(messages)
	return join(view, at)
}

// raw returns the messages that are shown, not joined, and where in messages
// they stand; nil for a view that is a part of messages.
func (c cut) raw(messages []Message) (view []Message, at []int) {
	parts, total := c.shown(len(messages))
	if len(parts) == 1 && !(parts[0].first > 0 && answersAndAsks(messages, parts[0].first)) {
		return messages[parts[0].first:parts[0].end:parts[0].end], nil
	}
	view, at = make([]Message, 0, total), make([]int, 0, total)
	for _, s := range parts {
		first := len(view)
		view = append(view, messages[s.first:s.end]...)
		if s.first > 0 && answersAndAsks(messages, s.first) {
			view[first] = withoutResults(view[first])
		}
		for i := s.first; i < s.end; i++ {
			at = append(at, i)
		}
	}
	return view, at
}

// locate returns raw's view with all positions.
func (c cut) locate(messages []Message) ([]Message, []int) {
	view, at := c.raw(messages)
	if at == nil {
		parts, total := c.shown(len(messages))
		if total == 0 {
			return view, nil
		}
		at = positions(parts[0].first, total)
	}
	return view, at
}

// positions returns n numbers from first on.
func positions(first, n int) []int {
	at := make([]int, n)
	for k := range at {
		at[k] = first + k
	}
	return at
}

// Where a message of a view stands that is not from the history.
const (
	unlocated = -1 - iota // or it is, but that was not found out
	inserted              // by a policy of this package
)

// locator is a policy that knows where the messages of its view come from.
type locator interface {
	// locate is Select without join. It also returns where in messages each
	// message of the view stands, or unlocated or inserted.
	locate(ctx context.Context, messages []Message) (view []Message, at []int, err error)
}

// locate returns the view of any policy and where its messages stand. Of one
// that is no locator, only what the view has in common with messages at the
// start and at the end is located.
func locate(ctx context.Context, p HistoryPolicy, messages []Message) ([]Message, []int, error) {
	if l, ok := p.(locator); ok {
		return l.locate(ctx, messages)
	}
	view, err := p.Select(ctx, messages)
	if err != nil {
		return nil, nil, err
	}
	at := make([]int, len(view))
	head := 0
	for head < min(len(view), len(messages)) && sameMessage(view[head], messages[head]) {
		at[head] = head
		head++
	}
	for k := head; k < len(view); k++ {
		at[k] = unlocated
	}
	for k, i := len(view)-1, len(messages)-1; k >= head && i >= head && sameMessage(view[k], messages[i]); k, i = k-1, i-1 {
		at[k] = i
	}
	return view, at, nil
}

// join returns a view in which messages of the user's side that came to stand
// side by side, because what was between them is not shown, are one message.
func join(view []Message, at []int) []Message {
	k := 1
	for k < len(at) && !joins(view, at, k) {
		k++
	}
	if k >= len(at) {
		return view
	}
	joined := append(make([]Message, 0, len(view)), view[:k]...)
	for ; k < len(at); k++ {
		if !joins(view, at, k) {
			joined = append(joined, view[k])
			continue
		}
		last := &joined[len(joined)-1]
		*last = joinMessages(*last, view[k])
	}
	return joined
}

// joins reports whether message k of a view is joined to the one before.
func joins(view []Message, at []int, k int) bool {
	gap := at[k] != at[k-1]+1 && (at[k] != unlocated || at[k-1] != unlocated)
	return gap && usersSide(view[k-1]) && usersSide(view[k])
}

func usersSide(m Message) bool { return m.Role == RoleUser || m.Role == RoleTool }

// joinMessages returns one message of the content of both. What else a message
// has is a's, or b's where a has none.
func joinMessages(a, b Message) Message {
	m := a
	m.Role = RoleUser
	m.Content = slices.Concat(a.Content, b.Content)
	m.ID = cmp.Or(a.ID, b.ID)
	if a.Time.IsZero() {
		m.Time = b.Time
	}
	if len(b.Metadata) > 0 {
		m.Metadata = maps.Clone(b.Metadata)
		maps.Copy(m.Metadata, a.Metadata)
	}
	return m
}

func sameMessage(a, b Message) bool {
	if len(a.Content) > 0 && len(a.Content) == len(b.Content) && &a.Content[0] == &b.Content[0] {
		return a.Role == b.Role
	}
	return a.Equal(b)
}

// limiter is a policy that can tell whether a view is within its limit.
type limiter interface {
	fits(view []Message) bool
}

// fits reports whether a view is within the limit of a policy as far as that
// can be told.
func fits(p HistoryPolicy, view []Message) bool {
	l, ok := p.(limiter)
	return !ok || l.fits(view)
}

// reshaper is a policy that changes messages, each without regard to others.
type reshaper interface {
	reshape(view []Message) []Message
}

func reshape(p HistoryPolicy, view []Message) []Message {
	if r, ok := p.(reshaper); ok {
		return r.reshape(view)
	}
	return view
}
