package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-go/session"
)

func standIn(id string) block { return session.ToolError(id, "x", session.MissingResultText) }

func named(id, name, input string) block { return session.ToolUse(id, name, input) }

var opening = user(text(session.OpeningText))

var repairs = []struct {
	name    string
	in, out history
}{
	{"nothing at all", history{}, history{}},
	{"nothing to keep", history{user(text(" ")), assistant(thinking("t", ""))}, history{}},
	{"a preamble alone", history{system(text("s"), text("")), system()}, history{system(text("s"))}},

	{"call without a result", history{q, assistant(text("a"), use("t")), user(text("go on"))},
		history{q, assistant(text("a"), use("t")), user(standIn("t"), text("go on"))}},
	{"call without a result at the end", history{q, call}, history{q, call, tool(standIn("t"))}},
	{"parallel calls answered in part", history{q, assistant(use("1"), use("2"), use("3")), tool(answer("2", "r2"))},
		history{q, assistant(use("1"), use("2"), use("3")), tool(answer("2", "r2"), standIn("1"), standIn("3"))}},
	{"parallel calls in messages of their own", history{q, assistant(thinking("w", "sig"), use("1")), assistant(use("2")), tool(answer("1", "r1")), tool(answer("2", "r2"))},
		history{q, assistant(thinking("w", "sig"), use("1"), use("2")), tool(answer("1", "r1"), answer("2", "r2"))}},
	{"what was said after a call", history{q, assistant(use("1")), assistant(text("a"), use("2")), tool(answer("2", "r2")), tool(answer("1", "r1"))},
		history{q, assistant(use("1")), tool(answer("1", "r1")), assistant(text("a"), use("2")), tool(answer("2", "r2"))}},

	{"result after others", history{q, call, user(text("q2")), assistant(text("a2")), done},
		history{q, call, user(answer("t", "r"), text("q2")), assistant(text("a2"))}},
	{"result before its call", history{q, done, call, user(text("q2"))},
		history{q, call, user(answer("t", "r"), text("q2"))}},
	{"two writers", history{q, assistant(use("1")), user(text("q2")), assistant(use("2")), tool(answer("1", "r1")), tool(answer("2", "r2"))},
		history{q, assistant(use("1")), user(answer("1", "r1"), text("q2")), assistant(use("2")), tool(answer("2", "r2"))}},
	{"result in the assistant's message", history{q, assistant(use("t"), answer("t", "r"), text("a"))},
		history{q, call, tool(answer("t", "r")), assistant(text("a"))}},
	{"result without a call", history{q, assistant(text("a")), tool(answer("t9", "r"))},
		history{q, assistant(text("a")), user(text("[result of unknown tool call t9] r"))}},
	{"error without a call", history{tool(session.ToolError("t9", "x", "r"))}, history{user(text("[error of unknown tool call t9] r"))}},
	{"image without a call", history{tool(&session.ToolResultBlock{ToolUseID: "t9", Content: []block{image()}})},
		history{user(text("[result of unknown tool call t9] "), image())}},
	{"stored stand-in", history{q, call, tool(standIn("t")), user(text("q2")), done},
		history{q, call, user(answer("t", "r"), text("q2"))}},
	{"text before a result", history{q, call, user(text("q2"), answer("t", "r"))},
		history{q, call, user(answer("t", "r"), text("q2"))}},

	{"ID used again", history{q, call, tool(answer("t", "r1")), call, tool(answer("t", "r2"))},
		history{q, call, tool(answer("t", "r1")), assistant(use("t-2")), tool(answer("t-2", "r2"))}},
	{"ID used again, taken name", history{q, call, done, call, done, assistant(use("t-2")), tool(answer("t-2", "r2"))},
		history{q, call, done, assistant(use("t-2")), tool(answer("t-2", "r")), assistant(use("t-2-2")), tool(answer("t-2-2", "r2"))}},
	{"ID used again after a crash", history{q, call, q, call, done},
		history{q, call, user(standIn("t"), text("q")), assistant(use("t-2")), tool(answer("t-2", "r"))}},
	{"ID used again after a crash, stored twice", history{q, call, q, call, done, done},
		history{q, call, user(standIn("t"), text("q")), assistant(use("t-2")), tool(answer("t-2", "r"))}},
	{"ID used by two writers", history{q, call, q, call, tool(answer("t", "r2")), tool(answer("t", "r1"))},
		history{q, call, user(answer("t", "r1"), text("q")), assistant(use("t-2")), tool(answer("t-2", "r2"))}},
	{"ID twice in a message", history{q, assistant(use("t"), use("t")), tool(answer("t", "r1"), answer("t", "r2"))},
		history{q, assistant(use("t"), use("t-2")), tool(answer("t", "r1"), answer("t-2", "r2"))}},
	{"IDs that some refuse", history{q, assistant(use(""), use("a.b:0"), use("a_b_0"), use("é")), tool(answer("é", "4"), answer("", "1"), answer("a.b:0", "2"), answer("a_b_0", "3"))},
		history{q, assistant(use("call"), use("a_b_0"), use("a_b_0-2"), use("_")), tool(answer("_", "4"), answer("call", "1"), answer("a_b_0", "2"), answer("a_b_0-2", "3"))}},
	{"IDs that are too long", history{q, assistant(use(strings.Repeat("i", 70)), use(strings.Repeat("i", 71)))},
		history{q, assistant(use(strings.Repeat("i", 64)), use(strings.Repeat("i", 62)+"-2")), tool(standIn(strings.Repeat("i", 64)), standIn(strings.Repeat("i", 62)+"-2"))}},

	{"names and inputs", history{q, assistant(named("1", "", ""), named("2", "a b", `[1]`), named("3", "x", "{"), named("4", "x", " null")), tool(answer("1", "r"), session.ToolResult("2", "a b", "r"), answer("3", "r"), answer("4", "r"))},
		history{q, assistant(named("1", "unknown_tool", "{}"), named("2", "a_b", `{"input":[1]}`), named("3", "x", `{"input":"{"}`), named("4", "x", `{"input": null}`)), tool(answer("1", "r"), session.ToolResult("2", "a_b", "r"), answer("3", "r"), answer("4", "r"))}},

	{"blank results", history{q, assistant(use("1"), use("2")), tool(answer("1", " "), &session.ToolResultBlock{ToolUseID: "2", IsError: true})},
		history{q, assistant(use("1"), use("2")), tool(answer("1", session.NoOutputText), &session.ToolResultBlock{ToolUseID: "2", IsError: true, Content: []block{text(session.NoOutputText)}})}},
	{"a result's content", history{q, call, tool(answerOf(text("r"), thinking("w", "sig"), answer("u", "nested"), use("u"), nil, raw()))},
		history{q, call, tool(answerOf(text("r"), text("nested"), text("[call u of tool x] {}"), raw()))}},

	{"thinking alone before its call", history{q, assistant(thinking("w", "sig")), call, done},
		history{q, assistant(thinking("w", "sig"), use("t")), done}},
	{"thinking alone", history{q, assistant(thinking("w", "sig")), user(text("q2"))}, history{user(text("q"), text("q2"))}},
	{"thinking last", history{q, assistant(text("a"), thinking("w", "sig"))}, history{q, assistant(text("a"))}},
	{"thinking unsigned", history{q, assistant(thinking("w", ""), thinking("", "sig"), text("a"))},
		history{q, assistant(thinking("", "sig"), text("a"))}},

	{"assistant first", history{system(text("s")), assistant(text("a")), q}, history{system(text("s")), opening, assistant(text("a")), q}},
	{"one side in two messages", history{q, user(text("q2")), assistant(text("a")), assistant(text("a2"), image())},
		history{user(text("q"), text("q2")), assistant(text("a"), text("a2"), image())}},
	{"nothing between two answers", history{q, assistant(text("a")), user(text(" ")), assistant(text("a2"))},
		history{q, assistant(text("a"), text("a2"))}},
	{"system in the middle", history{q, call, system(text("s")), done, session.NewMessage("developer", text("d"))},
		history{q, call, user(answer("t", "r"), text("[system message] s"), text("[system message] d"))}},
	{"developer in front", history{session.NewMessage("developer", text("d")), q}, history{system(text("d")), q}},
	{"media in a system message", history{system(text("s"), image()), q}, history{user(text("[system message] s"), image(), text("q"))}},
	{"unknown role", history{q, session.NewMessage("critic", text("c"))}, history{user(text("q"), text("[critic message] c"))}},
	{"text of a tool", history{q, call, tool(answer("t", "r"), text("note"))},
		history{q, call, user(answer("t", "r"), text("[tool message] note"))}},
	{"call of a user", history{user(text("q"), use("t")), done},
		history{user(text("q"), text("[call t of tool x] {}"), text("[result of unknown tool call t] r"))}},
	{"nil blocks", history{user(nil, text("q"), (*session.MediaBlock)(nil))}, history{q}},
}

