package session

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Role says whose message it is. Any non-empty valid UTF-8 string is kept; the
// constants are the roles that this package itself knows.
type Role string

// The roles of the major providers. Tool results may be messages of RoleTool
// or of RoleUser; both are understood.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a conversation.
//
// A store returns a message as it was given, in canonical form: Time in UTC
// without a monotonic reading, Metadata as described there, and nil in place
// of an empty Content, Metadata or byte slice. [Canonical] makes that form.
// All strings must be valid UTF-8.
type Message struct {
	ID      string  // optional, the caller's; kept as it is, not checked to be unique
	Role    Role    // required
	Content []Block // pointers to the block structs, none nil

	// Time is optional and the caller's, of a year from 0 to 9999, kept to
	// the nanosecond. Stores never order by it.
	Time time.Time

	// Metadata is for provider annotations, usage and labels. What is given
	// may be anything that encoding/json marshals. What comes back, from every
	// store: number literals without a point or exponent as int64 if they
	// fit, else as json.Number; other numbers as float64 if its shortest form
	// means the same number, else as json.Number; arrays as []any, objects as
	// map[string]any. A float64 of 1 stays a float64, except inside a struct or
	// a Marshaler, whose JSON does not show it. NaN, infinities, channels,
	// functions and cycles are ErrInvalidMessage.
	Metadata map[string]any

	unknown string // members that this version doesn't know, as JSON text
}

// Block is one part of a message: a pointer to one of the block structs of this
// package. The set is closed; what a provider has beyond it is a RawBlock.
type Block interface {
	// Kind is the block's type as the JSON form writes it: "text",
	// "tool_use", or a RawBlock's Type.
	Kind() string
	sealed()
}

// TextBlock is text.
type TextBlock struct {
	Text string

	unknown string
}

// ThinkingBlock is a model's reasoning. The three fields are kept together and
// unchanged, since providers verify them.
type ThinkingBlock struct {
	Text      string
	Signature string // the provider's, opaque
	Redacted  []byte // encrypted reasoning in place of Text

	unknown string
}

// MediaType says what kind of thing a MediaBlock holds.
type MediaType string

// The kinds of media that this package knows; others are kept too.
const (
	MediaImage    MediaType = "image"
	MediaAudio    MediaType = "audio"
	MediaVideo    MediaType = "video"
	MediaDocument MediaType = "document"
)

// MediaBlock is an image, a recording or a document, inline or by reference.
type MediaBlock struct {
	Type      MediaType
	MIMEType  string
	Name      string
	Data      []byte // the content itself, not base64
	SourceURI string // where the content is, if not inline

	unknown string
}

// ToolUseBlock is a model's call of a tool.
type ToolUseBlock struct {
	ID   string
	Name string
	// Input is the arguments: one JSON value, or empty. It comes back byte
	// for byte, with its white space, key order and digits.
	Input json.RawMessage

	unknown string
}

// ToolResultBlock is what a tool returned for a call.
type ToolResultBlock struct {
	ToolUseID string // the ToolUseBlock's ID
	Name      string // the tool's name
	Content   []Block
	IsError   bool

	unknown string
}

// RawBlock is a block that this version doesn't know, kept whole.
type RawBlock struct {
	Type string
	// Data is one JSON value, byte for byte. Of a block that was decoded it is
	// the whole JSON object, with its "type".
	Data json.RawMessage
}

// The block types of the JSON form.
const (
	kindText       = "text"
	kindThinking   = "thinking"
	kindMedia      = "media"
	kindToolUse    = "tool_use"
	kindToolResult = "tool_result"
	kindRaw        = "raw"
)

// Kind returns "text".
func (*TextBlock) Kind() string { return kindText }

// Kind returns "thinking".
func (*ThinkingBlock) Kind() string { return kindThinking }

// Kind returns "media".
func (*MediaBlock) Kind() string { return kindMedia }

// Kind returns "tool_use".
func (*ToolUseBlock) Kind() string { return kindToolUse }

