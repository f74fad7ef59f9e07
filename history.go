package session

import (
	"fmt"
	"slices"
)

// Turn is a part of a history: the messages from First up to, not including,
// End, both indexes.
type Turn struct{ First, End int }

// Turns divides a history into turns. A turn begins with a user message that
// holds more than tool results, and goes on up to the next. What stands before
// the first turn, such as system messages, is the preamble and in none. It
// looks at each message once and copies nothing.
func Turns(messages []Message) []Turn {
	var turns []Turn
	for i, m := range messages {
		if !beginsTurn(m) {
			continue
		}
		if n := len(turns); n > 0 {
			turns[n-1].End = i
		}
		turns = append(turns, Turn{i, len(messages)})
	}
	return turns
}

func beginsTurn(m Message) bool {
	if m.Role != RoleUser {
		return false
	}
	for _, b := range m.Content {
		if _, ok := b.(*ToolResultBlock); !ok {
			return true
		}
	}
	return len(m.Content) == 0
}

// Rule is one thing that a provider asks of a history. In the rules, the user's
// side is messages of RoleUser and RoleTool, and the preamble is the system
// messages in front.
type Rule uint8

// The rules. Which provider has which, and where that is written, is said at
// the profiles.
const (
	// RuleRole: a message is the system's, user's, assistant's or a tool's.
	// "developer" counts as the system's.
	RuleRole Rule = iota
	// RuleDeveloper: no message has the role "developer".
	RuleDeveloper
	// RuleSystemFirst: system messages stand in front of all others.
	RuleSystemFirst
	// RuleUserFirst: the first message behind the preamble is of RoleUser and
	// holds more than tool results.
	RuleUserFirst
	// RuleAlternate: the user's side and the assistant take turns, one
	// message each.
	RuleAlternate
	// RulePlace: a block stands where it has a meaning: calls and thinking in
	// assistant messages, results on the user's side, nothing but results in
	// a tool message, text in a system message, text and media in a result.
	// A RawBlock may stand anywhere but in a tool message, a nil block nowhere.
	RulePlace
	// RuleContent: a message has content.
	RuleContent
	// RuleText: no text is empty, also in results.
	RuleText
	// RuleBlankText: no text is only white space, also in results.
	RuleBlankText
	// RuleResultContent: a tool result has content.
	RuleResultContent
	// RuleCallAnswered: the calls of a message all have a result before the
	// assistant's next message, the next system message or the end.
	RuleCallAnswered
	// RuleResultHasCall: a result is for a call of the assistant message
	// directly before it.
	RuleResultHasCall
	// RuleOneResult: a call has no second result.
	RuleOneResult
	// RuleResultsFirst: results stand before all else between two assistant
	// messages.
	RuleResultsFirst
	// RuleCallIDOnce: the calls of a message have different IDs.
	RuleCallIDOnce
	// RuleCallIDUnique: all calls of the history have different IDs.
	RuleCallIDUnique
	// RuleCallIDLength: a call's ID has 1 to 64 bytes.
	RuleCallIDLength
	// RuleCallIDForm: a call's ID is 1 to 64 ASCII letters, digits, "_" and "-".
	RuleCallIDForm
	// RuleToolNamed: a call names its tool.
	RuleToolNamed
	// RuleToolNameForm: a tool's name is 1 to 128 ASCII letters, digits, "_"
	// and "-". A lower limit of a provider is not judged: its list of tools
	// would have been refused already.
	RuleToolNameForm
	// RuleInputObject: a call's input is a JSON object, not empty. Whether it
	// is well-formed JSON is a matter of the message, not of the history.
	RuleInputObject
	// RuleThinkingSigned: a thinking block has a signature, or is redacted.
	// Its text may be empty.
	RuleThinkingSigned
	// RuleThinkingLed: thinking is followed, in its message, by what it led
	// to: it is not the last block.
	RuleThinkingLed

	numRules
)

