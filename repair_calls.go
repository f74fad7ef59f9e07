package session

import (
	"encoding/json"
	"strconv"
	"strings"
)

// heldCall is a call in the history.
type heldCall struct {
	view   *ToolUseBlock
	round  int
	next   int // the next call of the ID in the round, -1 for none
	result int // -1 for none
}

// heldResult is a result in the history.
type heldResult struct {
	block  *ToolResultBlock
	from   int
	orphan bool // it is for no call
}

// sameID is the calls of one ID, and their results.
type sameID struct {
	open     []openCalls // those without a result, one entry a round
	round    int         // the last call's
	answered int         // the call that was answered last, -1 for none
}

// openCalls is the unanswered calls of one round, linked.
type openCalls struct{ first, last int }

// addCall takes in a call and returns what the view has for it.
func (r *repairer) addCall(use *ToolUseBlock) *ToolUseBlock {
	at, inRound := len(r.calls), len(r.rounds)-1
	view := r.viewOfCall(use)
	r.calls = append(r.calls, heldCall{view: view, round: inRound, next: -1, result: -1})
	r.last().calls = append(r.last().calls, at)
	s := r.byID[use.ID]
	if s == nil {
		s = &sameID{answered: -1}
		r.byID[use.ID] = s
	}
	s.round = inRound
	if n := len(s.open); n > 0 && r.calls[s.open[n-1].first].round == inRound {
		r.calls[s.open[n-1].last].next = at
		s.open[n-1].last = at
	} else {
		s.open = append(s.open, openCalls{at, at})
	}
	return view
}

// viewOfCall returns a call that every provider takes: use itself if it is one.
func (r *repairer) viewOfCall(use *ToolUseBlock) *ToolUseBlock {
	id, name, input := r.newID(use.ID), use.Name, use.Input
	if !wellFormed(name, maxToolNameBytes) {
		name = wellForm(name, "unknown_tool", maxToolNameBytes)
	}
	if !isObject(input) {
		input = objectOf(input)
	} else if id == use.ID && name == use.Name {
		return use
	}
	view := *use
	view.ID, view.Name, view.Input = id, name, input
	return &view
}

// newID returns an ID that no call before has: id itself if that is one. It
// depends on nothing that comes later.
func (r *repairer) newID(id string) string {
	if !wellFormed(id, maxCallIDBytes) {
		id = wellForm(id, "call", maxCallIDBytes)
	}
	view := id
	for r.taken[view] {
		n := max(r.next[id], 2)
		r.next[id] = n + 1
		suffix := "-" + strconv.Itoa(n)
		view = id[:min(len(id), maxCallIDBytes-len(suffix))] + suffix
	}
	r.taken[view] = true
	return view
}

// wellForm makes a well-formed name of s, or of what stands for an empty one.
func wellForm(s, empty string, limit int) string {
	if s == "" {
		return empty
	}
	s = strings.Map(func(c rune) rune {
		if c < 0x80 && idByte(byte(c)) {
			return c
		}
		return '_'
	}, s)
	return s[:min(len(s), limit)]
}

// objectOf returns an object that holds a value that is none.
func objectOf(value json.RawMessage) json.RawMessage {
	switch {
	case len(value) == 0:
		return json.RawMessage("{}")
	case json.Valid(value):
		return json.RawMessage(`{"input":` + string(value) + `}`)
	}
	text, _ := json.Marshal(string(value)) // of a string it can't fail
	return json.RawMessage(`{"input":` + string(text) + `}`)
}

