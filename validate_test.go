package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/internal/ratio"
)

// The shortest way to write a history.
type (
	history = []session.Message
	block   = session.Block
)

func system(content ...block) session.Message {
	return session.NewMessage(session.RoleSystem, content...)
}
func user(content ...block) session.Message { return session.NewMessage(session.RoleUser, content...) }
func tool(content ...block) session.Message { return session.NewMessage(session.RoleTool, content...) }
func assistant(content ...block) session.Message {
	return session.NewMessage(session.RoleAssistant, content...)
}
func text(s string) block       { return session.Text(s) }
func use(id string) block       { return session.ToolUse(id, "x", "{}") }
func answer(id, s string) block { return session.ToolResult(id, "x", s) }
func answerOf(content ...block) block {
	return &session.ToolResultBlock{ToolUseID: "t", Content: content}
}
func thinking(s, signature string) block {
	return &session.ThinkingBlock{Text: s, Signature: signature}
}
func image() block {
	return &session.MediaBlock{Type: session.MediaImage, MIMEType: "image/png", Data: []byte{1}}
}
func raw() block { return &session.RawBlock{Type: "citation", Data: []byte(`{"type":"citation"}`)} }

var (
	q    = user(text("q"))
	call = assistant(use("t"))
	done = tool(answer("t", "r"))
)

func validHistories() map[string]history {
	return map[string]history{
		"nothing":           nil,
		"a preamble":        {system(text("s")), system(text("s2"))},
		"a question":        {q},
		"an answer":         {q, assistant(text("a"))},
		"a tool":            {system(text("s")), q, call, done, assistant(text("a")), user(text("q2"))},
		"results of a user": {q, call, user(answer("t", "r"), text("go on")), assistant(text("a"))},
		"parallel calls":    {q, assistant(text("a"), use("1"), use("2")), tool(answer("2", "r"), answer("1", "r"))},
		"thinking":          {q, assistant(thinking("why", "sig"), use("t")), done, assistant(thinking("", "sig"), text("a"))},
		"redacted thinking": {q, assistant(&session.ThinkingBlock{Redacted: []byte{1}}, text("a"))},
		"text behind calls": {q, assistant(use("t"), text("a")), done},
		"media":             {user(image()), assistant(text("a"), image()), user(text("q")), call, tool(answerOf(image(), text("r"), raw()))},
		"raw blocks":        {system(raw()), user(raw()), assistant(raw())},
		"input with spaces": {q, assistant(session.ToolUse("t", "x", " \n{\"a\": 1}\t")), done},
	}
}

func TestValidateAcceptsForAllProviders(t *testing.T) {
	for name, h := range validHistories() {
		for _, p := range profiles {
			if err := session.Validate(h, p); err != nil {
				t.Errorf("Validate(%s, %s) = %v", name, p.Name(), err)
			}
		}
		if err := session.Validate(h, nil); err != nil {
			t.Errorf("Validate(%s, nil) = %v", name, err)
		}
	}
}

