package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecode: reading never panics, what can be read can be written, and from
// the first writing on nothing changes any more.
func FuzzDecode(f *testing.F) {
	every, _ := AppendMessage(nil, everyBlock())
	f.Add(every)
	for _, m := range conversationOf(4) {
		line, _ := AppendMessage(nil, m)
		f.Add(line)
	}
	for _, seed := range []string{
		`{"role":"u","content":[{"type":"text","text":"a","type":"tool_use","input_text":"\ud83d"}]}`,
		"{\"role\":\"u\",\"x\":{ \n},\"content\":[{\"type\":\"y\",\"a\":\r1}]}",
		`{"role":"u","content":[{"type":"raw","raw_type":"text","data_text":"\n1"},{"type":"raw","data":1,"z":2}]}`,
		`{"role":"u","time":"2026-01-02T03:04:05.123456789123+14:00","metadata":{"a":-0,"b":1e2,"c":1E400,"d":[0.10,{}]}}`,
		`{"v":2,"role":"u"}`, `{"role":"u"`, `{"r\u006fle":"\ud83d\ude00\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		m, err := DecodeMessage(data)
		if !bytes.Equal(data, before) {
			t.Fatal("DecodeMessage changed its data")
		}
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("DecodeMessage: untyped error %v", err)
			}
			return
		}
		if !json.Valid(data) || !utf8.Valid(data) {
			t.Fatalf("DecodeMessage accepts what is not JSON: %q", data)
		}
		first, err := AppendMessage(nil, m)
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if !json.Valid(first) || !utf8.Valid(first) || bytes.ContainsAny(first, "\r\n") {
			t.Fatalf("written as %q", first)
		}
		again, err := DecodeMessage(first)
		if err != nil {
			t.Fatalf("what was written can't be read: %v\n%q", err, first)
		}
		if !reflect.DeepEqual(again, m) {
			t.Fatalf("changed by a round (-want +got):\n%s", cmp.Diff(m, again, show))
		}
		second, err := AppendMessage(nil, again)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("written again: %v\n%q\n%q", err, first, second)
		}
		canonical, err := Canonical([]Message{m})
		if err != nil || !reflect.DeepEqual(canonical[0], m) {
			t.Fatalf("what was read is not canonical: %v (-want +got):\n%s", err, cmp.Diff(m, canonical, show))
		}
	})
}

// FuzzRoundTrip: what AppendMessage accepts comes back exactly, and it accepts
// everything that is UTF-8 and JSON.
func FuzzRoundTrip(f *testing.F) {
	f.Add("m", "user", "text", "c1", []byte(`{"a": 1}`), []byte{1, 2}, int64(1), int64(2), 1.5, "1e2")
	f.Add("", "r", "\x00\u2028<&>\"\\", "x", []byte("[\n1]"), []byte{}, int64(-1), int64(0), math.Copysign(0, -1), "12345678901234567890")
	f.Add("", "r", "type", "type", []byte(`{"type":"type"}`), []byte{}, int64(0), int64(0), 1e21, "0.1000000000000000055511151231257827")
	f.Add("", "r", "12345678\"", "text", []byte(`{"t\u0079pe":"text"}`), []byte(nil), int64(0), int64(0), 1e-7, "1e400")
	f.Fuzz(func(t *testing.T, id, role, text, name string, value, data []byte, seconds, nanos int64, float float64, number string) {
		m := Message{
			ID: id, Role: Role(role),
			Time: time.Unix(seconds%253402300799, nanos%1e9),
			Content: []Block{
				Text(text),
				&ThinkingBlock{Text: text, Signature: name, Redacted: data},
				&MediaBlock{Type: MediaType(name), MIMEType: text, Name: name, Data: data, SourceURI: text},
				&ToolUseBlock{ID: id, Name: name, Input: value},
				&ToolResultBlock{ToolUseID: id, Name: name, Content: []Block{Text(text)}, IsError: seconds > 0},
				&RawBlock{Type: name, Data: value},
			},
			Metadata: map[string]any{text: []any{float, name, seconds, uint64(nanos)}, name: map[string]any{id: json.Number(number)}},
		}
		line, err := AppendMessage(nil, m)
		valid := role != "" && name != "" && utf8.ValidString(id+role+text+name) && !math.IsNaN(float) && !math.IsInf(float, 0) &&
			json.Valid(value) && utf8.Valid(value) && (number == "" || json.Valid([]byte(number)) && (number[0] == '-' || '0' <= number[0] && number[0] <= '9')) &&
			m.Time.UTC().Year() >= 0
		if number != "" && (isSpace(number[len(number)-1]) || isSpace(number[0])) {
			valid = false
		}
		for _, s := range []string{id, role, text, name} { // halves may make a whole
			valid = valid && utf8.ValidString(s)
		}
		if bytes.Count(value, []byte("["))+bytes.Count(value, []byte("{")) > maxDepth {
			return
		}
		if valid != (err == nil) {
			t.Fatalf("AppendMessage: %v, but valid is %v", err, valid)
		}
		canonical, canonicalErr := Canonical([]Message{m})
		if (canonicalErr == nil) != (err == nil) {
			t.Fatalf("AppendMessage: %v; Canonical: %v", err, canonicalErr)
		}
		if err != nil {
			return
		}
		got, err := DecodeMessage(line)
		if err != nil {
			t.Fatalf("DecodeMessage: %v\n%q", err, line)
		}
		if !got.Equal(m) || !reflect.DeepEqual(got, canonical[0]) {
			t.Fatalf("changed (-want +got):\n%s\n%q", cmp.Diff(canonical[0], got, show), line)
		}
		if !bytes.Equal(got.Content[3].(*ToolUseBlock).Input, value) || !bytes.Equal(got.Content[5].(*RawBlock).Data, value) {
			t.Fatalf("raw values changed: %q", line)
		}
		if !json.Valid(line) || bytes.ContainsAny(line, "\r\n") {
			t.Fatalf("not one line of JSON: %q", line)
		}
	})
}