var ruleTexts = [numRules]struct{ name, text string }{
	RuleRole:           {"role", "the role is unknown"},
	RuleDeveloper:      {"developer", "there is no developer role"},
	RuleSystemFirst:    {"system-first", "a system message is behind other messages"},
	RuleUserFirst:      {"user-first", "the first message is not the user's own"},
	RuleAlternate:      {"alternate", "two messages of one side are neighbours"},
	RulePlace:          {"place", "a block has no place in this message"},
	RuleContent:        {"content", "the message is empty"},
	RuleText:           {"text", "a text is empty"},
	RuleBlankText:      {"blank-text", "a text is only white space"},
	RuleResultContent:  {"result-content", "a tool result is empty"},
	RuleCallAnswered:   {"call-answered", "a tool call has no result directly behind it"},
	RuleResultHasCall:  {"result-has-call", "a tool result has no call directly before it"},
	RuleOneResult:      {"one-result", "a tool call has a second result"},
	RuleResultsFirst:   {"results-first", "a tool result is behind other content"},
	RuleCallIDOnce:     {"call-id-once", "two tool calls of the message have one ID"},
	RuleCallIDUnique:   {"call-id-unique", "an earlier tool call has the same ID"},
	RuleCallIDLength:   {"call-id-length", "a tool call's ID is not 1 to 64 bytes"},
	RuleCallIDForm:     {"call-id-form", "a tool call's ID is not 1 to 64 letters, digits, _ and -"},
	RuleToolNamed:      {"tool-named", "a tool call names no tool"},
	RuleToolNameForm:   {"tool-name-form", "a tool's name is not 1 to 128 letters, digits, _ and -"},
	RuleInputObject:    {"input-object", "a tool call's input is not a JSON object"},
	RuleThinkingSigned: {"thinking-signed", "a thinking block has no signature"},
	RuleThinkingLed:    {"thinking-led", "a thinking block is the last of its message"},
}

// String is the rule's name: "call-answered" for RuleCallAnswered.
func (r Rule) String() string {
	if r < numRules {
		return ruleTexts[r].name
	}
	return fmt.Sprintf("Rule(%d)", uint8(r))
}

// HistoryError is the error of [Validate]. It wraps ErrInvalidHistory and holds
// no message content in its text.
type HistoryError struct {
	Index  int    // which message, from 0; of an unanswered call, the call's
	Rule   Rule   // which rule it breaks
	CallID string // the call that it is about, if it is about one
}

// Error says the message's position, counted from 1, and what is wrong with it.
func (e *HistoryError) Error() string {
	text := e.Rule.String()
	if e.Rule < numRules {
		text = ruleTexts[e.Rule].text + " (" + text + ")"
	}
	return fmt.Sprintf("%v: message %d: %s", ErrInvalidHistory, e.Index+1, text)
}

// Unwrap returns ErrInvalidHistory.
func (e *HistoryError) Unwrap() error { return ErrInvalidHistory }

// Profile is the set of rules that one provider has. It can't be changed.
type Profile struct {
	name  string
	rules ruleSet
}

type ruleSet uint32

func (s ruleSet) has(r Rule) bool { return s>>r&1 != 0 }

// NewProfile returns a profile of the given rules, for a provider that this
// package has none for. A value that is no Rule is ignored.
func NewProfile(name string, rules ...Rule) *Profile {
	p := &Profile{name: name}
	for _, r := range rules {
		if r < numRules {
			p.rules |= 1 << r
		}
	}
	return p
}

// Name returns the provider's name.
func (p *Profile) Name() string { return p.name }

// Has reports whether a rule is one of the profile's.
func (p *Profile) Has(r Rule) bool { return p.rules.has(r) }

// Rules returns the profile's rules in the order of the constants.
func (p *Profile) Rules() []Rule {
	return slices.DeleteFunc(slices.Clone(everyRule), func(r Rule) bool { return !p.Has(r) })
}

var everyRule = func() (rules []Rule) {
	for r := range numRules {
		rules = append(rules, r)
	}
	return rules
}()
