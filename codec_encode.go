package session

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// What is wrong with a message. None of these quotes it.
var (
	errNoRole    = errors.New("no role")
	errNoType    = errors.New("raw block without a type")
	errNilBlock  = errors.New("nil block")
	errTooDeep   = errors.New("nested too deeply, or in a cycle")
	errNotUTF8   = errors.New("text is not valid UTF-8")
	errTimeYear  = errors.New("time is not in a year from 0 to 9999")
	errNotFinite = errors.New("metadata: a number that is not finite")
	errNotNumber = errors.New("metadata: a json.Number that is no JSON number")
)

// sizeHint is about how long the JSON form of m is. It doesn't follow results
// in results for long, since they may be in a cycle.
func sizeHint(m *Message) int {
	return 64 + len(m.ID) + len(m.unknown) + 32*len(m.Metadata) + contentSizeHint(m.Content, 0)
}

func contentSizeHint(content []Block, depth int) int {
	if depth > 3 {
		return 0
	}
	size := 64 * len(content)
	for _, b := range content {
		switch b := b.(type) {
		case *TextBlock:
			if b != nil {
				size += len(b.Text) + len(b.Text)/16
			}
		case *ThinkingBlock:
			if b != nil {
				size += len(b.Text) + len(b.Text)/16 + len(b.Signature) + len(b.Redacted)*4/3
			}
		case *MediaBlock:
			if b != nil {
				size += len(b.Data)*4/3 + len(b.Name) + len(b.SourceURI)
			}
		case *ToolUseBlock:
			if b != nil {
				size += len(b.ID) + len(b.Name) + len(b.Input)
			}
		case *ToolResultBlock:
			if b != nil {
				size += len(b.ToolUseID) + len(b.Name) + contentSizeHint(b.Content, depth+1)
			}
		case *RawBlock:
			if b != nil {
				size += len(b.Data)
			}
		}
	}
	return size
}

// encoder appends to dst and keeps the first error.
type encoder struct {
	dst []byte
	err error
}

func appendMessage(dst []byte, m *Message) ([]byte, error) {
	if m.Role == "" {
		return dst, errNoRole
	}
	e := encoder{dst: dst}
	if m.ID != "" {
		e.text(`{"id":`, m.ID)
		e.text(`,"role":`, string(m.Role))
	} else {
		e.text(`{"role":`, string(m.Role))
	}
	if len(m.Content) > 0 && e.err == nil {
		e.content(`,"content":[`, m.Content, 0)
	}
	if !m.Time.IsZero() {
		e.time(m.Time)
	}
	if len(m.Metadata) > 0 && e.err == nil {
		e.raw(`,"metadata":`)
		e.dst, e.err = appendObject(e.dst, m.Metadata, 0)
	}
	e.close(m.unknown)
	return e.dst, e.err
}

func (e *encoder) raw(s string) { e.dst = append(e.dst, s...) }

// text writes a member's name, which comes with its punctuation, and a string.
func (e *encoder) text(name, s string) {
	var valid bool
	e.dst, valid = appendString(append(e.dst, name...), s)
	if !valid {
		e.fail(errNotUTF8)
	}
}

// optional is text, if there is any.
func (e *encoder) optional(name, s string) {
	if s != "" {
		e.text(name, s)
	}
}

func (e *encoder) base64(name string, data []byte) {
	if len(data) > 0 {
		e.raw(name)
		e.dst = append(base64.StdEncoding.AppendEncode(append(e.dst, '"'), data), '"')
	}
}

// json writes a raw value under the name, or as a string under textName.
func (e *encoder) json(name, textName string, value json.RawMessage) {
	if err := validateJSON(value); err != nil {
		e.fail(err)
		return
	}
	if fitsLine(value) {
		e.dst = append(append(e.dst, name...), value...)
	} else {
		e.text(textName, string(value))
	}
}

// fitsLine reports whether a valid JSON value can stand in a line and be cut
// out of it again unchanged.
func fitsLine(value []byte) bool {
	return !isSpace(value[0]) && !isSpace(value[len(value)-1]) &&
		bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0
}