// hearResult takes in a result and finds its call among those so far.
func (r *repairer) hearResult(from int, b *ToolResultBlock) {
	at := len(r.results)
	r.results = append(r.results, heldResult{block: b, from: from})
	r.last().heard = append(r.last().heard, viewPart{from: from, result: at})
	s := r.byID[b.ToolUseID]
	if s == nil {
		r.early = append(r.early, at)
		return
	}
	var had *ToolResultBlock
	if s.answered >= 0 {
		had = r.results[r.calls[s.answered].result].block
	}
	n := len(s.open)
	switch {
	case n == 0 && isStandIn(had):
		r.calls[s.answered].result = at
	case n == 0:
	case had != nil && r.calls[s.open[n-1].first].round != s.round && equalBlock(had, b):
		// A copy, not the result of a call before that one.
	default:
		c := s.open[n-1].first
		if s.open[n-1].first = r.calls[c].next; r.calls[c].next < 0 {
			s.open = s.open[:n-1]
		}
		r.pair(s, c, at)
	}
}

func (r *repairer) pair(s *sameID, c, res int) {
	r.calls[c].result = res
	s.answered = c
	rd := &r.rounds[r.calls[c].round]
	rd.answers = append(rd.answers, c)
}

// answer gives every call a result: one that came before it, or the stand-in.
func (r *repairer) answer() {
	for _, at := range r.early {
		s := r.byID[r.results[at].block.ToolUseID]
		if s == nil || len(s.open) == 0 {
			r.results[at].orphan = true
			continue
		}
		c := s.open[0].first
		if s.open[0].first = r.calls[c].next; r.calls[c].next < 0 {
			s.open = s.open[1:]
		}
		r.pair(s, c, at)
	}
	for c := range r.calls {
		if r.calls[c].result < 0 {
			rd := &r.rounds[r.calls[c].round]
			rd.answers = append(rd.answers, c)
		}
	}
}

func isStandIn(b *ToolResultBlock) bool {
	if b == nil || !b.IsError || len(b.Content) != 1 {
		return false
	}
	t, ok := b.Content[0].(*TextBlock)
	return ok && t != nil && t.Text == MissingResultText
}

// answerOf returns the view's result for a call.
func (r *repairer) answerOf(c *heldCall) viewPart {
	if c.result < 0 {
		return viewPart{block: ToolError(c.view.ID, c.view.Name, MissingResultText), from: -1}
	}
	res := &r.results[c.result]
	content, same := viewOfContent(res.block.Content)
	id, name := c.view.ID, res.block.Name
	if name != "" && !wellFormed(name, maxToolNameBytes) {
		name = c.view.Name
	}
	if same && id == res.block.ToolUseID && name == res.block.Name {
		return viewPart{block: res.block, from: res.from}
	}
	view := *res.block
	view.ToolUseID, view.Name, view.Content = id, name, content
	return viewPart{block: &view, from: res.from}
}

// viewOfContent returns a result's content without what may not be in one:
// calls become text, results in it their content, thinking nothing. It reports
// whether that is content itself. It is never empty.
func viewOfContent(content []Block) (view []Block, same bool) {
	same = len(content) > 0
	for _, b := range content {
		same = same && inResult(b) && !isVoid(b)
	}
	if same {
		return content, true
	}
	if view = flattenContent(nil, content); len(view) == 0 {
		view = []Block{Text(NoOutputText)}
	}
	return view, false
}

func flattenContent(view, content []Block) []Block {
	for _, b := range content {
		if isVoid(b) {
			continue
		}
		switch b := b.(type) {
		case *ThinkingBlock:
		case *ToolUseBlock:
			view = append(view, callText(b))
		case *ToolResultBlock:
			view = flattenContent(view, b.Content)
		default:
			view = append(view, b)
		}
	}
	return view
}

func callText(b *ToolUseBlock) *TextBlock {
	return Text("[call " + b.ID + " of tool " + b.Name + "] " + string(b.Input))
}

// orphanText returns the content of a result that has no call, marked.
func orphanText(b *ToolResultBlock) []Block {
	mark := "[result of unknown tool call " + b.ToolUseID + "] "
	if b.IsError {
		mark = "[error of unknown tool call " + b.ToolUseID + "] "
	}
	content, _ := viewOfContent(b.Content)
	if t, ok := content[0].(*TextBlock); ok {
		return append([]Block{markedText(mark, t)}, content[1:]...)
	}
	return append([]Block{Text(mark)}, content...)
}
