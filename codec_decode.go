package session

import (
	"bytes"
	"errors"
)

const (
	wrongType    = "wrong JSON type"
	missingRole  = "message without a role"
	missingType  = "block without a type"
	badWrapper   = "raw block without a type or data"
	badBase64    = "invalid base64"
	badTime      = "invalid time"
	badVersion   = "invalid version"
	badInputText = "text that is not JSON"
)

// errTypeAgain asks to read a block again: a type behind the first differs.
var errTypeAgain = errors.New("another type")

// decoder reads one JSON text at a time.
type decoder struct {
	data  []byte
	pos   int
	buf   []byte  // an unescaped string
	stack []Block // blocks of the contents being read
	names [16]string
	arena
}

func (d *decoder) fault(what string) error { return &jsonError{d.pos, what} }

func (d *decoder) message(m *Message) error {
	d.pos = skipSpace(d.data, 0)
	if err := d.open(); err != nil {
		return err
	}
	var unknown []byte
	for first := true; ; first = false {
		start, key, err := d.member(first)
		if err != nil {
			return err
		}
		if key == nil {
			break
		}
		switch string(key) {
		case "role":
			var s string
			s, err = d.name()
			m.Role = Role(s)
		case "content":
			m.Content, err = d.content(0)
		case "id":
			m.ID, err = d.name()
		case "time":
			m.Time, err = d.time()
		case "metadata":
			m.Metadata, err = d.metadata()
		case "v":
			err = d.version()
		default:
			unknown, err = d.unknown(unknown, start)
		}
		if err != nil {
			return err
		}
	}
	if m.unknown = string(unknown); m.Role == "" {
		return d.fault(missingRole)
	}
	if d.pos = skipSpace(d.data, d.pos); d.pos < len(d.data) {
		return d.fault(badChar)
	}
	return nil
}

// content reads the blocks of a message or, at depth 1 and more, of a tool
// result.
func (d *decoder) content(depth int) ([]Block, error) {
	if d.pos >= len(d.data) || d.data[d.pos] != '[' {
		return nil, d.null()
	}
	if depth > maxDepth {
		return nil, d.fault(tooDeep)
	}
	base := len(d.stack)
	var slot *[1]Block
	d.pos = skipSpace(d.data, d.pos+1)
	for first := true; ; first = false {
		if d.pos < len(d.data) && d.data[d.pos] == ']' {
			d.pos++
			break
		}
		if !first {
			if d.pos >= len(d.data) || d.data[d.pos] != ',' {
				return nil, unexpected(d.data, d.pos)
			}
			d.pos = skipSpace(d.data, d.pos+1)
		}
		b, s, err := d.block(depth)
		if err != nil {
			return nil, err
		}
		d.stack, slot = append(d.stack, b), s
		d.pos = skipSpace(d.data, d.pos)
	}
	content := d.arena.content(d.stack[base:], slot)
	clear(d.stack[base:])
	d.stack = d.stack[:base]
	return content, nil
}

// block reads a block, and returns with it the memory for a content of this
// block alone.
func (d *decoder) block(depth int) (Block, *[1]Block, error) {
	start := d.pos
	if kind := d.firstType(); kind != "" {
		b, slot, err := d.blockOf(kind, depth, kind)
		if err != errTypeAgain {
			return b, slot, err
		}
		d.pos = start
	}
	kind, err := d.lastType()
	if err != nil {
		return nil, nil, err
	}
	return d.blockOf(kind, depth, "")
}

// firstType returns the type of the block ahead if it is the first member and
// a known one, else nothing.
func (d *decoder) firstType() string {
	const prefix = `{"type":"`
	data := d.data[d.pos:]
	if len(data) < len(prefix) || string(data[:len(prefix)]) != prefix {
		return ""
	}
	data = data[len(prefix):]
	end := bytes.IndexByte(data[:min(len(data), 16)], '"')
	if end < 0 {
		return ""
	}
	switch string(data[:end]) {
	case kindText:
		return kindText
	case kindToolUse:
		return kindToolUse
	case kindToolResult:
		return kindToolResult
	case kindThinking:
		return kindThinking
	case kindMedia:
		return kindMedia
	}
	return ""
}

// lastType returns the type of the block ahead, which is that of the last of
// its members type. It checks the whole object and stays in front of it.
func (d *decoder) lastType() (string, error) {
	start, kind := d.pos, ""
	err := d.eachMember(func(key []byte) (err error) {
		if string(key) == "type" {
			kind, err = d.text()
			return err
		}
		d.pos, err = skipValue(d.data, d.pos, 0)
		return err
	})
	if err == nil && kind == "" {
		err = &jsonError{start, missingType}
	}
	d.pos = start
	return kind, err
}

// eachMember reads an object.
func (d *decoder) eachMember(value func(key []byte) error) error {
	if err := d.open(); err != nil {
		return err
	}
	for first := true; ; first = false {
		_, key, err := d.member(first)
		if err != nil || key == nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
	}
}

