package session

import (
	"encoding/json"
	"sync"
	"unicode"
)

const roleDeveloper Role = "developer" // OpenAI's name for the system's

const (
	maxCallIDBytes   = 64
	maxToolNameBytes = 128
)

// Validate reports whether a provider would take the history: nil, or a
// [*HistoryError] for the first message that breaks a rule of the profile. A
// nil profile is AnyProvider. It judges a history, not a request: it may be
// empty, it may be a preamble alone, and it may end with an assistant message.
// It reads each message once, changes nothing and keeps nothing. A nil block is
// a fault where the profile has RulePlace, and else ignored.
func Validate(messages []Message, p *Profile) error {
	if p == nil {
		p = AnyProvider
	}
	if err := validate(messages, p.rules); err != nil {
		return err
	}
	return nil
}

func validate(messages []Message, rules ruleSet) *HistoryError {
	v := validators.Get().(*validator)
	defer v.release()
	v.rules = rules
	v.calls.begin(messages)
	for i := range messages {
		if err := v.message(i, &messages[i]); err != nil {
			return err
		}
	}
	return v.unanswered()
}

var validators = sync.Pool{New: func() any { return new(validator) }}

// maxPooledSlots bounds what an idle validator holds, and what emptying one costs.
const maxPooledSlots = 1 << 14

// validator is the state of one Validate: where it is, and the calls so far.
type validator struct {
	rules ruleSet
	at    int     // the message that is looked at
	last  side    // whose the message before it is
	begun bool    // the preamble is over
	other bool    // there was something else than results since the last assistant message
	asked int     // the last assistant message
	open  int     // how many of its calls have no result
	calls callSet // all calls so far
}

func (v *validator) release() {
	calls := v.calls
	if calls.messages, calls.last = nil, nil; len(calls.slots) > maxPooledSlots {
		calls = callSet{}
	}
	*v = validator{calls: calls}
	validators.Put(v)
}

// side is who speaks.
type side uint8

const (
	sideNone side = iota
	sideSystem
	sideUser
	sideAssistant
)

func sideOf(r Role) side {
	switch r {
	case RoleUser, RoleTool:
		return sideUser
	case RoleAssistant:
		return sideAssistant
	case RoleSystem, roleDeveloper:
		return sideSystem
	}
	return sideNone
}

func (v *validator) fault(r Rule) *HistoryError { return &HistoryError{Index: v.at, Rule: r} }

func (v *validator) callFault(r Rule, id string) *HistoryError {
	return &HistoryError{Index: v.at, Rule: r, CallID: id}
}

// unanswered returns the fault of the last assistant message's calls if one
// has no result.
func (v *validator) unanswered() *HistoryError {
	if v.open == 0 || !v.rules.has(RuleCallAnswered) {
		return nil
	}
	err := &HistoryError{Index: v.asked, Rule: RuleCallAnswered}
	for _, b := range v.calls.messages[v.asked].Content {
		if use, ok := b.(*ToolUseBlock); ok && use != nil {
			if !v.calls.find(use.ID).answered() {
				err.CallID = use.ID
				break
			}
		}
	}
	return err
}

func (v *validator) message(i int, m *Message) *HistoryError {
	v.at = i
	s := sideOf(m.Role)
	if err := v.order(s, m); err != nil {
		return err
	}
	if len(m.Content) == 0 && v.rules.has(RuleContent) {
		return v.fault(RuleContent)
	}
	for j, b := range m.Content {
		if use, ok := b.(*ToolUseBlock); ok && use != nil && s == sideAssistant {
			if err := v.call(use, j); err != nil {
				return err
			}
			continue
		}
		if err := v.block(b, s, m.Role); err != nil {
			return err
		}
	}
	if n := len(m.Content); s == sideAssistant && n > 0 && v.rules.has(RuleThinkingLed) {
		if _, ok := m.Content[n-1].(*ThinkingBlock); ok {
			return v.fault(RuleThinkingLed)
		}
	}
	return nil
}

// order judges where a message of side s stands.
func (v *validator) order(s side, m *Message) *HistoryError {
	switch {
	case s == sideNone && v.rules.has(RuleRole):
		return v.fault(RuleRole)
	case m.Role == roleDeveloper && v.rules.has(RuleDeveloper):
		return v.fault(RuleDeveloper)
	case s == sideSystem:
		if v.begun && v.rules.has(RuleSystemFirst) {
			return v.fault(RuleSystemFirst)
		}
		v.other = true
		return v.unanswered()
	case !v.begun && v.rules.has(RuleUserFirst) && !beginsTurn(*m):
		return v.fault(RuleUserFirst)
	case s == v.last && s != sideNone && v.rules.has(RuleAlternate):
		return v.fault(RuleAlternate)
	}
	v.begun, v.last = true, s
	if s == sideAssistant {
		if err := v.unanswered(); err != nil {
			return err
		}
		v.asked, v.open, v.other = v.at, 0, false
	}
	return nil
}

