package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// show makes a message comparable by go-cmp, unknown members included.
var show = cmp.AllowUnexported(Message{}, TextBlock{}, ThinkingBlock{}, MediaBlock{}, ToolUseBlock{}, ToolResultBlock{})

func encode(t testing.TB, m Message) string {
	t.Helper()
	line, err := AppendMessage(nil, m)
	if err != nil {
		t.Fatalf("AppendMessage: %v", err)
	}
	return string(line)
}

func decode(t testing.TB, line string) Message {
	t.Helper()
	m, err := DecodeMessage([]byte(line))
	if err != nil {
		t.Fatalf("DecodeMessage: %v", err)
	}
	return m
}

func call(input string) Message { return NewMessage(RoleAssistant, ToolUse("c1", "run", input)) }

func raw(kind, data string) Message {
	return NewMessage(RoleUser, &RawBlock{Type: kind, Data: json.RawMessage(data)})
}

func TestJSONForm(t *testing.T) {
	const begin, end = `{"role":"user","content":[`, `]}`
	tests := []struct {
		name string
		m    Message
		want string
	}{
		{"smallest", Message{Role: "user"}, `{"role":"user"}`},
		{"text", UserText("hi"), `{"role":"user","content":[{"type":"text","text":"hi"}]}`},
		{"no text", UserText(""), begin + `{"type":"text","text":""}` + end},
		{"all of a message", Message{
			ID: "m1", Role: "r", Content: []Block{Text("x")},
			Time:     time.Date(2026, 1, 2, 4, 4, 5, 600_000_000, time.FixedZone("", 3600)),
			Metadata: map[string]any{"b": 1.0, "a": 1},
		}, `{"id":"m1","role":"r","content":[{"type":"text","text":"x"}],"time":"2026-01-02T03:04:05.6Z","metadata":{"a":1,"b":1.0}}`},
		{"thinking", NewMessage("user", &ThinkingBlock{Text: "t", Signature: "s", Redacted: []byte{0xff}}),
			begin + `{"type":"thinking","text":"t","signature":"s","redacted":"/w=="}` + end},
		{"media", NewMessage("user", &MediaBlock{Type: MediaImage, MIMEType: "image/png", Name: "n", Data: []byte("abc"), SourceURI: "u"}),
			begin + `{"type":"media","media_type":"image","mime_type":"image/png","name":"n","data":"YWJj","source_uri":"u"}` + end},
		{"tool use", NewMessage("user", ToolUse("c1", "run", `{"z": 1, "a":2}`)),
			begin + `{"type":"tool_use","id":"c1","name":"run","input":{"z": 1, "a":2}}` + end},
		{"tool use of nothing", NewMessage("user", &ToolUseBlock{}), begin + `{"type":"tool_use"}` + end},
		{"input null", NewMessage("user", ToolUse("", "", `null`)), begin + `{"type":"tool_use","input":null}` + end},
		{"input of two lines", NewMessage("user", ToolUse("", "", "{\n}")), begin + `{"type":"tool_use","input_text":"{\n}"}` + end},
		{"input in space", NewMessage("user", ToolUse("", "", " 1")), begin + `{"type":"tool_use","input_text":" 1"}` + end},
		{"tool result", NewMessage("user", ToolError("c1", "run", "no")),
			begin + `{"type":"tool_result","tool_use_id":"c1","name":"run","content":[{"type":"text","text":"no"}],"is_error":true}` + end},
		{"raw as it is", raw("x", `{"a": 1, "type": "x"}`), begin + `{"a": 1, "type": "x"}` + end},
		{"raw with an escaped type", raw("x", `{"type":"\u0078"}`), begin + `{"type":"\u0078"}` + end},
		{"raw whose last type counts", raw("x", `{"type":"y","type":"x"}`), begin + `{"type":"y","type":"x"}` + end},
		{"raw of another type", raw("x", `{"type":"y"}`), begin + `{"type":"raw","raw_type":"x","data":{"type":"y"}}` + end},
		{"raw of no type", raw("x", `{}`), begin + `{"type":"raw","raw_type":"x","data":{}}` + end},
		{"raw of a known type", raw("text", `{"type":"text"}`), begin + `{"type":"raw","raw_type":"text","data":{"type":"text"}}` + end},
		{"raw raw", raw("raw", `{"type":"raw"}`), begin + `{"type":"raw","raw_type":"raw","data":{"type":"raw"}}` + end},
		{"raw null", raw("x", `null`), begin + `{"type":"raw","raw_type":"x","data":null}` + end},
		{"raw of two lines", raw("x", "{\"type\":\r\"x\"}"), begin + `{"type":"raw","raw_type":"x","data_text":"{\"type\":\r\"x\"}"}` + end},
		{"fewest escapes", UserText("<a&b>/é\u2028🎉\x7f\"\\\b\f\n\r\t\x00\x1f"),
			begin + `{"type":"text","text":"<a&b>/é` + "\u2028🎉\x7f" + `\"\\\b\f\n\r\t\u0000\u001f"}` + end},
	}
	for _, test := range tests {
		line := encode(t, test.m)
		if line != test.want {
			t.Errorf("%s: AppendMessage = %s\nwant %s", test.name, line, test.want)
		}
		if !json.Valid([]byte(line)) {
			t.Errorf("%s: AppendMessage = %s, which is not JSON", test.name, line)
		}
		if got := decode(t, line); !got.Equal(test.m) {
			t.Errorf("%s: DecodeMessage differs (-want +got):\n%s", test.name, cmp.Diff(test.m, got, show))
		}
	}
}