// blockOf reads a block of the type kind. If first is not empty, kind is only
// what its first member says.
func (d *decoder) blockOf(kind string, depth int, first string) (Block, *[1]Block, error) {
	switch kind {
	case kindText:
		b, slot := d.arena.newText()
		err := d.fields(b, &b.unknown, depth, first)
		return b, slot, err
	case kindThinking:
		b, slot := d.arena.newThinking()
		err := d.fields(b, &b.unknown, depth, first)
		return b, slot, err
	case kindMedia:
		b, slot := d.arena.newMedia()
		err := d.fields(b, &b.unknown, depth, first)
		return b, slot, err
	case kindToolUse:
		b, slot := d.arena.newToolUse()
		err := d.fields(b, &b.unknown, depth, first)
		return b, slot, err
	case kindToolResult:
		b, slot := d.arena.newToolResult()
		err := d.fields(b, &b.unknown, depth, first)
		return b, slot, err
	}
	b, slot := d.arena.newRaw()
	if kind == kindRaw {
		if wrapper, err := d.isWrapper(); wrapper || err != nil {
			if err == nil {
				err = d.wrapped(b)
			}
			return b, slot, err
		}
	}
	data, err := d.json()
	b.Type, b.Data = kind, data
	return b, slot, err
}

// fields reads the members of a block of a known type.
func (d *decoder) fields(b Block, unknown *string, depth int, first string) error {
	if err := d.open(); err != nil {
		return err
	}
	var others []byte
	for begin := true; ; begin = false {
		start, key, err := d.member(begin)
		if err != nil {
			return err
		}
		if key == nil {
			*unknown = string(others)
			return nil
		}
		known := true
		if string(key) == "type" {
			err = d.typeAgain(first)
		} else if known, err = d.field(b, key, depth); !known {
			others, err = d.unknown(others, start)
		}
		if err != nil {
			return err
		}
	}
}

func (d *decoder) typeAgain(first string) error {
	kind, err := d.bytes()
	if err == nil && first != "" && first != string(kind) {
		return errTypeAgain
	}
	return err
}

// field reads the member of the name key into b, if b has it.
func (d *decoder) field(b Block, key []byte, depth int) (known bool, err error) {
	switch b := b.(type) {
	case *TextBlock:
		switch string(key) {
		case "text":
			b.Text, err = d.text()
			return true, err
		}
	case *ThinkingBlock:
		switch string(key) {
		case "text":
			b.Text, err = d.text()
			return true, err
		case "signature":
			b.Signature, err = d.text()
			return true, err
		case "redacted":
			b.Redacted, err = d.base64()
			return true, err
		}
	case *MediaBlock:
		return d.mediaField(b, key)
	case *ToolUseBlock:
		switch string(key) {
		case "id":
			b.ID, err = d.name()
			return true, err
		case "name":
			b.Name, err = d.name()
			return true, err
		case "input":
			b.Input, err = d.json()
			return true, err
		case "input_text":
			b.Input, err = d.jsonText()
			return true, err
		}
	case *ToolResultBlock:
		switch string(key) {
		case "tool_use_id":
			b.ToolUseID, err = d.name()
			return true, err
		case "name":
			b.Name, err = d.name()
			return true, err
		case "content":
			b.Content, err = d.content(depth + 1)
			return true, err
		case "is_error":
			b.IsError, err = d.bool()
			return true, err
		}
	}
	return false, nil
}

func (d *decoder) mediaField(b *MediaBlock, key []byte) (known bool, err error) {
	switch string(key) {
	case "media_type":
		var s string
		s, err = d.name()
		b.Type = MediaType(s)
	case "mime_type":
		b.MIMEType, err = d.name()
	case "name":
		b.Name, err = d.text()
	case "data":
		b.Data, err = d.base64()
	case "source_uri":
		b.SourceURI, err = d.text()
	default:
		return false, nil
	}
	return true, err
}

// isWrapper reports whether the raw block ahead has no other members than a
// wrapper has. It stays in front of it.
func (d *decoder) isWrapper() (bool, error) {
	start, wrapper := d.pos, true
	err := d.eachMember(func(key []byte) (err error) {
		switch string(key) {
		case "type", "raw_type", "data", "data_text":
		default:
			wrapper = false
		}
		d.pos, err = skipValue(d.data, d.pos, 0)
		return err
	})
	d.pos = start
	return wrapper, err
}

// wrapped reads the RawBlock in a wrapper.
func (d *decoder) wrapped(b *RawBlock) error {
	start := d.pos
	err := d.eachMember(func(key []byte) (err error) {
		switch string(key) {
		case "raw_type":
			b.Type, err = d.text()
		case "data":
			b.Data, err = d.json()
		case "data_text":
			b.Data, err = d.jsonText()
		default:
			_, err = d.bytes()
		}
		return err
	})
	if err == nil && (b.Type == "" || b.Data == nil) {
		err = &jsonError{start, badWrapper}
	}
	return err
}