func TestRepairMakesOf(t *testing.T) {
	for _, test := range repairs {
		before := session.CloneMessages(test.in)
		got := session.Repair(test.in)
		if !session.EqualMessages(got, test.out) {
			t.Errorf("%s: Repair() is\n%s, want\n%s", test.name, show(got), show(test.out))
		}
		if err := session.Validate(got, nil); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if !session.EqualMessages(test.in, before) {
			t.Errorf("%s: Repair changed its input", test.name)
		}
	}
}

func show(h history) string {
	var s strings.Builder
	for _, m := range h {
		fmt.Fprintf(&s, "\t%v\n", m)
	}
	return s.String()
}

func TestRepairOfAValidHistoryIsTheHistory(t *testing.T) {
	for name, h := range validHistories() {
		got := session.Repair(h)
		if !identical(got, h) || (got == nil) != (h == nil) {
			t.Errorf("Repair(%s) is\n%s, want it as it was", name, show(got))
		}
		// The valid part is the same view when something behind it is not valid.
		if n := len(h); n > 0 && h[n-1].Role == session.RoleAssistant {
			broken := append(slices.Clone(h), user(text("q")), assistant(text("")))
			if got = session.Repair(broken); !identical(got[:n], h) {
				t.Errorf("Repair(%s and more) is\n%s, want the first %d as they were", name, show(got), n)
			}
		}
	}
}