// invalidHistories holds one or more histories for each rule, each with the
// index of the message that breaks it and who minds: of Anthropic, OpenAI,
// Bedrock and Gemini the first letters.
var invalidHistories = []struct {
	rule  session.Rule
	h     history
	index int
	minds string
}{
	{session.RuleRole, history{q, session.NewMessage("critic", text("c"))}, 1, "AOBG"},
	{session.RuleDeveloper, history{session.NewMessage("developer", text("c")), q}, 0, "ABG"},
	{session.RuleSystemFirst, history{q, system(text("s"))}, 1, "ABG"},
	{session.RuleUserFirst, history{assistant(text("a")), q}, 0, "ABG"},
	{session.RuleUserFirst, history{system(text("s")), assistant(text("a"))}, 1, "ABG"},
	{session.RuleAlternate, history{q, q}, 1, "BG"},
	{session.RuleAlternate, history{q, assistant(text("a")), assistant(text("a"))}, 2, "BG"},
	{session.RuleAlternate, history{q, assistant(use("1"), use("2")), tool(answer("1", "r")), tool(answer("2", "r"))}, 3, "BG"},
	{session.RulePlace, history{user(text("q"), use("t"))}, 0, "AOBG"},
	{session.RulePlace, history{user(text("q"), thinking("t", "sig"))}, 0, "AOBG"},
	{session.RulePlace, history{q, assistant(use("t"), answer("t", "r"))}, 1, "AOBG"},
	{session.RulePlace, history{q, call, tool(answer("t", "r"), text("go on"))}, 2, "AOBG"},
	{session.RulePlace, history{q, call, tool(answer("t", "r"), raw())}, 2, "AOBG"},
	{session.RulePlace, history{q, call, tool(answerOf(text("r"), use("u")))}, 2, "AOBG"},
	{session.RulePlace, history{q, call, tool(answerOf(answer("u", "r")))}, 2, "AOBG"},
	{session.RulePlace, history{q, call, tool(answerOf(thinking("t", "sig")))}, 2, "AOBG"},
	{session.RulePlace, history{system(image()), q}, 0, "AOBG"},
	{session.RulePlace, history{user(text("q"), nil)}, 0, "AOBG"},
	{session.RulePlace, history{user(text("q"), (*session.TextBlock)(nil))}, 0, "AOBG"},
	{session.RuleContent, history{q, assistant()}, 1, "AOBG"},
	{session.RuleContent, history{user(), assistant(text("a"))}, 0, "AOBG"},
	{session.RuleText, history{q, assistant(text("a"), text(""))}, 1, "ABG"},
	{session.RuleText, history{q, call, tool(answer("t", ""))}, 2, "ABG"},
	{session.RuleBlankText, history{user(text(" \n\t\u00a0\u3000\x1f"))}, 0, "AB"},
	{session.RuleBlankText, history{q, call, tool(answer("t", "\n"))}, 2, "AB"},
	{session.RuleResultContent, history{q, call, tool(answerOf())}, 2, "B"},
	{session.RuleCallAnswered, history{q, call}, 1, "AOBG"},
	{session.RuleCallAnswered, history{q, call, user(text("go on"))}, 1, "AOBG"},
	{session.RuleCallAnswered, history{q, call, user(text("go on")), assistant(text("a")), done}, 1, "AOBG"},
	{session.RuleCallAnswered, history{q, assistant(use("1"), use("2")), tool(answer("2", "r")), assistant(text("a"))}, 1, "AOBG"},
	{session.RuleCallAnswered, history{q, call, system(text("s")), done}, 1, "O"},
	{session.RuleResultHasCall, history{user(text("q"), answer("t", "r"))}, 0, "AOBG"},
	{session.RuleResultHasCall, history{q, call, tool(answer("u", "r"))}, 2, "AOBG"},
	{session.RuleResultHasCall, history{q, call, done, assistant(text("a")), done}, 4, "AOBG"},
	{session.RuleOneResult, history{q, call, tool(answer("t", "r"), answer("t", "r"))}, 2, "AOBG"},
	{session.RuleOneResult, history{q, call, done, done}, 3, "AO"},
	{session.RuleResultsFirst, history{q, call, user(text("q"), answer("t", "r"))}, 2, "AOB"},
	{session.RuleResultsFirst, history{q, call, q, done}, 3, "AO"},
	{session.RuleCallIDOnce, history{q, assistant(use("t"), use("t")), done}, 1, "AOBG"},
	{session.RuleCallIDUnique, history{q, call, done, call, done}, 3, "AB"},
	{session.RuleCallIDLength, history{q, assistant(use("")), tool(answer("", "r"))}, 1, "O"},
	{session.RuleCallIDLength, history{q, assistant(use(strings.Repeat("i", 65))), tool(answer(strings.Repeat("i", 65), "r"))}, 1, "O"},
	{session.RuleCallIDForm, history{q, assistant(use("")), tool(answer("", "r"))}, 1, "AB"},
	{session.RuleCallIDForm, history{q, assistant(use("f.x:0")), tool(answer("f.x:0", "r"))}, 1, "AB"},
	{session.RuleCallIDForm, history{q, assistant(use("é")), tool(answer("é", "r"))}, 1, "AB"},
	{session.RuleToolNamed, history{q, assistant(session.ToolUse("t", "", "{}")), done}, 1, "AOBG"},
	{session.RuleToolNameForm, history{q, assistant(session.ToolUse("t", "a b", "{}")), done}, 1, "AOB"},
	{session.RuleToolNameForm, history{q, assistant(session.ToolUse("t", strings.Repeat("n", 129), "{}")), done}, 1, "AOB"},
	{session.RuleInputObject, history{q, assistant(session.ToolUse("t", "x", `[1]`)), done}, 1, "ABG"},
	{session.RuleInputObject, history{q, assistant(session.ToolUse("t", "x", ``)), done}, 1, "ABG"},
	{session.RuleInputObject, history{q, assistant(session.ToolUse("t", "x", `{`)), done}, 1, "ABG"},
	{session.RuleThinkingSigned, history{q, assistant(thinking("why", ""), text("a"))}, 1, "AB"},
	{session.RuleThinkingLed, history{q, assistant(thinking("why", "sig"))}, 1, "AOB"},
	{session.RuleThinkingLed, history{q, assistant(text("a"), thinking("why", "sig"))}, 1, "AOB"},
}