// Kind returns "tool_result".
func (*ToolResultBlock) Kind() string { return kindToolResult }

// Kind returns b.Type.
func (b *RawBlock) Kind() string { return b.Type }

func (*TextBlock) sealed()       {}
func (*ThinkingBlock) sealed()   {}
func (*MediaBlock) sealed()      {}
func (*ToolUseBlock) sealed()    {}
func (*ToolResultBlock) sealed() {}
func (*RawBlock) sealed()        {}

// NewMessage returns a message of the given role and content. It keeps the
// blocks, not copies.
func NewMessage(role Role, content ...Block) Message {
	return Message{Role: role, Content: content}
}

// SystemText returns a system message of one text block.
func SystemText(text string) Message { return NewMessage(RoleSystem, Text(text)) }

// UserText returns a user message of one text block.
func UserText(text string) Message { return NewMessage(RoleUser, Text(text)) }

// AssistantText returns an assistant message of one text block.
func AssistantText(text string) Message { return NewMessage(RoleAssistant, Text(text)) }

// ToolResults returns a tool message of the given results.
func ToolResults(results ...*ToolResultBlock) Message {
	m := Message{Role: RoleTool, Content: make([]Block, len(results))}
	for i, r := range results {
		m.Content[i] = r
	}
	return m
}

// Text returns a text block.
func Text(text string) *TextBlock { return &TextBlock{Text: text} }

// ToolUse returns a call of a tool. input is JSON; see ToolUseBlock.Input.
func ToolUse(id, name, input string) *ToolUseBlock {
	return &ToolUseBlock{ID: id, Name: name, Input: json.RawMessage(input)}
}

// ToolResult returns a result of one text block for a call.
func ToolResult(toolUseID, name, text string) *ToolResultBlock {
	return &ToolResultBlock{ToolUseID: toolUseID, Name: name, Content: []Block{Text(text)}}
}

// ToolError returns an error result of one text block for a call.
func ToolError(toolUseID, name, text string) *ToolResultBlock {
	r := ToolResult(toolUseID, name, text)
	r.IsError = true
	return r
}

// Text returns the text blocks of a message, joined by line feeds. Thinking,
// tool calls and the content of tool results are not part of it.
func (m Message) Text() string { return joinText(m.Content) }

// Text returns the text blocks of a result, joined by line feeds.
func (b *ToolResultBlock) Text() string { return joinText(b.Content) }

