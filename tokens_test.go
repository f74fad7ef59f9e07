package session

import (
	"encoding/json"
	"strings"
	"testing"
)

func image(encodedBytes int) *MediaBlock {
	return &MediaBlock{Type: MediaImage, MIMEType: "image/png", Data: make([]byte, encodedBytes*3/4)}
}

func TestEstimateTokens(t *testing.T) {
	tool := func(content ...Block) *ToolResultBlock { return &ToolResultBlock{ToolUseID: "t", Content: content} }
	for _, test := range []struct {
		name     string
		block    Block
		min, max int // without the frame of the message
	}{
		{"no text", Text(""), 0, 0},
		{"a word", Text("word"), 1, 1},
		{"English", Text(strings.Repeat("all the words ", 100)), 300, 400},
		{"Russian", Text(strings.Repeat("все слова ", 100)), 400, 600},
		{"Chinese", Text(strings.Repeat("漢", 4000)), 2000, 4000},
		{"emoji", Text(strings.Repeat("🎉", 100)), 100, 300},
		{"bytes that are no text", Text("\xff\xf0\xe0"), 0, 10},
		{"thinking", &ThinkingBlock{Text: strings.Repeat("hm, ", 100), Signature: strings.Repeat("x", 900)}, 100, 100},
		{"redacted thinking", &ThinkingBlock{Redacted: make([]byte, 400)}, 100, 100},
		{"a call", ToolUse("id", "look", `{"path":"`+strings.Repeat("a/", 200)+`"}`), 100, 120},
		{"a result", tool(Text(strings.Repeat("line ", 100))), 125, 140},
		{"an image in a result", tool(image(1_900_000)), imageTokens, imageTokens + 20},
		{"a small image", image(19_000), imageTokens, imageTokens},
		{"a large image", image(1_900_000), imageTokens, imageTokens},
		{"an image elsewhere", &MediaBlock{Type: MediaImage, SourceURI: "https://example.com/a.png"}, imageTokens, imageTokens},
		{"an image by its MIME type", &MediaBlock{MIMEType: "image/png"}, imageTokens, imageTokens},
		{"a PDF", &MediaBlock{Type: MediaDocument, MIMEType: "application/pdf", Data: make([]byte, 1e6)}, documentTokens, documentTokens},
		{"a text document", &MediaBlock{Type: MediaDocument, MIMEType: "text/plain", Data: make([]byte, 4000)}, 1000, 1000},
		{"a text document elsewhere", &MediaBlock{Type: MediaDocument, MIMEType: "text/plain", SourceURI: "file:a"}, documentTokens, documentTokens},
		{"sound", &MediaBlock{Type: MediaAudio, Data: make([]byte, 1e6)}, audioTokens, audioTokens},
		{"film", &MediaBlock{Type: MediaVideo}, videoTokens, videoTokens},
		{"something else", &MediaBlock{Type: "hologram"}, 1, 1e5},
		{"an unknown block", &RawBlock{Type: "x", Data: json.RawMessage(strings.Repeat("1", 400))}, 100, 100},
	} {
		got := EstimateTokens([]Message{NewMessage(RoleUser, test.block)}) - messageTokens
		if got < test.min || got > test.max {
			t.Errorf("%s: %d tokens, want %d to %d", test.name, got, test.min, test.max)
		}
	}
}

func TestEstimateTokensAddsUp(t *testing.T) {
	messages := append(policyTurns(3, 2), NewMessage(RoleUser, image(9), Text("漢字")))
	sum := 0
	for i := range messages {
		sum += EstimateTokens(messages[i : i+1])
	}
	if got := EstimateTokens(messages); got != sum || got == 0 {
		t.Errorf("EstimateTokens = %d, the sum over the messages is %d", got, sum)
	}
	if got := EstimateTokens(nil); got != 0 {
		t.Errorf("EstimateTokens(nil) = %d", got)
	}
}

// C46: base64 data counted as text.
func TestPolicyC46ImagesHaveAFlatCost(t *testing.T) {
	messages := []Message{
		UserText("q0"), AssistantText("a0"),
		NewMessage(RoleUser, Text("what is in this picture?"), image(1_900_000)),
	}
	for i := range messages {
		messages[i].ID = string(rune('a' + i))
	}
	if view := selected(t, budgetOf(t, 20_000, 0), messages); len(view) != 3 {
		t.Errorf("view = %q, want all", viewTexts(view))
	}
}