func TestValidateNamesTheRuleAndTheMessage(t *testing.T) {
	for i, test := range invalidHistories {
		name := fmt.Sprintf("%d %v", i, test.rule)
		if err := session.Validate(test.h, session.AnyProvider); !errors.Is(err, session.ErrInvalidHistory) {
			t.Errorf("%s: Validate(AnyProvider) = %v, want ErrInvalidHistory", name, err)
		}
		for _, p := range profiles[:4] {
			minds := strings.Contains(test.minds, p.Name()[:1])
			var fault *session.HistoryError
			switch err := session.Validate(test.h, p); {
			case !minds && errors.As(err, &fault) && fault.Rule == test.rule:
				t.Errorf("%s: Validate(%s) = %v, want it not to mind", name, p.Name(), err)
			case minds && (!errors.As(err, &fault) || fault.Rule != test.rule || fault.Index != test.index):
				t.Errorf("%s: Validate(%s) = %v, want it at message %d", name, p.Name(), err, test.index+1)
			}
		}
		if err := session.Validate(test.h, session.NewProfile("one rule", test.rule)); err == nil {
			t.Errorf("%s: Validate with only that rule found nothing", name)
		}
	}
}

func TestValidateCoversEveryRule(t *testing.T) {
	for _, r := range session.AnyProvider.Rules() {
		tested := false
		for _, test := range invalidHistories {
			tested = tested || test.rule == r
		}
		if !tested {
			t.Errorf("no history breaks %v", r)
		}
	}
}

// What a window that cuts between a call and its result leaves, alone and
// behind a kept system message, and one that begins with the assistant.
func TestValidateCutHistories(t *testing.T) {
	for _, cut := range []history{
		{done, assistant(text("done"))},
		{system(text("s")), done, assistant(text("done"))},
		{user(answer("t", "r")), assistant(text("done"))},
		{assistant(text("a3")), user(text("u4")), assistant(text("a4"))},
		{call, done, assistant(text("done"))},
	} {
		for _, p := range profiles {
			if p != session.OpenAI && session.Validate(cut, p) == nil {
				t.Errorf("Validate(%v, %s) = nil", cut, p.Name())
			}
			if err := session.Validate(session.Repair(cut), p); err != nil {
				t.Errorf("repaired %v: Validate(%s) = %v", cut, p.Name(), err)
			}
		}
	}
}

// Rules say nothing about what other rules are for.
func TestValidateWithoutRulesOfIDs(t *testing.T) {
	p := session.NewProfile("own", session.RuleCallAnswered, session.RuleResultHasCall)
	for _, h := range []history{
		{q, assistant(use("t"), use("t")), done},
		{q, call, done, call, done},
		{q, assistant(use("")), tool(answer("", "r"))},
	} {
		if err := session.Validate(h, p); err != nil {
			t.Errorf("Validate(%v) = %v", h, err)
		}
	}
}

// So many calls that some share what they are found by.
func TestValidateManyCalls(t *testing.T) {
	calls, results := assistant(), tool()
	for i := range 200_000 {
		id := fmt.Sprint("call_", i)
		calls.Content = append(calls.Content, use(id))
		results.Content = append(results.Content, answer(id, "r"))
	}
	if err := session.Validate(history{q, calls, results}, nil); err != nil {
		t.Error(err)
	}
}

func longHistory(n int) history {
	h := make(history, 0, n)
	for i := 0; len(h) < n; i++ {
		id := fmt.Sprintf("call_%06d", i)
		h = append(h, user(text("what does the store do with a torn tail?")),
			assistant(text("let me look"), session.ToolUse(id, "read_file", `{"path":"store.go"}`)),
			tool(session.ToolResult(id, "read_file", strings.Repeat("func (s *Store) Load() error\n", 20))),
			assistant(text("it was never acknowledged, so it is cut off")))
	}
	return h
}

func TestValidateAllocatesNothing(t *testing.T) {
	h := longHistory(1000)
	if err := session.Validate(h, nil); err != nil {
		t.Fatal(err)
	}
	// The race detector drops pooled values at random.
	least := 1e9
	for range 20 {
		least = min(least, testing.AllocsPerRun(1, func() { _ = session.Validate(h, nil) }))
	}
	if least > 2 {
		t.Errorf("Validate of 1,000 messages allocates %v times, want none", least)
	}
}

func BenchmarkValidate(b *testing.B) {
	h := longHistory(10_000)
	ratio.Report(b, "validate/clone", func() { session.CloneMessages(h) }, func() {
		if err := session.Validate(h, nil); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkRepair(b *testing.B) {
	valid := longHistory(10_000)
	broken := append(longHistory(10_000), assistant(use("open")))
	b.Run("valid", func(b *testing.B) {
		ratio.Report(b, "repair/clone", func() { session.CloneMessages(valid) }, func() { session.Repair(valid) })
	})
	b.Run("broken", func(b *testing.B) {
		ratio.Report(b, "repair/clone", func() { session.CloneMessages(valid) }, func() { session.Repair(broken) })
	})
}
