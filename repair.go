package session

import (
	"slices"
)

// Texts that Repair puts into a view.
const (
	// MissingResultText is the error result of a call that has none.
	MissingResultText = "no result was recorded; the call may or may not have run"
	// NoOutputText stands in a result that holds nothing.
	NoOutputText = "(no output)"
	// OpeningText is the user message in front of a history that begins with
	// the assistant.
	OpeningText = "(the conversation goes on from here)"
)

// Repair returns a view of the history that [Validate] accepts for every
// profile, whatever the history is. It is for what goes to a model: what is
// stored stays as it is.
//
// The view shares messages and blocks with the history, and of a history that
// is valid it is the history itself. Neither may be changed while the other is
// in use; clone the view to change it. Repair doesn't change the history.
//
// The same history gives the same view, and a view is its own. A history that
// grows keeps the view that it had as a prefix, if that ended with an answer of
// the assistant and the new messages neither go on with it nor hold results for
// calls that had none.
//
// Nothing that was said or done is left out, but for copies, blank text, and
// thinking that a provider would refuse:
//
//   - Calls. A call without a result gets an error result of MissingResultText,
//     behind the results of its message's other calls.
//   - Results. A result goes directly behind its call, wherever it was. It is for
//     the last unanswered call of its ID before it (of several in one message the
//     first). If no call of its ID is before it, it is for the first unanswered
//     one behind it, and without one it becomes text of the user's side: "[result
//     of unknown tool call t9] …". The first result of a call counts, a real one
//     before one of MissingResultText, and others are left out.
//   - IDs. An ID that is used again, or that some provider would refuse, is
//     replaced in the call and its result: t1 by t1-2, "a.b" by a_b, "" by "call".
//     So is a tool's name. An input that is no object becomes one: {"input": …}.
//   - Blank text is left out. A message that has nothing else goes with it, a
//     result gets NoOutputText instead.
//   - Thinking is kept or left out, whole and unchanged. It is left out if it has no
//     signature, or if nothing follows it before the user's side goes on.
//   - Sides. Neighbours of one side become one message, results in front. It is a
//     tool message, or has the first's role, if it is results alone, and else a
//     user message. Its ID, Time and Metadata are the first one's.
//   - System messages in front stay; "developer" is another name for them. Text of
//     one that is not in front, of an unknown role, or of a tool message beside
//     its results, becomes text of the user's side, marked: "[system message] …".
//     So does a call that isn't the assistant's.
//   - A history that begins with the assistant gets a user message of OpeningText in
//     front.
//
// Of a history in which nothing can be kept, the view is empty. Blocks that are
// nil are left out.
func Repair(messages []Message) []Message {
	if validate(messages, AnyProvider.rules) == nil {
		return slices.Clip(messages)
	}
	r := repairer{in: messages, byID: map[string]*sameID{}, taken: map[string]bool{}, next: map[string]int{}}
	r.read()
	r.answer()
	return r.write()
}

// repairer makes a view: it reads the history into rounds, finds each call its
// result, and writes the rounds as messages.
type repairer struct {
	in       []Message
	preamble []Message
	rounds   []repairRound
	closed   bool // the user's side has spoken in the last round

	calls   []heldCall
	results []heldResult
	early   []int // results without a call before them
	byID    map[string]*sameID
	taken   map[string]bool // IDs of calls in the view
	next    map[string]int  // by ID, the number to try next behind it

	out []Message
}

// repairRound is what the assistant said, and what the user's side said then. Only
// in the first may the assistant have said nothing.
type repairRound struct {
	said    []viewPart
	calls   []int
	answers []int // the calls in the order of their results
	heard   []viewPart
}

// viewPart is a block on its way into the view.
type viewPart struct {
	block  Block // nil for a result
	from   int   // the message that it is of, -1 for none
	result int
}

// read makes the preamble and the rounds.
func (r *repairer) read() {
	r.rounds = make([]repairRound, 1, len(r.in)/2+1)
	first := 0
	for first < len(r.in) && isPreamble(&r.in[first]) {
		r.addPreamble(&r.in[first])
		first++
	}
	for i := first; i < len(r.in); i++ {
		if m := &r.in[i]; m.Role == RoleAssistant {
			r.readAssistant(i, m)
		} else {
			r.closed = true
			for _, b := range m.Content {
				r.hear(i, b, m.Role)
			}
		}
	}
}

func isPreamble(m *Message) bool {
	return sideOf(m.Role) == sideSystem && !slices.ContainsFunc(m.Content, func(b Block) bool {
		switch b.(type) {
		case nil, *TextBlock, *RawBlock:
			return false
		}
		return true
	})
}

func (r *repairer) addPreamble(m *Message) {
	view := *m
	view.Role = RoleSystem
	if slices.ContainsFunc(m.Content, isVoid) {
		view.Content = slices.DeleteFunc(slices.Clone(m.Content), isVoid)
	}
	if len(view.Content) > 0 {
		r.preamble = append(r.preamble, view)
	}
}