func joinText(blocks []Block) string {
	var parts []string
	for _, b := range blocks {
		if t, ok := b.(*TextBlock); ok && t != nil {
			parts = append(parts, t.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// ToolUses returns the calls in a message, in order; the blocks themselves,
// not copies.
func (m Message) ToolUses() []*ToolUseBlock { return blocksOf[*ToolUseBlock](m.Content) }

// ToolResults returns the tool results in a message, in order; the blocks
// themselves, not copies.
func (m Message) ToolResults() []*ToolResultBlock { return blocksOf[*ToolResultBlock](m.Content) }

func blocksOf[B Block](content []Block) (found []B) {
	for _, b := range content {
		if b, ok := b.(B); ok {
			found = append(found, b)
		}
	}
	return found
}

// Equal reports whether two messages say the same, unknown fields included.
// Times are equal if they are the same instant, Metadata if its canonical form
// is, and nil slices and maps equal empty ones.
func (m Message) Equal(o Message) bool {
	return m.ID == o.ID && m.Role == o.Role && m.Time.Equal(o.Time) && m.unknown == o.unknown &&
		equalBlocks(m.Content, o.Content) && equalMetadata(m.Metadata, o.Metadata)
}

// EqualMessages reports whether two histories are equal, message by message.
func EqualMessages(a, b []Message) bool { return slices.EqualFunc(a, b, Message.Equal) }

func equalBlocks(a, b []Block) bool { return slices.EqualFunc(a, b, equalBlock) }

func equalBlock(a, b Block) bool {
	switch a := a.(type) {
	case *TextBlock:
		b, ok := b.(*TextBlock)
		return ok && sameNil(a, b) && (a == nil || *a == *b)
	case *ThinkingBlock:
		b, ok := b.(*ThinkingBlock)
		return ok && sameNil(a, b) && (a == nil || a.Text == b.Text && a.Signature == b.Signature &&
			bytes.Equal(a.Redacted, b.Redacted) && a.unknown == b.unknown)
	case *MediaBlock:
		b, ok := b.(*MediaBlock)
		return ok && sameNil(a, b) && (a == nil || a.Type == b.Type && a.MIMEType == b.MIMEType && a.Name == b.Name &&
			bytes.Equal(a.Data, b.Data) && a.SourceURI == b.SourceURI && a.unknown == b.unknown)
	case *ToolUseBlock:
		b, ok := b.(*ToolUseBlock)
		return ok && sameNil(a, b) && (a == nil || a.ID == b.ID && a.Name == b.Name &&
			bytes.Equal(a.Input, b.Input) && a.unknown == b.unknown)
	case *ToolResultBlock:
		b, ok := b.(*ToolResultBlock)
		return ok && sameNil(a, b) && (a == nil || a.ToolUseID == b.ToolUseID && a.Name == b.Name &&
			a.IsError == b.IsError && equalBlocks(a.Content, b.Content) && a.unknown == b.unknown)
	case *RawBlock:
		b, ok := b.(*RawBlock)
		return ok && sameNil(a, b) && (a == nil || a.Type == b.Type && bytes.Equal(a.Data, b.Data))
	}
	return a == nil && b == nil
}

func sameNil[T any](a, b *T) bool { return (a == nil) == (b == nil) }

func equalMetadata(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	if reflect.DeepEqual(a, b) {
		return true
	}
	ca, errA := canonicalMetadata(a)
	cb, errB := canonicalMetadata(b)
	return errA == nil && errB == nil && reflect.DeepEqual(ca, cb)
}

// String describes a message on one line, for people and logs: the role and
// the blocks, long ones cut short. It shows content.
func (m Message) String() string {
	var s strings.Builder
	s.WriteString(string(m.Role))
	s.WriteByte(':')
	for _, b := range m.Content {
		s.WriteByte(' ')
		s.WriteString(describe(b))
	}
	return s.String()
}

const describeBytes = 200 // how much of a text String shows

func describe(b Block) string {
	if b == nil || reflect.ValueOf(b).IsNil() {
		return "[nil]"
	}
	switch b := b.(type) {
	case *TextBlock:
		return oneLine(b.Text)
	case *ThinkingBlock:
		if len(b.Redacted) > 0 {
			return fmt.Sprintf("[thinking, redacted, %d bytes]", len(b.Redacted))
		}
		return "[thinking " + oneLine(b.Text) + "]"
	case *MediaBlock:
		return fmt.Sprintf("[%s %s %s, %d bytes]", b.Type, b.MIMEType, b.Name+b.SourceURI, len(b.Data))
	case *ToolUseBlock:
		return fmt.Sprintf("[%s %s(%s)]", b.ID, b.Name, oneLine(string(b.Input)))
	case *ToolResultBlock:
		parts := []string{b.ToolUseID, "->"}
		if b.IsError {
			parts = append(parts, "error:")
		}
		for _, c := range b.Content {
			parts = append(parts, describe(c))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case *RawBlock:
		return fmt.Sprintf("[%s, %d bytes]", b.Type, len(b.Data))
	}
	return fmt.Sprintf("[%T]", b) // the set of blocks is closed
}

func oneLine(s string) string {
	short := truncateText(s, describeBytes)
	if len(short) < len(s) {
		short += "…"
	}
	return strings.Join(strings.Fields(short), " ")
}

// truncateText returns the longest prefix of s of at most limit bytes that
// does not end inside a character.
func truncateText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	limit = max(limit, 0)
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
