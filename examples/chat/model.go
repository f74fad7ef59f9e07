package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/session"
)

// model answers a history that ends with a user's prompt, or with the results
// of the tools that it called. With an error it may return what it has said so
// far.
type model interface {
	Reply(ctx context.Context, history []session.Message) (session.Message, error)
}

// rules is a model made of rules. It needs no network and no key, it says the
// same to the same history every time, and it knows nothing but what is in
// that history: what the user has said about themselves.
type rules struct{}

// Reply implements model.
func (rules) Reply(_ context.Context, history []session.Message) (session.Message, error) {
	turns := session.Turns(history)
	if len(turns) == 0 {
		return session.AssistantText("Hello! What can I do for you?"), nil
	}
	var m memory
	for _, t := range turns[:len(turns)-1] {
		for _, c := range clauses(history[t.First].Text()) {
			if !c.question {
				m.hear(c)
			}
		}
	}
	prompt := turns[len(turns)-1].First
	parts := m.respond(history[prompt].Text())
	results := make(map[string]*session.ToolResultBlock)
	for _, later := range history[prompt+1:] {
		for _, r := range later.ToolResults() {
			results[r.ToolUseID] = r
		}
	}
	return compose(parts, results, callPrefix(history[prompt])), nil
}

// part is a part of a reply: a text, or the call of a tool from whose result
// the text is made.
type part struct {
	text  string
	tool  string
	input string
}

// callPrefix is what the IDs of the calls for a prompt begin with. It comes of
// the prompt itself and not of its place, which a trimmed view does not show.
func callPrefix(prompt session.Message) string {
	h := fnv.New64a()
	fmt.Fprint(h, prompt.Time.UnixNano(), prompt.Text())
	return fmt.Sprintf("call_%016x", h.Sum64())
}

// compose makes a message of parts: the calls that have no result yet, else
// the text.
func compose(parts []part, results map[string]*session.ToolResultBlock, prefix string) session.Message {
	var calls []session.Block
	var texts []string
	for i, p := range parts {
		if p.tool == "" {
			texts = append(texts, p.text)
			continue
		}
		id := fmt.Sprintf("%s_%d", prefix, i+1)
		if r := results[id]; r != nil {
			texts = append(texts, p.explain(r))
		} else {
			calls = append(calls, session.ToolUse(id, p.tool, p.input))
		}
	}
	if len(calls) > 0 {
		return session.NewMessage(session.RoleAssistant, calls...)
	}
	return session.AssistantText(strings.Join(texts, " "))
}

// explain says what a tool has found.
func (p part) explain(r *session.ToolResultBlock) string {
	switch {
	case r.IsError && p.tool == "calculator":
		return "Sorry, I can't work that out: " + r.Text() + "."
	case r.IsError:
		return "Sorry, I can't tell: " + r.Text() + "."
	case p.tool == "calculator":
		return p.text + " = " + r.Text() + "."
	}
	now, err := time.Parse(time.RFC3339, r.Text())
	if err != nil {
		return "It is " + r.Text() + "."
	}
	return now.Format("It is 15:04 on Monday, 2 January 2006.")
}

// respond answers a prompt, clause by clause. What one clause says, the next
// may ask.
func (m *memory) respond(prompt string) []part {
	var parts []part
	var heard []fact
	flush := func() {
		if text := acknowledge(heard); text != "" {
			parts = append(parts, part{text: text})
		}
		heard = nil
	}
	fallback := ""
	for _, c := range clauses(prompt) {
		p, ok := useTool(c)
		if ok || c.question {
			flush()
		}
		switch {
		case ok:
			parts = append(parts, p)
		case c.question:
			text, known := aboutMe(c)
			if !known {
				text, _ = m.answer(c)
			}
			parts = append(parts, part{text: text})
		default:
			facts := m.hear(c)
			heard = append(heard, facts...)
			if len(facts) == 0 && fallback == "" {
				fallback = smallTalk(c, m)
			}
		}
	}
	flush()
	if len(parts) == 0 {
		parts = append(parts, part{text: fallback})
	}
	if parts[0] == (part{}) {
		parts[0].text = "You can tell me about yourself, or ask me to calculate something, or for the time."
	}
	return parts
}