func TestKeepsEverything(t *testing.T) {
	for _, s := range []string{
		"", "\x00", "a\x00b", "<>&", "\u2028\u2029", "🎉", "\uFFFD", "\\u003c", strings.Repeat("é\n", 5<<20/3),
	} {
		if got := decode(t, encode(t, UserText(s))).Text(); got != s {
			t.Errorf("text of %d bytes (%.20q): got %.20q", len(s), s, got)
		}
	}
	for _, input := range []string{
		`9007199254740993`, `{"n":18446744073709551615}`, `[12345678901234567890123456789012345678]`, `-0`, `1E+2`, `1e400`,
		`{"b":1,"a":2,"b":3}`, `{ "a" :	1 }`, `"\u003c\ud83d\/"`, "\t[\n1 ]\r\n", `"<&>` + "\u2028" + `"`, `""`, `null`, "\r", " ",
	} {
		m := call(input)
		if strings.TrimSpace(input) == "" {
			continue
		}
		line := encode(t, m)
		if strings.ContainsAny(line, "\r\n") {
			t.Errorf("input %q: more than one line: %q", input, line)
		}
		if got := decode(t, line).ToolUses()[0].Input; string(got) != input {
			t.Errorf("input %q: got %q", input, got)
		}
	}
}

func TestNilAndEmpty(t *testing.T) {
	m := Message{Role: "tool", Content: []Block{
		&ThinkingBlock{Redacted: []byte{}}, &MediaBlock{Data: []byte{}}, &ToolUseBlock{Input: json.RawMessage{}}, &ToolResultBlock{Content: []Block{}},
	}, Metadata: map[string]any{}}
	want := Message{Role: "tool", Content: []Block{&ThinkingBlock{}, &MediaBlock{}, &ToolUseBlock{}, &ToolResultBlock{}}}
	if got := decode(t, encode(t, m)); !reflect.DeepEqual(got, want) {
		t.Errorf("empty parts (-want +got):\n%s", cmp.Diff(want, got, show))
	}
	if got := decode(t, `{"role":"u","content":[],"metadata":{}}`); got.Content != nil || got.Metadata != nil {
		t.Errorf("empty content and metadata: got %#v, want nil", got)
	}
	for _, none := range [][]Message{nil, {}} {
		got, err := Canonical(none)
		if err != nil || got == nil || len(got) != 0 {
			t.Errorf("Canonical(%#v) = %#v, %v, want an empty slice", none, got, err)
		}
		decoded, _, err := decodeMessages(make([][]byte, len(none)))
		if err != nil || decoded == nil {
			t.Errorf("decodeMessages of nothing = %#v, %v, want an empty slice", decoded, err)
		}
	}
}

// deepContent nests n tool results.
func deepContent(n int) Block {
	b := Block(Text("x"))
	for range n {
		b = &ToolResultBlock{Content: []Block{b}}
	}
	return b
}

