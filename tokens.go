package session

import "strings"

// TokenCounter counts the tokens that messages cost a model. The count of a
// slice must be the sum over its messages, and the same each time. Policies call
// it with one message at a time, once for each message of a history, so it
// should be fast: a tokenizer in this process or a table of counts, not a
// request to a provider.
type TokenCounter func(messages []Message) int

// What EstimateTokens assumes.
const (
	// bytesPerToken is of text in scripts of up to two bytes a character.
	// Google and OpenAI both give about 4 characters of English a token
	// (ai.google.dev/gemini-api/docs/tokens; help.openai.com, "What are tokens
	// and how to count them?"). Counting bytes makes it 2 characters of
	// Cyrillic or Greek.
	bytesPerToken = 4

	// messageTokens is the frame of a message: 3 tokens and 1 for the role, by
	// the OpenAI Cookbook, "How to count tokens with tiktoken".
	messageTokens = 4

	// toolTokens is the frame and the ID of a call or a result. No provider
	// gives a figure; an ID alone is about 24 bytes.
	toolTokens = 8

	// imageTokens is an image. Anthropic: pixels / 750, and about 1,600 at
	// most for images that need no scaling (docs.claude.com, Vision). Google:
	// 258 a tile of 768 x 768, so four tiles are 1,032. Larger images cost up
	// to some 5,000 on models that take them at full resolution.
	imageTokens = 1600

	// documentTokens is three pages of a PDF, at 1,500 to 3,000 a page by
	// Anthropic (docs.claude.com, PDF support).
	documentTokens = 6000

	// audioTokens is a minute of sound, at 32 tokens a second by Google
	// (ai.google.dev/gemini-api/docs/tokens).
	audioTokens = 60 * 32

	// videoTokens is a minute of film, at 263 tokens a second by Google.
	videoTokens = 60 * 263
)

// EstimateTokens estimates the tokens of messages without a tokenizer. It is a
// [TokenCounter]. Where its figures come from is said beside the constants in
// its source.
//
//   - Text, thinking, the names and inputs of tools, and unknown blocks: a
//     token for every 4 bytes, but a whole one for each character of 3 bytes
//     or more in UTF-8, such as Chinese, Japanese, Korean and emoji.
//   - Media: a flat cost by kind, whatever the size of the data: an image
//     1,600, a document 6,000, a minute of sound 1,920, a minute of film
//     15,780. Documents of a text MIME type count as the text they hold.
//   - A frame of 4 tokens for each message, and of 8 for each call and result.
//
// Signatures and metadata count nothing. It is an estimate: models differ by
// more than it is exact, so leave room.
func EstimateTokens(messages []Message) int {
	total := 0
	for i := range messages {
		total += messageTokens + blockTokens(messages[i].Content)
	}
	return total
}

func blockTokens(content []Block) (total int) {
	for _, b := range content {
		switch b := b.(type) {
		case *TextBlock:
			total += textTokens(b.Text)
		case *ThinkingBlock:
			total += textTokens(b.Text) + bytesTokens(len(b.Redacted))
		case *MediaBlock:
			total += mediaTokens(b)
		case *ToolUseBlock:
			total += toolTokens + textTokens(b.Name) + textTokens(b.Input)
		case *ToolResultBlock:
			total += toolTokens + blockTokens(b.Content)
		case *RawBlock:
			total += textTokens(b.Data)
		}
	}
	return total
}

func bytesTokens(n int) int { return (n + bytesPerToken - 1) / bytesPerToken }

// textTokens counts each character of three or four bytes as a token, and the
// other bytes by the four.
func textTokens[T ~string | ~[]byte](text T) int {
	wide, widest := 0, 0
	for i := range len(text) {
		if text[i] >= 0xE0 { // the first byte of such a character
			wide++
			if text[i] >= 0xF0 {
				widest++
			}
		}
	}
	return wide + bytesTokens(max(len(text)-3*wide-widest, 0))
}

func mediaTokens(b *MediaBlock) int {
	kind, subtype, _ := strings.Cut(b.MIMEType, "/")
	if len(b.Data) > 0 && (kind == "text" || subtype == "json") {
		return textTokens(b.Data)
	}
	if b.Type != "" {
		kind = string(b.Type)
	}
	switch MediaType(kind) {
	case MediaAudio:
		return audioTokens
	case MediaVideo:
		return videoTokens
	case MediaDocument, "application":
		return documentTokens
	}
	return imageTokens
}
