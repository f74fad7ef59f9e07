package session

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestConstructorsAndAccessors(t *testing.T) {
	m := NewMessage(RoleAssistant, Text("a"), &ThinkingBlock{Text: "no"}, ToolUse("c1", "run", `{}`), Text("b"))
	if got, want := m.Text(), "a\nb"; got != want {
		t.Errorf("Text() = %q, want %q", got, want)
	}
	if uses := m.ToolUses(); len(uses) != 1 || uses[0] != m.Content[2] {
		t.Errorf("ToolUses() = %v, want the block itself", uses)
	}
	r := ToolResults(ToolResult("c1", "run", "out"), ToolError("c2", "run", "no"))
	results := r.ToolResults()
	if r.Role != RoleTool || len(results) != 2 || results[0].IsError || !results[1].IsError || results[1].Text() != "no" {
		t.Errorf("ToolResults: %v", r)
	}
	for _, m := range []Message{SystemText("x"), UserText("x"), AssistantText("x")} {
		if m.Text() != "x" {
			t.Errorf("Text() = %q, want x", m.Text())
		}
	}
	for i, want := range []string{"text", "thinking", "media", "tool_use", "tool_result", "text"} {
		if got := everyBlock().Content[i].Kind(); got != want {
			t.Errorf("Kind of block %d = %q, want %q", i, got, want)
		}
	}
}

func TestEqual(t *testing.T) {
	base := everyBlock
	if !base().Equal(base()) {
		t.Fatal("a message is not equal to itself")
	}
	block := func(i int, change func(Block)) func(*Message) {
		return func(m *Message) { change(m.Content[i]) }
	}
	for name, change := range map[string]func(*Message){
		"id":         func(m *Message) { m.ID = "m2" },
		"role":       func(m *Message) { m.Role = "x" },
		"time":       func(m *Message) { m.Time = m.Time.Add(1) },
		"metadata":   func(m *Message) { m.Metadata["a"].([]any)[0] = 1.0 },
		"key":        func(m *Message) { delete(m.Metadata, "a") },
		"fewer":      func(m *Message) { m.Content = m.Content[:5] },
		"order":      func(m *Message) { m.Content[0], m.Content[1] = m.Content[1], m.Content[0] },
		"nil":        func(m *Message) { m.Content[0] = nil },
		"typed nil":  func(m *Message) { m.Content[0] = (*TextBlock)(nil) },
		"text":       block(0, func(b Block) { b.(*TextBlock).Text = "" }),
		"unknown":    block(0, func(b Block) { b.(*TextBlock).unknown = "" }),
		"signature":  block(1, func(b Block) { b.(*ThinkingBlock).Signature = "" }),
		"redacted":   block(1, func(b Block) { b.(*ThinkingBlock).Redacted = nil }),
		"media type": block(2, func(b Block) { b.(*MediaBlock).Type = "" }),
		"media data": block(2, func(b Block) { b.(*MediaBlock).Data[0] ^= 1 }),
		"uri":        block(2, func(b Block) { b.(*MediaBlock).SourceURI = "" }),
		"input":      block(3, func(b Block) { b.(*ToolUseBlock).Input = json.RawMessage(`{"a":[1, 2.0]}`) }),
		"result":     block(4, func(b Block) { b.(*ToolResultBlock).Content[0].(*TextBlock).Text = "" }),
		"is error":   block(4, func(b Block) { b.(*ToolResultBlock).IsError = false }),
		"raw type":   block(5, func(b Block) { b.(*RawBlock).Type = "x" }),
		"raw data":   block(5, func(b Block) { b.(*RawBlock).Data = nil }),
	} {
		m := base()
		change(&m)
		if m.Equal(base()) || base().Equal(m) {
			t.Errorf("%s: Equal = true for different messages", name)
		}
	}
	a := Message{Role: "u", Content: []Block{}, Time: time.Unix(1, 0).In(time.FixedZone("", 3600)), Metadata: map[string]any{"n": 1, "l": []string{"x"}}}
	b := Message{Role: "u", Time: time.Unix(1, 0).UTC(), Metadata: map[string]any{"n": int64(1), "l": []any{"x"}}}
	if !a.Equal(b) || !b.Equal(a) || EqualMessages([]Message{a}, []Message{b, b}) {
		t.Errorf("Equal = false for the same in another form:\n%s", cmp.Diff(a, b, show))
	}
}

func TestCloneIsDeep(t *testing.T) {
	want := []Message{everyBlock(), {Role: "user"}, everyBlock()}
	original := []Message{everyBlock(), {Role: "user"}, everyBlock()}
	canonical, err := Canonical(original)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := encodeMessages(original)
	if err != nil {
		t.Fatal(err)
	}
	decoded, _, err := decodeMessages(lines)
	if err != nil {
		t.Fatal(err)
	}
	for name, copies := range map[string][]Message{
		"CloneMessages": CloneMessages(original),
		"Clone":         {original[0].Clone(), original[1].Clone(), original[2].Clone()},
		"Canonical":     canonical,
		"decoded":       decoded,
	} {
		if !reflect.DeepEqual(copies, want) {
			t.Fatalf("%s differs (-want +got):\n%s", name, cmp.Diff(want, copies, show))
		}
		scribble(&copies[0])
		if !reflect.DeepEqual(original, want) || !reflect.DeepEqual(copies[1:], want[1:]) {
			t.Fatalf("%s shares memory with its original or its neighbours (-want +got):\n%s", name,
				cmp.Diff(want, append([]Message{original[0]}, copies[1:]...), show))
		}
	}
}