func deepArray(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func deepValue(n int) any {
	v := any(nil)
	for range n {
		v = []any{v}
	}
	return v
}

type (
	badMarshaler struct{}
	badText      struct{}
	linked       struct{ Next *linked }
	selfPointer  *selfPointer
)

func (badMarshaler) MarshalJSON() ([]byte, error) { return []byte("\"\xff\""), nil }
func (badText) MarshalText() ([]byte, error)      { return []byte("secret\xff"), nil }

func invalidMessages() map[string]Message {
	const secret = "secret\xff"
	cycle := &ToolResultBlock{}
	cycle.Content = []Block{cycle, cycle}
	loop := map[string]any{}
	loop["a"], loop["b"] = loop, loop
	list := &linked{}
	list.Next = list
	var self selfPointer
	self = &self
	block := func(b Block) Message { return NewMessage(RoleUser, Text("fine"), b) }
	meta := func(v any) Message { return Message{Role: "user", Metadata: map[string]any{"fine": 1, "k": v}} }
	return map[string]Message{
		"no role":                {},
		"role":                   {Role: secret},
		"id":                     {Role: "user", ID: secret},
		"year -1":                {Role: "user", Time: time.Date(-1, 12, 31, 23, 0, 0, 0, time.UTC)},
		"year 10000":             {Role: "user", Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"year 10000 in UTC":      {Role: "user", Time: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -7200))},
		"nil":                    block(nil),
		"nil text":               block((*TextBlock)(nil)),
		"nil thinking":           block((*ThinkingBlock)(nil)),
		"nil media":              block((*MediaBlock)(nil)),
		"nil use":                block((*ToolUseBlock)(nil)),
		"nil result":             block((*ToolResultBlock)(nil)),
		"nil raw":                block((*RawBlock)(nil)),
		"text":                   block(Text(secret)),
		"long text":              block(Text(strings.Repeat("x", 100) + "\xc3\"" + strings.Repeat("x", 100))),
		"surrogate":              block(Text("secret\xed\xa0\xbd")),
		"thinking text":          block(&ThinkingBlock{Text: secret}),
		"signature":              block(&ThinkingBlock{Signature: secret}),
		"media type":             block(&MediaBlock{Type: secret}),
		"mime type":              block(&MediaBlock{MIMEType: secret}),
		"media name":             block(&MediaBlock{Name: secret}),
		"source uri":             block(&MediaBlock{SourceURI: secret}),
		"use id":                 block(&ToolUseBlock{ID: secret}),
		"use name":               block(&ToolUseBlock{Name: secret}),
		"input text":             block(ToolUse("", "", `secret`)),
		"input utf8":             block(ToolUse("", "", "\"secret\xff\"")),
		"input space":            block(ToolUse("", "", " ")),
		"input two":              block(ToolUse("", "", `1 2`)),
		"input half":             block(ToolUse("", "", `{"secret":`)),
		"input control":          block(ToolUse("", "", "\"secret\n\"")),
		"input number":           block(ToolUse("", "", `01`)),
		"input comma":            block(ToolUse("", "", `[1,]`)),
		"input escape":           block(ToolUse("", "", `"\x"`)),
		"input NaN":              block(ToolUse("", "", `NaN`)),
		"input BOM":              block(ToolUse("", "", "\ufeff1")),
		"input deep":             block(ToolUse("", "", deepArray(maxDepth+1))),
		"result id":              block(&ToolResultBlock{ToolUseID: secret}),
		"result name":            block(&ToolResultBlock{Name: secret}),
		"result text":            block(ToolResult("", "", secret)),
		"result nil":             block(&ToolResultBlock{Content: []Block{nil}}),
		"result deep":            block(deepContent(maxDepth + 1)),
		"result cycle":           block(cycle),
		"raw type none":          block(&RawBlock{Data: json.RawMessage(`{}`)}),
		"raw type":               block(&RawBlock{Type: secret, Data: json.RawMessage(`{}`)}),
		"raw data none":          block(&RawBlock{Type: "x"}),
		"raw data":               block(&RawBlock{Type: "x", Data: json.RawMessage(`secret`)}),
		"raw data utf8":          block(&RawBlock{Type: "x", Data: json.RawMessage("{\"type\":\"x\",\"k\":\"secret\xff\"}")}),
		"raw data deep":          block(&RawBlock{Type: "x", Data: json.RawMessage(deepArray(maxDepth + 1))}),
		"metadata text":          meta(secret),
		"metadata key":           {Role: "user", Metadata: map[string]any{secret: 1}},
		"metadata inner key":     meta(map[string]any{secret: 1}),
		"metadata strings":       meta([]string{secret}),
		"metadata map":           meta(map[string]string{secret: ""}),
		"metadata int map":       meta(map[int]string{1: secret}),
		"metadata struct":        meta(struct{ A any }{&[]string{secret}}),
		"metadata marshaler":     meta(badMarshaler{}),
		"metadata text marsh.":   meta(badText{}),
		"metadata text in list":  meta(struct{ A []badText }{make([]badText, 1)}),
		"metadata text key":      meta(map[badText]int{{}: 1}),
		"metadata raw":           meta(json.RawMessage(`secret`)),
		"metadata raw utf8":      meta(json.RawMessage("\"secret\xff\"")),
		"metadata NaN":           meta(nan()),
		"metadata NaN 32":        meta(float32(nan())),
		"metadata NaN inside":    meta([]float64{nan()}),
		"metadata NaN struct":    meta(struct{ F float64 }{nan()}),
		"metadata Number":        meta(json.Number("secret")),
		"metadata Number 01":     meta(json.Number("01")),
		"metadata chan":          meta(make(chan int)),
		"metadata func":          meta(func() {}),
		"metadata complex":       meta(1i),
		"metadata cycle":         meta(loop),
		"metadata cycle struct":  meta(list),
		"metadata cycle pointer": meta(self),
		"metadata deep":          meta(deepValue(maxDepth)),
		"metadata deep raw":      meta(json.RawMessage(deepArray(maxDepth))),
	}
}