// identical reports whether two histories consist of the very same blocks.
func identical(a, b history) bool {
	return slices.EqualFunc(a, b, func(m, n session.Message) bool {
		return m.Role == n.Role && m.ID == n.ID && slices.Equal(m.Content, n.Content)
	})
}

func TestRepairKeepsIDAndMetadata(t *testing.T) {
	first, second := user(text("q"), text("")), user(text("q2"))
	first.ID, first.Metadata, second.ID = "m1", map[string]any{"k": int64(1)}, "m2"
	want := user(text("q"), text("q2"))
	want.ID, want.Metadata = first.ID, first.Metadata
	if got := session.Repair(history{first, second}); !session.EqualMessages(got, history{want}) {
		t.Errorf("Repair() = %v %v, want the first message's ID and Metadata", got[0].ID, got[0].Metadata)
	}
}

// C04: thinking and its signature stay together, where they were.
func TestRepairC04KeepsThinking(t *testing.T) {
	h := history{
		user(text("plan it")),
		assistant(thinking("First weigh A.\n\nThen B.", "c2lnLUEvKz0="), named("tu_1", "grep", `{"q":"A"}`)),
		user(answer("tu_1", "hit")),
		assistant(thinking("Result fits A.", "c2lnLUIvKz0="), text("A it is.")),
		user(text("and now?")), user(text("well?")), // what makes it repair
	}
	got := session.Repair(h)
	if len(got) != 5 || !identical(got[:4], h[:4]) {
		t.Errorf("Repair() is\n%s, want the first four messages as they were", show(got))
	}
}

// C07: a tool that returned nothing.
func TestRepairC07EmptyResult(t *testing.T) {
	h := history{
		user(text("fetch page 9")),
		assistant(text(""), named("tu_1", "fetch", `{"start":9000}`)),
		user(answer("tu_1", "")),
		user(text("and now?")),
	}
	stored := session.CloneMessages(h)
	want := history{
		user(text("fetch page 9")),
		assistant(named("tu_1", "fetch", `{"start":9000}`)),
		user(answer("tu_1", session.NoOutputText), text("and now?")),
	}
	if got := session.Repair(h); !session.EqualMessages(got, want) {
		t.Errorf("Repair() is\n%s, want\n%s", show(got), show(want))
	}
	if !session.EqualMessages(h, stored) {
		t.Error("Repair changed the stored history")
	}
}

// C42: the process died between a call and its result.
func TestRepairC42InterruptedCall(t *testing.T) {
	h := history{user(text("run it")), assistant(text("running"), named("t1", "bash", `{"cmd":"./x"}`)), user(text("go on"))}
	missing := session.ToolError("t1", "bash", session.MissingResultText)
	want := history{h[0], h[1], user(missing, text("go on"))}
	for range 4 {
		if got := session.Repair(session.CloneMessages(h)); !session.EqualMessages(got, want) {
			t.Errorf("Repair() is\n%s, want\n%s", show(got), show(want))
		}
	}
	h = append(h, assistant(text("ok")), tool(answer("t1", "late")))
	want = history{h[0], h[1], user(answer("t1", "late"), text("go on")), h[3]}
	if got := session.Repair(h); !session.EqualMessages(got, want) {
		t.Errorf("with the late result, Repair() is\n%s, want\n%s", show(got), show(want))
	}
}

// C44: one call with two results.
func TestRepairC44TwoResults(t *testing.T) {
	h := history{
		assistant(named("t1", "x", "{}"), named("t2", "y", "{}")),
		user(answer("t1", "first")),
		user(answer("t1", "second"), session.ToolResult("t2", "y", "ok"), text("next")),
	}
	want := history{opening, h[0], user(answer("t1", "first"), session.ToolResult("t2", "y", "ok"), text("next"))}
	for range 2 {
		if diff := cmp.Diff(show(want), show(session.Repair(h))); diff != "" {
			t.Errorf("Repair() (-want +got):\n%s", diff)
		}
		h = append(h, user(answer("t1", "second"), session.ToolResult("t2", "y", "ok")))
	}
}
