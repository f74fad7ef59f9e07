package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

// userTexts returns a user message for each text.
func userTexts(texts ...string) []session.Message {
	messages := make([]session.Message, len(texts))
	for i, text := range texts {
		messages[i] = session.UserText(text)
	}
	return messages
}

// textsOf returns the texts of messages; not nil.
func textsOf(messages []session.Message) []string {
	texts := make([]string, len(messages))
	for i, m := range messages {
		texts[i] = m.Text()
	}
	return texts
}

// numbered returns name1, name2 and so on.
func numbered(name string, n int) []string {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprint(name, i+1)
	}
	return texts
}

// canonical returns messages as every store must return them.
func canonical(tb testing.TB, messages []session.Message) []session.Message {
	tb.Helper()
	c, err := session.Canonical(messages)
	must(tb, err, "Canonical")
	return c
}

// conversation returns a conversation with a block of every type, every field
// of it set.
func conversation() []session.Message {
	return []session.Message{
		{
			ID: "m1", Role: session.RoleSystem, Content: []session.Block{session.Text("Answer briefly.")},
		},
		{
			ID: "m2", Role: session.RoleUser, Time: time.Date(2026, 11, 30, 23, 59, 59, 123456789, time.UTC),
			Content: []session.Block{
				session.Text("What is in these?\n<b>&</b> 世界 🎉"),
				&session.MediaBlock{
					Type: session.MediaImage, MIMEType: "image/png", Name: "a \"b\".png", Data: []byte{0, 1, 0xfe, 0xff, '\n'},
				},
				&session.MediaBlock{
					Type: session.MediaDocument, MIMEType: "application/pdf", Name: "c.pdf", SourceURI: "s3://bucket/c.pdf?x=1&y=2",
				},
			},
			Metadata: map[string]any{"tenant": "t-1", "tries": int64(3), "score": 0.25, "tags": []any{"x", map[string]any{"deep": true}}},
		},
		{
			ID: "m3", Role: session.RoleAssistant, Content: []session.Block{
				&session.ThinkingBlock{Text: "First look.\n\nThen say.", Signature: "c2lnLUEvKz0="},
				&session.ThinkingBlock{Redacted: []byte{9, 8, 7, 0xff}},
				session.Text("I will look."),
				session.ToolUse("tu_1", "look", `{"b": 1,  "a":[1.0, 9007199254740993]}`),
				session.ToolUse("tu_2", "look", `{}`),
			},
			Metadata: map[string]any{"usage": map[string]any{"input": int64(1234), "output": int64(56)}},
		},
		{
			ID: "m4", Role: session.RoleTool, Content: []session.Block{
				&session.ToolResultBlock{ToolUseID: "tu_1", Name: "look", Content: []session.Block{
					session.Text("a cat"),
					&session.MediaBlock{Type: session.MediaImage, MIMEType: "image/png", Name: "cat.png", Data: []byte("png")},
				}},
				session.ToolError("tu_2", "look", "no such file"),
			},
		},
		{
			ID: "m5", Role: session.RoleAssistant, Content: []session.Block{
				session.Text("A cat."),
				&session.RawBlock{Type: "citation", Data: []byte(`{"type":"citation", "of":"a cat","at":[0,5]}`)},
			},
		},
	}
}
