package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/session"
)

// messy draws histories with all that can be wrong with one. Every text that
// must be kept is its own: "user 7", "result 8".
type messy struct {
	t *rapid.T
	n int
}

func (g *messy) pick(name string, n int) int { return rapid.IntRange(0, n-1).Draw(g.t, name) }

func (g *messy) own(kind string) string {
	g.n++
	return fmt.Sprintf("%s %d.", kind, g.n)
}

func (g *messy) id() string {
	return rapid.SampledFrom([]string{"t1", "t1", "t2", "t3", "t1-2", "a.b", "a_b", "", strings.Repeat("i", 66)}).Draw(g.t, "id")
}

func (g *messy) history() history {
	h := history{}
	for range g.pick("messages", 10) {
		role := rapid.SampledFrom([]session.Role{
			"user", "user", "assistant", "assistant", "assistant", "tool", "tool", "system", "developer", "critic",
		}).Draw(g.t, "role")
		m := session.NewMessage(role)
		for range g.pick("blocks", 4) {
			m.Content = append(m.Content, g.block(string(role), 2))
		}
		h = append(h, m)
	}
	return h
}

func (g *messy) block(role string, depth int) block {
	if role == "tool" || role == "assistant" {
		if g.pick("usual", 3) > 0 { // most blocks are where they belong
			if role == "tool" {
				return g.result(depth)
			}
			return g.call()
		}
	}
	switch g.pick("kind", 8) {
	case 0:
		return text(rapid.SampledFrom([]string{"", " ", "\n\u3000"}).Draw(g.t, "blank"))
	case 1:
		return thinking(g.own("thinking"), rapid.SampledFrom([]string{"", "sig"}).Draw(g.t, "signature"))
	case 2:
		return image()
	case 3:
		return raw()
	case 4:
		return g.call()
	case 5:
		if depth > 0 {
			return g.result(depth)
		}
	}
	return text(g.own(role))
}

func (g *messy) call() block {
	return named(g.id(), rapid.SampledFrom([]string{"x", "x", "y", "", "a b"}).Draw(g.t, "name"),
		rapid.SampledFrom([]string{"{}", "{}", `{"a": 1}`, "", "[1]", `"s"`}).Draw(g.t, "input"))
}

func (g *messy) result(depth int) block {
	r := &session.ToolResultBlock{ToolUseID: g.id(), Name: "x", IsError: g.pick("error", 3) == 0}
	for range g.pick("content", 3) {
		r.Content = append(r.Content, g.block("result", depth-1))
	}
	return r
}

// kept returns the texts that a view must have: all that isn't thinking, or of
// a second result that a call had.
func kept(h history) (texts []string) {
	seen := map[string]bool{}
	for _, m := range h {
		for _, b := range m.Content {
			switch b := b.(type) {
			case *session.TextBlock:
				texts = append(texts, strings.TrimSpace(b.Text))
			case *session.ToolResultBlock:
				if !seen[b.ToolUseID] { // others may be a second one
					texts = append(texts, resultTexts(b)...)
				}
				seen[b.ToolUseID] = true
			}
		}
	}
	return texts
}

func resultTexts(b *session.ToolResultBlock) (texts []string) {
	for _, c := range b.Content {
		switch c := c.(type) {
		case *session.TextBlock:
			texts = append(texts, strings.TrimSpace(c.Text))
		case *session.ToolResultBlock:
			texts = append(texts, resultTexts(c)...)
		}
	}
	return texts
}

func allTexts(h history) string {
	var s strings.Builder
	for _, m := range h {
		for _, b := range m.Content {
			switch b := b.(type) {
			case *session.TextBlock:
				s.WriteString(b.Text + "\n")
			case *session.ToolResultBlock:
				s.WriteString(strings.Join(resultTexts(b), "\n") + "\n")
			}
		}
	}
	return s.String()
}

// checkMany checks a hundred times the cases that the flags of rapid say.
func checkMany(t *testing.T, property func(*rapid.T)) {
	for range 100 {
		rapid.Check(t, property)
	}
}

func TestRepairAnyHistory(t *testing.T) {
	checkMany(t, func(t *rapid.T) {
		g := messy{t: t}
		h := g.history()
		before := session.CloneMessages(h)
		view := session.Repair(h)
		if !session.EqualMessages(h, before) {
			t.Fatalf("Repair changed its input from\n%sto\n%s", show(before), show(h))
		}
		for _, p := range profiles {
			if err := session.Validate(view, p); err != nil {
				t.Fatalf("Repair of\n%sis\n%s%s: %v", show(h), show(view), p.Name(), err)
			}
		}
		if again := session.Repair(view); !identical(again, view) {
			t.Fatalf("Repair(Repair()) is\n%swant\n%s", show(again), show(view))
		}
		if other := session.Repair(before); !session.EqualMessages(other, view) {
			t.Fatalf("Repair is\n%sand the next time\n%s", show(view), show(other))
		}
		texts := allTexts(view)
		for _, want := range kept(h) {
			if !strings.Contains(texts, want) {
				t.Fatalf("Repair of\n%sis\n%swithout %q", show(h), show(view), want)
			}
		}
		for i, m := range view {
			if m.Text() == session.OpeningText && i > 0 && view[i-1].Role != session.RoleSystem {
				t.Fatalf("Repair of\n%sis\n%swith an opening in the middle", show(h), show(view))
			}
		}
		if want, got := calls(h), calls(view); got != want {
			t.Fatalf("Repair of\n%sis\n%swith %d calls, want %d", show(h), show(view), got, want)
		}
	})
}

// calls is how many calls the assistant made.
func calls(h history) (n int) {
	for _, m := range h {
		if m.Role == session.RoleAssistant {
			n += len(m.ToolUses())
		}
	}
	return n
}

// A view that ends with the assistant's answer stays a prefix of later views,
// and one that ends with the user's side stays when the assistant answers.
func TestRepairViewsGrow(t *testing.T) {
	checkMany(t, func(t *rapid.T) {
		g := messy{t: t}
		h := g.history()
		if g.pick("answered", 2) > 0 {
			h = append(h, assistant(text("answer")))
		}
		view := session.Repair(h)
		if len(view) == 0 {
			return
		}
		next := history{user(text("next")), assistant(use("t1"), use("t2")), tool(answer("t2", "r"), answer("t1", "r")), assistant(text("a"))}
		switch view[len(view)-1].Role {
		case session.RoleAssistant:
			next = next[:1+g.pick("next", len(next))]
			if len(next) == 2 {
				next = next[:1] // calls without results may be given earlier ones
			}
		case session.RoleSystem:
			return
		default:
			next = history{assistant(text("next"))}
		}
		grown := session.Repair(append(slices.Clone(h), next...))
		if len(grown) < len(view) || !session.EqualMessages(grown[:len(view)], view) {
			t.Fatalf("Repair of\n%sis\n%sand with\n%sit is\n%s", show(h), show(view), show(next), show(grown))
		}
	})
}

// What is valid comes back block by block, also by way of the whole repair.
func TestRepairChangesNothingThatIsValid(t *testing.T) {
	checkMany(t, func(t *rapid.T) {
		g := messy{t: t}
		view := session.Repair(append(g.history(), assistant(text("answer"))))
		grown := session.Repair(append(slices.Clone(view), user(text("q"), text(" "))))
		if !identical(grown[:len(view)], view) {
			t.Fatalf("Repair of\n%sand something blank is\n%s", show(view), show(grown))
		}
	})
}
