package session

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session/internal/ratio"
)

// jsonMessage and jsonBlock are what one would write for encoding/json: one
// struct for all blocks, tags, no methods.
type jsonMessage struct {
	ID       string         `json:"id,omitempty"`
	Role     string         `json:"role"`
	Content  []jsonBlock    `json:"content,omitempty"`
	Time     time.Time      `json:"time,omitzero"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

type jsonBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []jsonBlock     `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

// conversationOf returns n messages that cycle through a user's text of 300
// bytes, an assistant's of 700, a call with 200 bytes of input and a result of
// 2 KB.
func conversationOf(n int) []Message {
	messages := make([]Message, n)
	for i := range messages {
		id := fmt.Sprintf("call_%06d", i/4)
		switch i % 4 {
		case 0:
			messages[i] = UserText(proseOf(300))
		case 1:
			messages[i] = AssistantText(proseOf(700))
		case 2:
			messages[i] = NewMessage(RoleAssistant, ToolUse(id, "read_file", inputOf(200)))
		case 3:
			messages[i] = ToolResults(ToolResult(id, "read_file", proseOf(2048)))
		}
	}
	return messages
}

// proseOf is text with the line breaks and quotes that code and prose have.
func proseOf(size int) string {
	const line = "func (s *Store) Load(id string) error { return s.read(\"session\", id) } // as told\n"
	return strings.Repeat(line, size/len(line)+1)[:size]
}

func inputOf(size int) string {
	const head, tail = `{"path":"internal/store/load.go","limit":200,"pattern":"`, `","case":true}`
	return head + strings.Repeat("a-z ", (size-len(head)-len(tail))/4) + tail
}

func mirror(messages []Message) []jsonMessage {
	mirrored := make([]jsonMessage, len(messages))
	for i, m := range messages {
		mirrored[i] = jsonMessage{ID: m.ID, Role: string(m.Role), Content: mirrorBlocks(m.Content), Time: m.Time, Metadata: m.Metadata}
	}
	return mirrored
}

func mirrorBlocks(content []Block) []jsonBlock {
	var blocks []jsonBlock
	for _, b := range content {
		switch b := b.(type) {
		case *TextBlock:
			blocks = append(blocks, jsonBlock{Type: "text", Text: b.Text})
		case *ToolUseBlock:
			blocks = append(blocks, jsonBlock{Type: "tool_use", ID: b.ID, Name: b.Name, Input: b.Input})
		case *ToolResultBlock:
			blocks = append(blocks, jsonBlock{Type: "tool_result", ToolUseID: b.ToolUseID, Name: b.Name,
				Content: mirrorBlocks(b.Content), IsError: b.IsError})
		}
	}
	return blocks
}

// copyByHand is the obvious deep copy of what conversationOf makes, and checks
// nothing.
func copyByHand(messages []Message) []Message {
	copies := make([]Message, len(messages))
	for i, m := range messages {
		m.Content = copyContentByHand(m.Content)
		copies[i] = m
	}
	return copies
}

func copyContentByHand(content []Block) []Block {
	copies := make([]Block, len(content))
	for i, b := range content {
		switch b := b.(type) {
		case *TextBlock:
			c := *b
			copies[i] = &c
		case *ToolUseBlock:
			c := *b
			c.Input = append(json.RawMessage(nil), b.Input...)
			copies[i] = &c
		case *ToolResultBlock:
			c := *b
			c.Content = copyContentByHand(b.Content)
			copies[i] = &c
		}
	}
	return copies
}

func BenchmarkEncode(b *testing.B) {
	messages := conversationOf(1000)
	mirrored := mirror(messages)
	ratio.Report(b, "x-floor", func() {
		for i := range mirrored {
			if _, err := json.Marshal(&mirrored[i]); err != nil {
				b.Fatal(err)
			}
		}
	}, func() {
		if _, err := encodeMessages(messages); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	lines, err := encodeMessages(conversationOf(1000))
	if err != nil {
		b.Fatal(err)
	}
	ratio.Report(b, "x-floor", func() {
		decoded := make([]jsonMessage, len(lines))
		for i := range lines {
			if err := json.Unmarshal(lines[i], &decoded[i]); err != nil {
				b.Fatal(err)
			}
		}
	}, func() {
		if _, _, err := decodeMessages(lines); err != nil {
			b.Fatal(err)
		}
	})
}

func BenchmarkClone(b *testing.B) {
	for _, n := range []int{100, 1000} {
		messages := conversationOf(n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			ratio.Report(b, "x-floor", func() { copyByHand(messages) }, func() { CloneMessages(messages) })
		})
	}
}

func BenchmarkCanonical(b *testing.B) {
	for _, n := range []int{100, 1000} {
		messages := conversationOf(n)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			ratio.Report(b, "x-floor", func() { copyByHand(messages) }, func() {
				if _, err := Canonical(messages); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

func BenchmarkCanonicalOne(b *testing.B) {
	for i, name := range []string{"UserText", "AssistantText", "ToolUse", "ToolResult"} {
		messages := conversationOf(4)[i : i+1]
		b.Run(name, func(b *testing.B) {
			ratio.Report(b, "x-floor", func() { copyByHand(messages) }, func() {
				if _, err := Canonical(messages); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
