package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadsWhatItDoesNotWrite(t *testing.T) {
	text := UserText("hi")
	zoned := Message{Role: "user", Time: time.Date(2026, 1, 2, 3, 4, 5, 1, time.UTC)}
	tests := []struct {
		name, line string
		want       Message
	}{
		{"white space", " {\n\"role\" :\t\"user\" , \"content\" : [ { \"type\" : \"text\" , \"text\" : \"hi\" } ] }\r\n", text},
		{"order", `{"content":[{"text":"hi","type":"text"}],"role":"user"}`, text},
		{"escaped keys and type", `{"\u0072ole":"user","content":[{"t\u0079pe":"te\u0078t","\u0074ext":"\u0068i"}]}`, text},
		{"last of equal keys", `{"role":"x","role":"user","content":[{"type":"media"}],"content":[{"type":"text","text":"x","text":"hi"}]}`, text},
		{"last of equal types", `{"role":"user","content":[{"type":"tool_use","text":"hi","type":"text"}]}`, text},
		{"null is absent", `{"id":null,"role":"user","time":null,"metadata":null,"content":[{"type":"text","text":"hi"}],"v":null}`, text},
		{"null takes back", `{"id":"x","id":null,"role":"user","metadata":{"a":1},"metadata":null,"content":[{"type":"text","text":"hi"}]}`, text},
		{"version 1", `{"v":1,"role":"user","content":[{"type":"text","text":"hi"}]}`, text},
		{"null content", `{"role":"user","content":null}`, Message{Role: "user"}},
		{"null in blocks", `{"role":"user","content":[{"type":"tool_result","tool_use_id":null,"name":null,"content":null,"is_error":null}]}`,
			NewMessage("user", &ToolResultBlock{})},
		{"null bytes", `{"role":"user","content":[{"type":"thinking","redacted":null,"text":null}]}`, NewMessage("user", &ThinkingBlock{})},
		{"input null is a value", `{"role":"user","content":[{"type":"tool_use","input":null}]}`, NewMessage("user", ToolUse("", "", "null"))},
		{"input_text null is none", `{"role":"user","content":[{"type":"tool_use","input_text":null}]}`, NewMessage("user", &ToolUseBlock{})},
		{"last of input and input_text", `{"role":"user","content":[{"type":"tool_use","input":1,"input_text":"2"}]}`, NewMessage("user", ToolUse("", "", "2"))},
		{"input in a pretty message", "{\"role\":\"user\",\"content\":[{\"type\":\"tool_use\",\"input\": {\n \"a\": 1\n} }]}",
			NewMessage("user", ToolUse("", "", "{\n \"a\": 1\n}"))},
		{"not an error", `{"role":"user","content":[{"type":"tool_result","is_error":false}]}`, NewMessage("user", &ToolResultBlock{})},
		{"offset", `{"role":"user","time":"2026-01-02T05:04:05.000000001+02:00"}`, zoned},
		{"escapes", `{"role":"user","content":[{"type":"text","text":"\"\\\/\b\f\n\r\t\u00e9\ud83c\udf89\u0000"}]}`,
			UserText("\"\\/\b\f\n\r\té🎉\x00")},
		{"half pairs", `{"role":"user","content":[{"type":"text","text":"a\ud83db\ude00\ud83d\ud83d\ude00\ud83dxude00\ud83d\u0041\ud83d"}]}`,
			UserText("a\uFFFDb\uFFFD\uFFFD😀\uFFFDxude00\uFFFDA\uFFFD")},
		{"wrapper of what needs none", `{"role":"user","content":[{"type":"raw","data":{"type":"x"},"raw_type":"x"}]}`, raw("x", `{"type":"x"}`)},
		{"wrapper with more in it", `{"role":"user","content":[{"type":"raw","raw_type":"x","data":1,"more":2}]}`,
			raw("raw", `{"type":"raw","raw_type":"x","data":1,"more":2}`)},
	}
	for _, test := range tests {
		got := decode(t, test.line)
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s (-want +got):\n%s", test.name, cmp.Diff(test.want, got, show))
		}
		line := encode(t, got)
		if again := decode(t, line); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: not the same after another round (-want +got):\n%s", test.name, cmp.Diff(got, again, show))
		}
	}
}