func (e *encoder) time(t time.Time) {
	t = t.UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		e.fail(errTimeYear)
		return
	}
	e.raw(`,"time":"`)
	e.dst = append(t.AppendFormat(e.dst, time.RFC3339Nano), '"')
}

// close writes unknown members and the end of an object.
func (e *encoder) close(unknown string) {
	if unknown != "" {
		e.dst = append(append(e.dst, ','), unknown...)
	}
	e.dst = append(e.dst, '}')
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

func (e *encoder) content(name string, content []Block, depth int) {
	e.raw(name)
	for i, b := range content {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		if e.block(b, depth); e.err != nil {
			e.err = inBlock(i, e.err)
			return
		}
	}
	e.dst = append(e.dst, ']')
}

// inBlock says which block an error is of, counted from 1.
func inBlock(i int, err error) error {
	if err == errTooDeep { // a thousand numbers say no more
		return err
	}
	return fmt.Errorf("block %d: %w", i+1, err)
}

// block writes a block that stands in depth tool results.
func (e *encoder) block(b Block, depth int) {
	switch b := b.(type) {
	case *TextBlock:
		if b != nil {
			e.text(`{"type":"text","text":`, b.Text)
			e.close(b.unknown)
			return
		}
	case *ThinkingBlock:
		if b != nil {
			e.raw(`{"type":"thinking"`)
			e.optional(`,"text":`, b.Text)
			e.optional(`,"signature":`, b.Signature)
			e.base64(`,"redacted":`, b.Redacted)
			e.close(b.unknown)
			return
		}
	case *MediaBlock:
		if b != nil {
			e.raw(`{"type":"media"`)
			e.optional(`,"media_type":`, string(b.Type))
			e.optional(`,"mime_type":`, b.MIMEType)
			e.optional(`,"name":`, b.Name)
			e.base64(`,"data":`, b.Data)
			e.optional(`,"source_uri":`, b.SourceURI)
			e.close(b.unknown)
			return
		}
	case *ToolUseBlock:
		if b != nil {
			e.raw(`{"type":"tool_use"`)
			e.optional(`,"id":`, b.ID)
			e.optional(`,"name":`, b.Name)
			if len(b.Input) > 0 {
				e.json(`,"input":`, `,"input_text":`, b.Input)
			}
			e.close(b.unknown)
			return
		}
	case *ToolResultBlock:
		if b != nil {
			e.toolResult(b, depth)
			return
		}
	case *RawBlock:
		if b != nil {
			e.rawBlock(b)
			return
		}
	}
	e.fail(errNilBlock)
}

func (e *encoder) toolResult(b *ToolResultBlock, depth int) {
	if depth >= maxDepth {
		e.fail(errTooDeep)
		return
	}
	e.raw(`{"type":"tool_result"`)
	e.optional(`,"tool_use_id":`, b.ToolUseID)
	e.optional(`,"name":`, b.Name)
	if len(b.Content) > 0 {
		e.content(`,"content":[`, b.Content, depth+1)
	}
	if b.IsError {
		e.raw(`,"is_error":true`)
	}
	e.close(b.unknown)
}

func (e *encoder) rawBlock(b *RawBlock) {
	if b.Type == "" {
		e.fail(errNoType)
		return
	}
	if err := validateJSON(b.Data); err != nil {
		e.fail(err)
		return
	}
	if b.Data[0] == '{' && fitsLine(b.Data) && !isKnownKind(b.Type) {
		d := decoder{data: b.Data}
		if kind, err := d.lastType(); err == nil && kind == b.Type {
			e.dst = append(e.dst, b.Data...)
			return
		}
	}
	e.text(`{"type":"raw","raw_type":`, b.Type)
	e.json(`,"data":`, `,"data_text":`, b.Data)
	e.close("")
}

func isKnownKind(kind string) bool {
	switch kind {
	case kindText, kindThinking, kindMedia, kindToolUse, kindToolResult, kindRaw:
		return true
	}
	return false
}