// acknowledge says what was understood.
func acknowledge(facts []fact) string {
	var texts []string
	var others []fact
	for _, f := range facts {
		switch {
		case f.topic == "name" && !f.negated:
			texts = append(texts, "Nice to meet you, "+f.thing+".")
		case f.topic == "note":
			texts = append(texts, "I'll remember: "+f.says+".")
		default:
			others = append(others, f)
		}
	}
	if len(others) > 0 {
		texts = append(texts, "I'll remember that "+sentenceEnd(recite(others)))
	}
	return strings.Join(texts, " ")
}

// smallTalk answers a statement without facts in it.
func smallTalk(c clause, m *memory) string {
	switch first := c.lower[0]; {
	case slices.Contains([]string{"hi", "hello", "hey"}, first):
		if name, ok := m.known("name"); ok && !name.negated {
			return "Hello, " + name.thing + "!"
		}
		return "Hello! What is your name?"
	case first == "thanks" || c.begins("thank you"):
		return "You are welcome."
	case slices.Contains([]string{"bye", "goodbye"}, first):
		return "Goodbye."
	case len(c.words) > 2:
		return "I'll keep that in mind."
	}
	return ""
}

// aboutMe answers questions about the model itself.
func aboutMe(c clause) (string, bool) {
	switch {
	case c.has("i") || c.has("my") || c.has("me"):
		return "", false
	case c.begins("who are you"), c.begins("what are you"), c.has("your") && c.has("name"):
		return "I am a small model made of rules. I know what you tell me, I can calculate, and I have a clock.", true
	case c.begins("how are you"):
		return "I am fine, thank you.", true
	}
	return "", false
}

var (
	expression = regexp.MustCompile(`^[-+*/×÷−^%().,:0-9 ]*[0-9][-+*/×÷−^%().,:0-9 ]*$`)
	between    = regexp.MustCompile(`([0-9)]) *x *([0-9(])`)
	wordOps    = strings.NewReplacer("plus", "+", "minus", "-", "multiplied by", "*", "times", "*", "divided by", "/",
		"over", "/", "modulo", "%", "mod", "%", "to the power of", "^")
	calculations = []string{"calculate", "compute", "evaluate", "solve"}
	times        = []string{
		"what time is it", "what is the time", "what day is it", "what is the date", "what date is it",
		"what is the current time", "what is the current date", "what day is today", "what is today", "do you have the time",
		"what is the day", "tell me the time", "tell me what time it is", "do you know what time it is", "what year is it",
	}
)

// useTool returns the call that a clause asks for, if it asks for one.
func useTool(c clause) (part, bool) {
	if slices.ContainsFunc(times, c.begins) {
		return part{tool: "clock", input: "{}"}, true
	}
	rest := c
	for _, ask := range []string{"can you tell me", "tell me", "do you know", "what is", "how much is", "the result of"} {
		if rest.begins(ask) {
			rest = rest.from(len(strings.Fields(ask)))
		}
	}
	explicit := false
	for _, verb := range calculations {
		if rest.begins(verb) && len(rest.words) > 1 {
			rest, explicit = rest.from(1), true
		}
	}
	text := strings.TrimRight(strings.Join(rest.lower, " "), " =")
	text = between.ReplaceAllString(wordOps.Replace(text), "$1 * $2")
	asks := c.question || strings.ContainsAny(text, "+*/×÷^%")
	if !explicit && !(asks && expression.MatchString(text)) {
		return part{}, false
	}
	input, err := json.Marshal(calculatorInput{Expression: text})
	if err != nil {
		return part{}, false
	}
	return part{tool: "calculator", input: string(input), text: text}, true
}