// block judges a block that is no call of the assistant's.
func (v *validator) block(b Block, s side, role Role) *HistoryError {
	placed := true
	switch b := b.(type) {
	case *TextBlock:
		if b != nil && role != RoleTool {
			v.other = v.other || s != sideAssistant
			return v.text(b.Text)
		}
		placed = false
	case *ThinkingBlock:
		placed = b != nil && s == sideAssistant
		if b != nil && !isSigned(b) && v.rules.has(RuleThinkingSigned) {
			return v.fault(RuleThinkingSigned)
		}
	case *MediaBlock:
		placed = b != nil && s != sideSystem && role != RoleTool
	case *ToolResultBlock:
		if b != nil && s == sideUser {
			return v.result(b)
		}
		placed = false
	case *RawBlock:
		placed = b != nil && role != RoleTool
	default:
		placed = false
	}
	v.other = v.other || s != sideAssistant
	if !placed && v.rules.has(RulePlace) {
		return v.fault(RulePlace)
	}
	return nil
}

func (v *validator) text(text string) *HistoryError {
	switch {
	case text == "" && v.rules.has(RuleText):
		return v.fault(RuleText)
	case isBlank(text) && v.rules.has(RuleBlankText):
		return v.fault(RuleBlankText)
	}
	return nil
}

func (v *validator) call(b *ToolUseBlock, block int) *HistoryError {
	switch {
	case v.rules.has(RuleCallIDForm) && !wellFormed(b.ID, maxCallIDBytes):
		return v.callFault(RuleCallIDForm, b.ID)
	case v.rules.has(RuleCallIDLength) && (b.ID == "" || len(b.ID) > maxCallIDBytes):
		return v.callFault(RuleCallIDLength, b.ID)
	case v.rules.has(RuleToolNamed) && b.Name == "":
		return v.callFault(RuleToolNamed, b.ID)
	case v.rules.has(RuleToolNameForm) && !wellFormed(b.Name, maxToolNameBytes):
		return v.callFault(RuleToolNameForm, b.ID)
	case v.rules.has(RuleInputObject) && !isObject(b.Input):
		return v.callFault(RuleInputObject, b.ID)
	}
	slot := v.calls.find(b.ID)
	earlier := slot.index()
	switch {
	case earlier == v.at && v.rules.has(RuleCallIDOnce):
		return v.callFault(RuleCallIDOnce, b.ID)
	case earlier >= 0 && v.rules.has(RuleCallIDUnique):
		return v.callFault(RuleCallIDUnique, b.ID)
	case earlier != v.at:
		v.open++
		v.calls.put(slot, v.at, block)
	}
	return nil
}

func (v *validator) result(b *ToolResultBlock) *HistoryError {
	call := v.calls.findLatest(b.ToolUseID)
	found := call.index() == v.asked
	switch {
	case !found && v.rules.has(RuleResultHasCall):
		return v.callFault(RuleResultHasCall, b.ToolUseID)
	case found && call.answered() && v.rules.has(RuleOneResult):
		return v.callFault(RuleOneResult, b.ToolUseID)
	case v.other && v.rules.has(RuleResultsFirst):
		return v.callFault(RuleResultsFirst, b.ToolUseID)
	case len(b.Content) == 0 && v.rules.has(RuleResultContent):
		return v.callFault(RuleResultContent, b.ToolUseID)
	}
	if found && !call.answered() {
		call.answer()
		v.open--
	}
	for _, c := range b.Content {
		if t, ok := c.(*TextBlock); ok && t != nil {
			if err := v.text(t.Text); err != nil {
				err.CallID = b.ToolUseID
				return err
			}
		} else if !inResult(c) && v.rules.has(RulePlace) {
			return v.callFault(RulePlace, b.ToolUseID)
		}
	}
	return nil
}

// inResult reports whether b may be part of a tool result.
func inResult(b Block) bool {
	switch b := b.(type) {
	case *TextBlock:
		return b != nil
	case *MediaBlock:
		return b != nil
	case *RawBlock:
		return b != nil
	}
	return false
}

func isSigned(b *ThinkingBlock) bool { return b.Signature != "" || len(b.Redacted) > 0 }

// isBlank reports whether a text is empty or only white space. The ASCII
// separators count: some providers' own check strips them.
func isBlank(text string) bool {
	if text != "" && ' ' < text[0] && text[0] < 0x80 {
		return false
	}
	for _, r := range text {
		if !unicode.IsSpace(r) && (r < 0x1c || r > 0x1f) {
			return false
		}
	}
	return true
}

// wellFormed reports whether s is 1 to limit ASCII letters, digits, "_" and "-".
func wellFormed(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	for i := range len(s) {
		if !idByte(s[i]) {
			return false
		}
	}
	return true
}

func idByte(c byte) bool { return idBytes[c] }

// idBytes is the set of letters, digits, "_" and "-".
var idBytes = func() (set [256]bool) {
	for _, c := range []byte("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz") {
		set[c] = true
	}
	return set
}()

// isObject reports whether a JSON value is an object, by its ends.
func isObject(value json.RawMessage) bool {
	first, last := 0, len(value)-1
	for first < last && isSpace(value[first]) {
		first++
	}
	for last > first && isSpace(value[last]) {
		last--
	}
	return first < last && value[first] == '{' && value[last] == '}'
}