// scribble changes everything in m that can be changed in place.
func scribble(m *Message) {
	m.Metadata["a"].([]any)[5].(map[string]any)["b"] = "scribble"
	m.Metadata["new"] = true
	_ = append(m.Content, Text("scribble"))
	scribbleBlocks(m.Content)
}

func scribbleBlocks(content []Block) {
	for i, b := range content {
		switch b := b.(type) {
		case *TextBlock:
			*b = TextBlock{Text: "scribble"}
		case *ThinkingBlock:
			b.Redacted = scribbleBytes(b.Redacted)
		case *MediaBlock:
			b.Data = scribbleBytes(b.Data)
		case *ToolUseBlock:
			b.Input = scribbleBytes(b.Input)
		case *ToolResultBlock:
			_ = append(b.Content, Text("scribble"))
			scribbleBlocks(b.Content)
		case *RawBlock:
			b.Data = scribbleBytes(b.Data)
		}
		content[i] = nil
	}
}

func scribbleBytes(b []byte) []byte {
	for i := range b {
		b[i] = 'X'
	}
	return append(b, "scribble scribble scribble"...)
}

func TestCloneKeepsWhatCannotBeStored(t *testing.T) {
	cycle := &ToolResultBlock{}
	cycle.Content = []Block{cycle, cycle}
	loop := map[string]any{}
	loop["a"], loop["b"] = loop, loop
	wait := make(chan int)
	messages := []Message{
		{},
		{Content: []Block{}, Metadata: map[string]any{}, Time: time.Now()},
		{Content: []Block{nil}},
		{Content: []Block{nil, (*TextBlock)(nil), (*ThinkingBlock)(nil), (*MediaBlock)(nil), (*ToolUseBlock)(nil), (*ToolResultBlock)(nil), (*RawBlock)(nil)}},
		{Content: []Block{(*ToolResultBlock)(nil)}},
		{Content: []Block{&ThinkingBlock{Redacted: []byte{}}, &MediaBlock{Data: []byte{}}, ToolUse("", "", ""), &RawBlock{}, Text("\xff")}},
		{Metadata: map[string]any{"c": wait, "n": 1, "u": uint8(2), "e": []any{}, "z": []any(nil), "m": map[string]any(nil)}},
	}
	if got := CloneMessages(messages); !reflect.DeepEqual(got, messages) {
		t.Errorf("clone differs (-want +got):\n%#v\n%#v", messages, got)
	}
	if got := CloneMessages(nil); got != nil {
		t.Errorf("CloneMessages(nil) = %#v, want nil", got)
	}
	if got := CloneMessages([]Message{}); got == nil {
		t.Error("CloneMessages of an empty slice = nil, want an empty slice")
	}
	endless := []Message{{Content: []Block{cycle}}, UserText("x"), {Metadata: loop}}
	got := CloneMessages(endless)
	if len(got[0].Content) != 1 || got[0].Content[0] != Block(cycle) || got[1].Content[0] == endless[1].Content[0] || len(got[2].Metadata) != 2 {
		t.Errorf("endless content: got %v", got[1])
	}
	if one := endless[0].Clone(); one.Content[0] != Block(cycle) {
		t.Error("Clone of endless content doesn't share it")
	}
}

func TestCloneCostsFewAllocations(t *testing.T) {
	for _, n := range []int{1, 100, 1000} {
		messages := conversationOf(n)
		clone := testing.AllocsPerRun(10, func() { CloneMessages(messages) })
		canonical := testing.AllocsPerRun(10, func() { _, _ = Canonical(messages) })
		if clone > 5 || canonical > 5 {
			t.Errorf("%d messages: CloneMessages makes %v allocations, Canonical %v, want 5 at most", n, clone, canonical)
		}
	}
}

func TestPropertyClone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages, err := Canonical(messagesGen().Draw(t, "messages"))
		if err != nil {
			t.Fatal(err)
		}
		clones := CloneMessages(messages)
		if !reflect.DeepEqual(clones, messages) {
			t.Fatalf("clone differs (-want +got):\n%s", cmp.Diff(messages, clones, show))
		}
		for i := range messages {
			if clone := messages[i].Clone(); !reflect.DeepEqual(clone, messages[i]) {
				t.Fatalf("clone differs (-want +got):\n%s", cmp.Diff(messages[i], clone, show))
			}
		}
	})
}

func TestString(t *testing.T) {
	want := `assistant: line "two" é [thinking, redacted, 1 bytes] [image image/png a.pnghttps://x, 4 bytes]` +
		` [c1 run({"a": [1, 2.0]})] [c1 -> error: out [y, 19 bytes]] [text, 3 bytes]`
	if got := everyBlock().String(); got != want {
		t.Errorf("String() =\n%s\nwant\n%s", got, want)
	}
	if got := NewMessage("user", nil, Text(strings.Repeat("é", 200))).String(); !utf8.ValidString(got) || len(got) > 300 {
		t.Errorf("String() of a long text = %q", got)
	}
	if got := fmt.Sprint(UserText("hi")); got != "user: hi" {
		t.Errorf("Sprint = %q", got)
	}
}