func nan() float64 { z := 0.0; return z / z }

func TestInvalid(t *testing.T) {
	for name, m := range invalidMessages() {
		dst := []byte("before")
		got, err := AppendMessage(dst, m)
		if !errors.Is(err, ErrInvalidMessage) || string(got) != "before" {
			t.Errorf("%s: AppendMessage = %.40q, %v, want dst and ErrInvalidMessage", name, got, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error quotes the message: %v", name, err)
		}
		batch := []Message{UserText("fine"), UserText("fine"), m}
		_, inMemory := Canonical(batch)
		_, encoded := encodeMessages(batch)
		for _, err := range []error{inMemory, encoded} {
			if !errors.Is(err, ErrInvalidMessage) || !strings.Contains(err.Error(), "message 3") {
				t.Errorf("%s: in a batch: %v, want ErrInvalidMessage and the message's number", name, err)
			}
		}
		if fmt.Sprint(inMemory) != fmt.Sprint(encoded) {
			t.Errorf("%s: Canonical says %v, encodeMessages %v", name, inMemory, encoded)
		}
		if _, err := json.Marshal(m); err == nil {
			t.Errorf("%s: json.Marshal: no error", name)
		}
	}
	_, err := AppendMessage(nil, NewMessage("user", Text(""), &ToolResultBlock{Content: []Block{Text(""), Text(""), nil}}))
	if err == nil || !strings.Contains(err.Error(), "block 2: block 3: nil block") {
		t.Errorf("nested nil block: %v, want its place", err)
	}
}

func TestDeepest(t *testing.T) {
	messages := []Message{
		NewMessage("user", deepContent(maxDepth)),
		call(deepArray(maxDepth)),
		raw("x", deepArray(maxDepth)),
		raw("x", `{"type":"x","d":`+deepArray(maxDepth-1)+`}`),
		{Role: "user", Metadata: map[string]any{"k": deepValue(maxDepth - 1)}},
		{Role: "user", Metadata: map[string]any{"k": json.RawMessage(deepArray(maxDepth - 1))}},
	}
	want, err := Canonical(messages)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range messages {
		line := encode(t, m)
		if got := decode(t, line); !reflect.DeepEqual(got, want[i]) {
			t.Errorf("message %d: not the same after decoding", i)
		}
		if !json.Valid([]byte(line)) {
			t.Errorf("message %d: encoding/json can't read it", i)
		}
	}
}

func TestBatch(t *testing.T) {
	messages := conversationOf(50)
	for i := range messages[:20] {
		messages[i].Content = append(messages[i].Content, Text("second"))
	}
	lines, err := encodeMessages(messages)
	if err != nil {
		t.Fatal(err)
	}
	for i := range lines { // appending to one must not touch the next
		_ = append(lines[i], "overwritten"...)
	}
	got, bad, err := decodeMessages(lines)
	if err != nil || bad != -1 || !EqualMessages(got, messages) {
		t.Fatalf("decodeMessages: %d, %v (-want +got):\n%s", bad, err, cmp.Diff(messages, got, show))
	}
	for i := range lines { // nothing of them is kept
		clear(lines[i])
	}
	for _, m := range got {
		for _, b := range m.ToolUses() {
			b.Input = append(b.Input, "overwritten"...)
		}
		_ = append(m.Content, Text("overwritten"))
	}
	for _, m := range got {
		for _, b := range m.ToolUses() {
			b.Input = bytes.TrimSuffix(b.Input, []byte("overwritten"))
		}
	}
	if !EqualMessages(got, messages) {
		t.Errorf("decoded messages share memory (-want +got):\n%s", cmp.Diff(messages, got, show))
	}

	lines, _ = encodeMessages(messages)
	lines[7] = lines[7][:20]
	if _, bad, err := decodeMessages(lines); bad != 7 || !errors.Is(err, ErrCorrupt) {
		t.Errorf("decodeMessages with a bad line = %d, %v, want 7 and ErrCorrupt", bad, err)
	}
}

func TestInterop(t *testing.T) {
	m := NewMessage(RoleUser, Text("<b>"), ToolUse("c", "n", `{"a": 1}`))
	data, err := json.Marshal(map[string]any{"m": m})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ M, N *Message }
	if err := json.Unmarshal(data, &got); err != nil || got.M.Text() != "<b>" {
		t.Errorf("json: got %v, %v", got, err)
	}
	kept := m
	if err := json.Unmarshal([]byte("null"), &kept); err != nil || !kept.Equal(m) {
		t.Errorf("null changed the message: %v, %v", kept, err)
	}
	if err := kept.UnmarshalJSON([]byte("{}")); !errors.Is(err, ErrCorrupt) || !kept.Equal(m) {
		t.Errorf("a failed UnmarshalJSON changed the message: %v, %v", kept, err)
	}
}

func TestPropertyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := messagesGen().Draw(t, "messages")
		canonical, err := Canonical(messages)
		if err != nil {
			t.Fatalf("Canonical: %v", err)
		}
		lines, err := encodeMessages(messages)
		if err != nil {
			t.Fatalf("encodeMessages: %v", err)
		}
		for i, line := range lines {
			if bytes.ContainsAny(line, "\r\n") || !json.Valid(line) {
				t.Fatalf("not one line of JSON: %q", line)
			}
			if again, err := AppendMessage(nil, canonical[i]); err != nil || !bytes.Equal(again, line) {
				t.Fatalf("canonical form encodes as %q, %v, want %q", again, err, line)
			}
		}
		decoded, _, err := decodeMessages(lines)
		if err != nil {
			t.Fatalf("decodeMessages: %v", err)
		}
		if !reflect.DeepEqual(decoded, canonical) {
			t.Fatalf("decoded differs from canonical (-want +got):\n%s", cmp.Diff(canonical, decoded, show))
		}
		if !EqualMessages(decoded, messages) {
			t.Fatalf("decoded differs from the original (-want +got):\n%s", cmp.Diff(messages, decoded, show))
		}
		if again, err := Canonical(canonical); err != nil || !reflect.DeepEqual(again, canonical) {
			t.Fatalf("Canonical is not stable: %v (-want +got):\n%s", err, cmp.Diff(canonical, again, show))
		}
	})
}

// Canonical, AppendMessage and the batch accept the same messages.
func TestPropertySameAcceptance(t *testing.T) {
	broken := invalidMessages()
	names := make([]string, 0, len(broken))
	for name := range broken {
		names = append(names, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := messageGen().Draw(t, "message")
		if rapid.Bool().Draw(t, "break") {
			bad := broken[rapid.SampledFrom(names).Draw(t, "how")]
			at := rapid.IntRange(0, len(m.Content)).Draw(t, "at")
			m.Content = append(append(append([]Block{}, m.Content[:at]...), bad.Content...), m.Content[at:]...)
			if rapid.Bool().Draw(t, "metadata too") {
				m.Metadata, m.ID, m.Time = bad.Metadata, bad.ID, bad.Time
			}
		}
		_, appendErr := AppendMessage(nil, m)
		_, canonicalErr := Canonical([]Message{m})
		if (appendErr == nil) != (canonicalErr == nil) {
			t.Fatalf("AppendMessage: %v; Canonical: %v", appendErr, canonicalErr)
		}
	})
}