func TestCorrupt(t *testing.T) {
	content := func(block string) string { return `{"role":"user","content":[` + block + `]}` }
	tests := []struct {
		name, line string
		offset     int // of the fault; -1: not looked at
	}{
		{"empty", ``, 0},
		{"space", ` `, 1},
		{"null", `null`, 0},
		{"array", `[]`, 0},
		{"no role", `{}`, 2},
		{"null role", `{"role":null}`, -1},
		{"empty role", `{"role":""}`, -1},
		{"torn", `{"role":"user","content":[{"type":"te`, 37},
		{"torn in a number", `{"role":"user","metadata":{"a":-`, 32},
		{"behind the end", `{"role":"user"} x`, 16},
		{"two messages", `{"role":"user"}{"role":"user"}`, 15},
		{"comma", `{"role":"user",}`, 15},
		{"first comma", `{,"role":"user"}`, 1},
		{"no colon", `{"role" "user"}`, 8},
		{"no key", `{role:"user"}`, 1},
		{"bad UTF-8", "{\"role\":\"user\",\"id\":\"abcsecret\xff\"}", 30},
		{"bad UTF-8 in a key", "{\"role\":\"user\",\"\xff\":1}", 16},
		{"bad UTF-8 in an unknown value", "{\"role\":\"user\",\"x\":\"\xff\"}", 20},
		{"bad UTF-8 outside", "{\"role\":\"user\"}\xff", 15},
		{"UTF-8 surrogate", "{\"role\":\"\xed\xa0\x80\"}", 9},
		{"line break in a string", "{\"role\":\"us\ner\"}", 11},
		{"escape", `{"role":"us\er"}`, 11},
		{"short escape", `{"role":"us\u12"}`, 11},
		{"BOM", "\ufeff{\"role\":\"user\"}", 0},
		{"role number", `{"role":1}`, 8},
		{"id number", `{"role":"user","id":1}`, 20},
		{"content object", `{"role":"user","content":{}}`, 25},
		{"content string", `{"role":"user","content":"hi"}`, 25},
		{"time number", `{"role":"user","time":1}`, 22},
		{"time", `{"role":"user","time":"yesterday"}`, 22},
		{"time before year 0", `{"role":"user","time":"0000-01-01T00:00:00+01:00"}`, 22},
		{"time after year 9999", `{"role":"user","time":"9999-12-31T23:00:00-01:00"}`, 22},
		{"metadata array", `{"role":"user","metadata":[]}`, 26},
		{"metadata value", `{"role":"user","metadata":{"a":x}}`, 31},
		{"metadata too deep", `{"role":"user","metadata":{"a":` + deepArray(maxDepth) + `}}`, 31 + maxDepth - 1},
		{"block null", content(`null`), 26},
		{"block string", content(`"secret"`), 26},
		{"block without a type", content(`{"text":"secret"}`), 26},
		{"block with a null type", content(`{"type":null}`), -1},
		{"block with a null type again", content(`{"type":"text","type":null}`), -1},
		{"block with an empty type", content(`{"type":""}`), -1},
		{"type number", content(`{"type":1}`), 34},
		{"text number", content(`{"type":"text","text":1}`), 48},
		{"redacted", content(`{"type":"thinking","redacted":"secret!"}`), 56},
		{"data base64", content(`{"type":"media","data":"YQ"}`), 49},
		{"input", content(`{"type":"tool_use","input":secret}`), 53},
		{"input_text", content(`{"type":"tool_use","input_text":"secret"}`), 58},
		{"input_text space", content(`{"type":"tool_use","input_text":" "}`), 58},
		{"input_text object", content(`{"type":"tool_use","input_text":{}}`), 58},
		{"input too deep", content(`{"type":"tool_use","input":` + deepArray(maxDepth+1) + `}`), 53 + maxDepth},
		{"is_error string", content(`{"type":"tool_result","is_error":"true"}`), 59},
		{"is_error word", content(`{"type":"tool_result","is_error":trust}`), 62},
		{"unknown too deep", `{"role":"user","x":` + deepArray(maxDepth+1) + `}`, 19 + maxDepth},
		{"unknown block too deep", content(`{"type":"x","d":` + deepArray(maxDepth) + `}`), 26 + 16 + maxDepth - 1},
		{"results too deep", content(strings.Repeat(`{"type":"tool_result","content":[`, maxDepth+1) + strings.Repeat(`]}`, maxDepth+1)), -1},
		{"unknown block", content(`{"type":"x","a":tru}`), 45},
		{"wrapper without a type", content(`{"type":"raw","data":1}`), 26},
		{"wrapper without data", content(`{"type":"raw","raw_type":"x"}`), 26},
		{"wrapper of no data", content(`{"type":"raw","raw_type":"x","data_text":""}`), 26},
		{"wrapper type", content(`{"type":"raw","raw_type":1,"data":1}`), 51},
		{"version 0", `{"v":0,"role":"user"}`, 5},
		{"version 1.5", `{"v":1.5,"role":"user"}`, 5},
		{"version -2", `{"v":-2,"role":"user"}`, 5},
		{"version string", `{"v":"2","role":"user"}`, 5},
	}
	for _, test := range tests {
		m, err := DecodeMessage([]byte(test.line))
		if !errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNewerFormat) || !reflect.DeepEqual(m, Message{}) {
			t.Errorf("%s: DecodeMessage = %v, %v, want no message and ErrCorrupt", test.name, m, err)
			continue
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error quotes the data: %v", test.name, err)
		}
		if test.offset >= 0 && !strings.HasSuffix(err.Error(), fmt.Sprintf(" at byte %d", test.offset)) {
			t.Errorf("%s: %v, want byte %d", test.name, err, test.offset)
		}
	}
}

