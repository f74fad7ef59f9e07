package session_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/session"
)

var profiles = []*session.Profile{
	session.Anthropic, session.OpenAI, session.BedrockConverse, session.Gemini, session.AnyProvider,
}

func TestHistoryProfilesAreSetsOfRules(t *testing.T) {
	all := session.AnyProvider.Rules()
	for _, p := range profiles {
		rules := p.Rules()
		if len(rules) == 0 || !slices.IsSorted(rules) {
			t.Errorf("%s.Rules() = %v, want some, in order", p.Name(), rules)
		}
		for _, r := range all {
			if p.Has(r) != slices.Contains(rules, r) {
				t.Errorf("%s.Has(%v) = %v, but Rules() says otherwise", p.Name(), r, p.Has(r))
			}
		}
	}
	names := map[string]bool{}
	for _, r := range all {
		if r.String() == "" || names[r.String()] {
			t.Errorf("rule %d is named %q, want a name of its own", r, r)
		}
		names[r.String()] = true
	}
	own := session.NewProfile("own", session.RuleText, 200)
	if got := own.Rules(); !slices.Equal(got, []session.Rule{session.RuleText}) || own.Name() != "own" {
		t.Errorf("NewProfile(own, RuleText, 200) = %s with %v, want RuleText alone", own.Name(), got)
	}
	if got := session.Rule(200).String(); got != "Rule(200)" {
		t.Errorf("Rule(200) = %q", got)
	}
}

func TestHistoryErrorSaysWhichMessageAndRule(t *testing.T) {
	err := session.Validate([]session.Message{
		session.UserText("q"),
		session.NewMessage(session.RoleAssistant, session.ToolUse("t1", "x", "{}"), session.ToolUse("t2", "x", "{}")),
		session.ToolResults(session.ToolResult("t1", "x", "secret")),
	}, session.Anthropic)
	if !errors.Is(err, session.ErrInvalidHistory) {
		t.Errorf("Validate() = %v, want ErrInvalidHistory", err)
	}
	var fault *session.HistoryError
	if !errors.As(err, &fault) || fault.Index != 1 || fault.Rule != session.RuleCallAnswered || fault.CallID != "t2" {
		t.Errorf("Validate() = %#v, want message index 1, RuleCallAnswered, call t2", err)
	}
	if text := err.Error(); !strings.Contains(text, "message 2") || !strings.Contains(text, "call-answered") || strings.Contains(text, "secret") {
		t.Errorf("Error() = %q, want message 2, the rule's name and no content", text)
	}
}