// isVoid reports whether a block says nothing: nil, or blank text.
func isVoid(b Block) bool {
	switch b := b.(type) {
	case *TextBlock:
		return b == nil || isBlank(b.Text)
	case *ThinkingBlock:
		return b == nil
	case *MediaBlock:
		return b == nil
	case *ToolUseBlock:
		return b == nil
	case *ToolResultBlock:
		return b == nil
	case *RawBlock:
		return b == nil
	}
	return true
}

// readAssistant reads a message of the assistant. It begins a round if the
// user's side has spoken, or if there are calls and it doesn't just add to them:
// what follows calls, other than calls, was said knowing their results.
func (r *repairer) readAssistant(from int, m *Message) {
	starts := true
	for _, b := range m.Content {
		if isVoid(b) {
			continue
		}
		if res, ok := b.(*ToolResultBlock); ok {
			r.closed = true
			r.hearResult(from, res)
			continue
		}
		if t, ok := b.(*ThinkingBlock); ok && !isSigned(t) {
			continue
		}
		use, isCall := b.(*ToolUseBlock)
		if r.closed || starts && !isCall && len(r.last().calls) > 0 {
			r.rounds = append(r.rounds, repairRound{})
			r.closed = false
		}
		starts = false
		if isCall {
			b = r.addCall(use)
		}
		r.last().said = append(r.last().said, viewPart{block: b, from: from})
	}
}

func (r *repairer) last() *repairRound { return &r.rounds[len(r.rounds)-1] }

// hear reads a block of a message that isn't the assistant's.
func (r *repairer) hear(from int, b Block, role Role) {
	if isVoid(b) {
		return
	}
	switch block := b.(type) {
	case *ToolResultBlock:
		r.hearResult(from, block)
		return
	case *ThinkingBlock:
		return
	case *ToolUseBlock:
		b = callText(block)
	case *TextBlock:
		switch {
		case sideOf(role) == sideSystem:
			b = markedText("[system message] ", block)
		case role != RoleUser:
			b = markedText("["+string(role)+" message] ", block)
		}
	}
	r.last().heard = append(r.last().heard, viewPart{block: b, from: from})
}

// markedText returns a copy of a text with a mark in front.
func markedText(mark string, b *TextBlock) *TextBlock {
	m := *b
	m.Text = mark + b.Text
	return &m
}

// write makes the view from the rounds. A round in which nobody answers the
// assistant goes on in the next.
func (r *repairer) write() []Message {
	r.out = slices.Grow(r.preamble, len(r.in))
	var said, heard []viewPart // what the assistant said last, and what was heard before
	for i := range r.rounds {
		said = append(said, r.rounds[i].said...)
		now := r.heardIn(&r.rounds[i])
		if len(now) == 0 {
			continue
		}
		if said = withoutLastThinking(said); len(said) > 0 {
			r.exchange(heard, said)
			said, heard = nil, nil
		}
		heard = append(heard, now...)
	}
	if said = withoutLastThinking(said); len(said) > 0 {
		r.exchange(heard, said)
	} else if len(heard) > 0 {
		r.add(userRole(r.in, heard), heard)
	}
	if r.out == nil {
		return []Message{}
	}
	return slices.Clip(r.out)
}

func withoutLastThinking(said []viewPart) []viewPart {
	for len(said) > 0 {
		if _, ok := said[len(said)-1].block.(*ThinkingBlock); !ok {
			break
		}
		said = said[:len(said)-1]
	}
	return said
}

// heardIn returns what the user's side said in a round, results first.
func (r *repairer) heardIn(rd *repairRound) []viewPart {
	parts := make([]viewPart, 0, len(rd.answers)+len(rd.heard))
	for _, c := range rd.answers {
		parts = append(parts, r.answerOf(&r.calls[c]))
	}
	for _, p := range rd.heard {
		if p.block != nil {
			parts = append(parts, p)
		} else if res := &r.results[p.result]; res.orphan {
			for _, b := range orphanText(res.block) {
				parts = append(parts, viewPart{block: b, from: p.from})
			}
		}
	}
	return parts
}

// exchange writes a message of the user's side and the assistant's after it.
func (r *repairer) exchange(heard, said []viewPart) {
	if len(heard) == 0 { // only at the beginning
		r.out = append(r.out, UserText(OpeningText))
	} else {
		r.add(userRole(r.in, heard), heard)
	}
	r.add(RoleAssistant, said)
}

// userRole is the role of a message of the user's side.
func userRole(in []Message, parts []viewPart) Role {
	role := RoleTool
	for i, p := range parts {
		if _, ok := p.block.(*ToolResultBlock); !ok {
			return RoleUser
		}
		if i == 0 && p.from >= 0 && in[p.from].Role == RoleUser {
			role = RoleUser
		}
	}
	return role
}

// add writes a message: the one that the parts are from if they are all of it.
func (r *repairer) add(role Role, parts []viewPart) {
	m := Message{Role: role}
	if i := slices.IndexFunc(parts, func(p viewPart) bool { return p.from >= 0 }); i >= 0 {
		m = r.in[parts[i].from]
		m.Role = role
	}
	if !slices.EqualFunc(m.Content, parts, func(b Block, p viewPart) bool { return b == p.block }) {
		m.Content = make([]Block, len(parts))
		for i, p := range parts {
			m.Content[i] = p.block
		}
	}
	r.out = append(r.out, m)
}