// Every prefix of a message is an error, as is every byte that isn't UTF-8.
func TestTornAndFlipped(t *testing.T) {
	line := encode(t, everyBlock())
	for i := range len(line) {
		if _, err := DecodeMessage([]byte(line[:i])); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the first %d bytes: %v, want ErrCorrupt", i, err)
		}
		if _, err := DecodeMessage([]byte(line[:i] + "\xff" + line[i+1:])); !errors.Is(err, ErrCorrupt) {
			t.Errorf("0xff in place of byte %d: %v, want ErrCorrupt", i, err)
		}
	}
}

func TestNewerFormat(t *testing.T) {
	for _, line := range []string{
		`{"v":2,"role":"user"}`,
		`{"v":2}`,
		`{"role":"user","v":2}`,
		`{"v":12345678901234567890123456789012345678,"role":"user"}`,
		`{"role":{"name":"user"},"v":2}`,
		`{"v":2,"content":"something else"}`,
		`{"role":"user","content":[1],"\u0076":3}`,
	} {
		if _, err := DecodeMessage([]byte(line)); !errors.Is(err, ErrNewerFormat) || errors.Is(err, ErrCorrupt) {
			t.Errorf("DecodeMessage(%s): %v, want ErrNewerFormat", line, err)
		}
	}
	if _, err := DecodeMessage([]byte(`{"role":"user","content":[{"type":"text","text":"x","v":2}]}`)); err != nil {
		t.Errorf("a block's member v: %v, want none of our business", err)
	}
}

func TestUnknownIsKept(t *testing.T) {
	line := "{\"x\":1,\"role\":\"user\",\"cache\":{\"a\": [1.50, \"\\u003c\"]},\"x\":2,\"content\":[" +
		`{"type":"text","text":"hi","cache_control":{"type": "ephemeral"}},` +
		`{"type":"thinking","text":"t","id":"rs_1"},` +
		`{"type":"media","width":1e2},` +
		`{"type":"tool_use","name":"n","caller":null},` +
		"{\"type\":\"tool_result\",\"content\":[{\"type\":\"text\",\"text\":\"r\",\"deep\":true}],\"exit\":{\n  \"code\": 9007199254740993,\n  \"why\": \"a b\"\n}}," +
		`{"type":"citation","url":"u", "n": 1.0}` +
		"]}"
	want := `{"role":"user","content":[` +
		`{"type":"text","text":"hi","cache_control":{"type": "ephemeral"}},` +
		`{"type":"thinking","text":"t","id":"rs_1"},` +
		`{"type":"media","width":1e2},` +
		`{"type":"tool_use","name":"n","caller":null},` +
		`{"type":"tool_result","content":[{"type":"text","text":"r","deep":true}],"exit":{"code":9007199254740993,"why":"a b"}},` +
		`{"type":"citation","url":"u", "n": 1.0}` +
		`],"x":1,"cache":{"a": [1.50, "\u003c"]},"x":2}`
	m := decode(t, line)
	for round := range 3 {
		got := encode(t, m)
		if got != want {
			t.Fatalf("round %d:\n got %s\nwant %s", round, got, want)
		}
		m = decode(t, got)
	}
	if clone := m.Clone(); encode(t, clone) != want || !clone.Equal(m) {
		t.Errorf("a clone loses unknown members: %s", encode(t, clone))
	}
	if canonical, err := Canonical([]Message{m}); err != nil || encode(t, canonical[0]) != want {
		t.Errorf("Canonical loses unknown members: %v", err)
	}
	if m.Equal(decode(t, `{"role":"user"}`)) || decode(t, `{"role":"u","x":1}`).Equal(decode(t, `{"role":"u","x":2}`)) {
		t.Error("Equal ignores unknown members")
	}
}

// everyBlock is a message with every field of every block.
func everyBlock() Message {
	return decode(&fatalOnly{}, `{"id":"m1","role":"assistant","content":[`+
		`{"type":"text","text":"line\n\"two\" é","x":1},`+
		`{"type":"thinking","text":"hm","signature":"sig","redacted":"/w==","x":2},`+
		`{"type":"media","media_type":"image","mime_type":"image/png","name":"a.png","data":"iVBORw==","source_uri":"https://x","x":3},`+
		`{"type":"tool_use","id":"c1","name":"run","input":{"a": [1, 2.0]},"x":4},`+
		`{"type":"tool_result","tool_use_id":"c1","name":"run","content":[{"type":"text","text":"out"},{"type":"y","z":[]}],"is_error":true,"x":5},`+
		`{"type":"raw","raw_type":"text","data":"t"}`+
		`],"time":"2026-01-02T03:04:05.000000006Z","metadata":{"a":[1,2.5,"x",null,true,{"b":12345678901234567890}]},"x":6}`)
}

// fatalOnly lets decode be called where there is no test.
type fatalOnly struct{ testing.TB }

func (*fatalOnly) Helper()                      {}
func (*fatalOnly) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

func TestDecodeKeepsNothing(t *testing.T) {
	want := everyBlock()
	data := []byte(encode(t, want))
	got, err := DecodeMessage(data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = 'X'
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the message changed with its data (-want +got):\n%s", cmp.Diff(want, got, show))
	}
	if !json.Valid(got.ToolUses()[0].Input) {
		t.Error("the input changed with the data")
	}
}
