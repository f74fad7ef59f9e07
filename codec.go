package session

import (
	"errors"
	"fmt"
	"slices"
)

// # The JSON form of a message
//
// One message is one JSON object on one line, UTF-8, without white space
// between its tokens:
//
//	{"id":"m1","role":"user","content":[{"type":"text","text":"hi"}],"time":"2026-01-02T03:04:05.6Z","metadata":{"k":1}}
//
// Members stand in the order given here, and those that are empty are left
// out. Only role, a block's type and a text block's text are always there.
//
//	message      id, role, content (blocks), time (RFC 3339, UTC, to the nanosecond), metadata
//	text         type, text
//	thinking     type, text, signature, redacted (base64)
//	media        type, media_type, mime_type, name, data (base64), source_uri
//	tool_use     type, id, name, input (any JSON value) or input_text
//	tool_result  type, tool_use_id, name, content (blocks), is_error (true)
//	raw          type, raw_type, data (any JSON value) or data_text
//
// Raw values. A tool's input and a RawBlock's data stand as they are, byte for
// byte. One that would break the line, because it holds a line feed or a
// carriage return, or that has white space around it, is written as a JSON
// string instead, under the name that ends in _text.
//
// Blocks of other types are RawBlocks. They are written as they are, if
// reading them gives the same RawBlock again: a JSON object, fit to stand in
// the line, whose own type is the RawBlock's and none of the above. Else they
// are wrapped in a block of type raw.
//
// Unknown members of a message or a block (other than raw) are kept, as text
// and in their order, and written behind the known ones. Their values keep
// their bytes too, except that the white space is taken out of one that holds
// a line break. A block of type raw with members of other names is not a
// wrapper but a RawBlock of type raw.
//
// Strings are escaped only where JSON demands it: quotes, backslashes and
// characters below U+0020. An escape of half a surrogate pair reads as U+FFFD.
//
// Metadata is written in its canonical form (see [Message]) with sorted keys.
// A float64 has a point or an exponent, an int64 neither.
//
// Reading takes members in any order, white space, any escapes and any RFC
// 3339 offset. Of members with the same known name the last one counts, and
// input and input_text count as the same; null is the same as no member,
// except as a raw value. A known member of the wrong type is an error.
//
// Versions. This is version 1, which is not written. A message whose member v
// is a larger integer is of a newer version, and is not read. A version that
// only adds members or block types doesn't need a new number.
//
// Nesting. A raw value, the value of an unknown member and metadata may have
// 1,000 arrays and objects open at once, and tool results may nest as deep.

// AppendMessage appends the JSON form of m to dst: one line, without a line
// feed at the end, and always the same bytes for the same message. What can't
// be written without losing something is ErrInvalidMessage; dst is then
// returned as it was. It keeps nothing of m.
func AppendMessage(dst []byte, m Message) ([]byte, error) {
	line, err := appendMessage(slices.Grow(dst, sizeHint(&m)), &m)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrInvalidMessage, err)
	}
	return line, nil
}

// DecodeMessage returns the message whose JSON form is data. Any JSON object
// that has the members of that form is read; what it writes need not be what
// AppendMessage writes. Damage is ErrCorrupt, and a message of a newer version
// of the form is ErrNewerFormat; the error says at which byte and quotes
// nothing. The message shares no memory with data.
func DecodeMessage(data []byte) (Message, error) {
	var (
		m Message
		d decoder
	)
	if err := d.line(data, &m); err != nil {
		return Message{}, err
	}
	return m, nil
}

// MarshalJSON returns the JSON form of m, as AppendMessage writes it.
// json.Marshal, which calls it, then compacts and escapes what it returns, so
// tool input is not kept byte for byte there.
func (m Message) MarshalJSON() ([]byte, error) { return AppendMessage(nil, m) }

// UnmarshalJSON sets m to the message whose JSON form is data, as
// DecodeMessage does. null leaves m as it is.
func (m *Message) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	decoded, err := DecodeMessage(data)
	if err == nil {
		*m = decoded
	}
	return err
}

// encodeMessages returns the JSON form of each message. Lines share buffers,
// but appending to one doesn't touch the next.
func encodeMessages(messages []Message) ([][]byte, error) {
	// Go's allocator reuses buffers up to this size without returning them to
	// the operating system, which makes them much cheaper than one large one.
	const maxBuffer = 32 << 10
	var (
		lines = make([][]byte, len(messages))
		buf   []byte
		ahead int
	)
	for i := range messages {
		ahead += sizeHint(&messages[i])
	}
	for i := range messages {
		size := sizeHint(&messages[i])
		if cap(buf)-len(buf) < size {
			buf = make([]byte, 0, max(size, min(ahead, maxBuffer)))
		}
		ahead -= size
		start := len(buf)
		var err error
		if buf, err = appendMessage(buf, &messages[i]); err != nil {
			return nil, invalidMessage(i, err)
		}
		lines[i] = buf[start:len(buf):len(buf)]
	}
	return lines, nil
}

// invalidMessage is the error of the message at index i of a batch, which it
// counts from 1.
func invalidMessage(i int, err error) error {
	return fmt.Errorf("%w: message %d: %w", ErrInvalidMessage, i+1, err)
}

// decodeMessages returns the messages whose JSON forms are given. If one is
// bad it returns its index and its error. Blocks share slabs of memory, and so
// do byte slices; strings don't.
func decodeMessages(lines [][]byte) (messages []Message, bad int, err error) {
	messages = make([]Message, len(lines))
	d := decoder{arena: arena{ahead: len(lines)}}
	for i, data := range lines {
		if err := d.line(data, &messages[i]); err != nil {
			return nil, i, err
		}
	}
	return messages, -1, nil
}

// line decodes data into m, and says in terms of this package what is wrong.
func (d *decoder) line(data []byte, m *Message) error {
	d.data, d.pos = data, 0
	err := d.message(m)
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrNewerFormat) || newerVersion(data) {
		return fmt.Errorf("%w: message format", ErrNewerFormat)
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}
