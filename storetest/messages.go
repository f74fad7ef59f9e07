package storetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var messageRules = []rule{{
	"Messages/KeepEveryField",
	"Every field of every block survives a store, and a second one.",
	nil, messagesKeepEveryField,
}, {
	"Messages/KeepUnknownMembers",
	"Members of a message or of a block that this version doesn't know survive.",
	nil, messagesKeepUnknownMembers,
}, {
	"Messages/KeepRawBlocks",
	"A block of a type that this version doesn't know comes back whole, byte for byte.",
	nil, messagesKeepRawBlocks,
}, {
	"Messages/KeepToolInputByteForByte",
	"The input of a tool call comes back with its white space, key order, digits and escapes.",
	nil, messagesKeepToolInputByteForByte,
}, {
	"Messages/KeepText",
	"Text comes back as it went in: no HTML escapes, no replaced runes, nothing trimmed.",
	nil, messagesKeepText,
}, {
	"Messages/KeepTimes",
	"The time of a message is kept to the nanosecond and comes back in UTC.",
	nil, messagesKeepTimes,
}, {
	"Messages/KeepRolesAndIDs",
	"Any role and any message ID is kept; IDs need not be unique.",
	nil, messagesKeepRolesAndIDs,
}, {
	"Messages/MakeMetadataCanonical",
	"Metadata comes back in canonical form, with the same Go types from every store.",
	nil, messagesMakeMetadataCanonical,
}, {
	"Messages/TurnEmptyIntoNil",
	"Empty slices and maps inside a message come back nil.",
	nil, messagesTurnEmptyIntoNil,
}, {
	"Messages/HaveTheSameBytesEveryTime",
	"What is loaded and saved again encodes to the same bytes.",
	nil, messagesHaveTheSameBytesEveryTime,
}}

// hops stores messages in one session, what is loaded from it in a second one,
// and returns what is loaded from that. Both must be wants.
func (s *subject) hops(tb testing.TB, messages, wants []session.Message, what string) []session.Message {
	tb.Helper()
	for hop := range 2 {
		to := fmt.Sprint(what, " ", hop+1)
		if s.log != nil && s.opts.has(Log) && hop == 0 {
			_, err := s.log.Append(s.ctx, to, messages, nil)
			must(tb, err, "Append of %s", what)
		} else {
			must(tb, s.store.Save(s.ctx, to, messages), "Save of %s", what)
		}
		messages = s.load(tb, to)
		wantHistory(tb, messages, wants, "%s, loaded from store %d", what, hop+1)
	}
	return messages
}

// hop is hops for one message of these blocks that is in canonical form.
func (s *subject) hop(tb testing.TB, what string, blocks ...session.Block) {
	tb.Helper()
	messages := []session.Message{session.NewMessage(session.RoleAssistant, blocks...)}
	s.hops(tb, session.CloneMessages(messages), messages, what)
}

func messagesKeepEveryField(tb testing.TB, s *subject) {
	s.hops(tb, conversation(), conversation(), "a conversation")
}

func messagesKeepUnknownMembers(tb testing.TB, s *subject) {
	const member = `"x_future":{"b":1,  "a":[2.50,"<"]}`
	var messages []session.Message
	members := 0
	for _, m := range conversation()[:4] {
		line := render(m)
		members += 1 + strings.Count(line, `"type":"`)
		line = strings.ReplaceAll(line, `"type":"`, member+`,"type":"`)
		m, err := session.DecodeMessage([]byte("{" + member + "," + line[1:]))
		must(tb, err, "DecodeMessage with unknown members")
		messages = append(messages, m)
	}
	found := 0
	for _, m := range s.hops(tb, messages, canonical(tb, messages), "unknown members") {
		found += strings.Count(render(m), `[2.50,"<"]`)
	}
	want(tb, found, members, "unknown members found after two stores")
}

func messagesKeepRawBlocks(tb testing.TB, s *subject) {
	for i, data := range []string{
		`{"type":"x", "z":1,  "a":[1.0,1e2,9007199254740993]}`, `{}`, `null`, `[1, 2]`, `"text"`, ` {"outer": "space"} `,
		"{\n\t\"on\": \"lines\"\r\n}", `{"html":"<b>&</b>","esc":"\u003c\u00e9\/"}`, `{"dup":1,"dup":2}`, `{"type":"text","text":"not text"}`,
	} {
		s.hop(tb, fmt.Sprint("raw block ", i), &session.RawBlock{Type: "x.future", Data: json.RawMessage(data)})
	}
	m, err := session.DecodeMessage([]byte(`{"role":"assistant","content":[{"type":"hologram", "n":1.50 ,"of":{"b":1,"a":2}}]}`))
	must(tb, err, "DecodeMessage with an unknown block")
	s.hops(tb, []session.Message{m}, []session.Message{session.NewMessage(session.RoleAssistant, &session.RawBlock{
		Type: "hologram", Data: json.RawMessage(`{"type":"hologram", "n":1.50 ,"of":{"b":1,"a":2}}`),
	})}, "decoded raw block")
}

func messagesKeepToolInputByteForByte(tb testing.TB, s *subject) {
	for i, input := range []string{
		`{}`, `null`, `true`, `0`, `-0`, `1.0`, `1e400`, `1E+2`, `0.10`, `9007199254740993`, `123456789012345678901234567890`,
		`""`, `"a string"`, `[]`, `[1, 2,3]`, `{"z":1, "a":2}`, `{"a": "a<b && c>d"}`, `{"esc":"\u003c\u0026\u00e9\/\\"}`,
		`{"sep":"` + "\u2028\u2029" + `"}`, `{"dup":1,"dup":2}`, ` {"outer": "space"}  `, "{\n  \"on\": \"lines\"\n}", "\t1\r\n",
		`{"lone":"\ud83d"}`, `{"":{"":[[[]]]}}`, `"{\"json\": 1}"`, `{"input_text":"x"}`,
	} {
		s.hop(tb, fmt.Sprint("input ", i), session.ToolUse("tu_1", "tool", input))
	}
}

func messagesKeepText(tb testing.TB, s *subject) {
	for i, text := range []string{
		"", " ", "\n", "  outer \t\r\n", "<script>a && b</script> ch <- x", `\u003c \n \\ "quoted"`, "NUL \x00 and \x01\x1f\x7f\u0080",
		"\u2028\u2029", "\ufeffBOM", "\ufffd", "\U0001f389\U0001f468\u200d\U0001f469", "caf\u00e9 cafe\u0301", "\u202eright to left", "\U0010ffff\uffff",
		`{"type":"text"}`, strings.Repeat("long 世界 ", 20_000),
	} {
		s.hop(tb, fmt.Sprint("text ", i),
			session.Text(text),
			&session.ThinkingBlock{Text: text, Signature: text},
			&session.MediaBlock{Type: session.MediaType(text), MIMEType: text, Name: text, SourceURI: text},
			&session.ToolUseBlock{ID: text, Name: text},
			&session.ToolResultBlock{ToolUseID: text, Name: text, Content: []session.Block{session.Text(text)}},
		)
	}
}

func messagesKeepTimes(tb testing.TB, s *subject) {
	zone := time.FixedZone("", 5*3600+1800)
	var messages, wants []session.Message
	for _, t := range []time.Time{
		{}, time.Now(), time.Unix(0, 0), time.Unix(0, 1), time.Unix(-1, 999999999),
		time.Date(2026, 2, 28, 23, 59, 59, 999999999, time.UTC), time.Date(2026, 3, 1, 1, 0, 0, 123456789, zone),
		time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
	} {
		m := session.UserText(t.String())
		m.Time = t
		messages = append(messages, m)
		m.Time = t.UTC().Round(0)
		wants = append(wants, m)
	}
	s.hops(tb, messages, wants, "times")
}

func messagesKeepRolesAndIDs(tb testing.TB, s *subject) {
	var messages []session.Message
	for _, name := range []string{"user", "developer", "User", "x/y:z", "世界", " ", `"`, "\x00", "\n"} {
		m := session.UserText("same text")
		m.Role, m.ID = session.Role(name), name
		messages = append(messages, m, m)
	}
	messages = append(messages, session.NewMessage(session.RoleAssistant))
	s.hops(tb, messages, messages, "roles and IDs")
}

func messagesMakeMetadataCanonical(tb testing.TB, s *subject) {
	type usage struct {
		In     int `json:"in"`
		hidden int
		Out    *float32 `json:"out,omitempty"`
	}
	half := float32(0.5)
	given := map[string]any{
		"nil": nil, "bool": true, "string": "<&>\u2028\x00",
		"int": 7, "int8": int8(-8), "uint": uint(9), "int64": int64(math.MinInt64), "big int": int64(9007199254740993), "uint64": uint64(math.MaxUint64),
		"float 1": 1.0, "float": 0.1, "float32": half, "float 1e300": 1e300, "-0": math.Copysign(0, -1),
		"number": json.Number("12"), "point": json.Number("1.50"), "long": json.Number("0.12345678901234567890"),
		"huge": json.Number("1e400"), "integer": json.Number("123456789012345678901234567890"),
		"ints": []int{1, 2}, "nils": []any{nil}, "map": map[string]int{"b": 2, "a": 1}, "deep": map[string]any{"a": []any{map[string]any{"b": 1}}},
		"struct": usage{In: 3, hidden: 4, Out: &half}, "raw": json.RawMessage(`{"n": 1}`), "bytes": []byte{1, 2}, "time": time.Unix(0, 0).UTC(),
		"": "empty key", "k\"<\n": 1,
	}
	wants := map[string]any{
		"nil": nil, "bool": true, "string": "<&>\u2028\x00",
		"int": int64(7), "int8": int64(-8), "uint": int64(9), "int64": int64(math.MinInt64), "big int": int64(9007199254740993), "uint64": json.Number("18446744073709551615"),
		"float 1": 1.0, "float": 0.1, "float32": 0.5, "float 1e300": 1e300, "-0": math.Copysign(0, -1),
		"number": int64(12), "point": 1.5, "long": json.Number("0.12345678901234567890"),
		"huge": json.Number("1e400"), "integer": json.Number("123456789012345678901234567890"),
		"ints": []any{int64(1), int64(2)}, "nils": []any{nil}, "map": map[string]any{"b": int64(2), "a": int64(1)},
		"deep":   map[string]any{"a": []any{map[string]any{"b": int64(1)}}},
		"struct": map[string]any{"in": int64(3), "out": 0.5}, "raw": map[string]any{"n": int64(1)}, "bytes": "AQI=", "time": "1970-01-01T00:00:00Z",
		"": "empty key", "k\"<\n": int64(1),
	}
	for key, value := range given { // one by one, so that a failure is readable
		m, w := session.UserText(key), session.UserText(key)
		m.Metadata, w.Metadata = map[string]any{key: value}, map[string]any{key: wants[key]}
		s.hops(tb, []session.Message{m}, []session.Message{w}, fmt.Sprintf("metadata %q", key))
	}
	m, w := session.UserText("all"), session.UserText("all")
	m.Metadata, w.Metadata = given, wants
	s.hops(tb, []session.Message{m}, []session.Message{w}, "metadata")
}

func messagesTurnEmptyIntoNil(tb testing.TB, s *subject) {
	given := []session.Message{
		{Role: session.RoleUser, Content: []session.Block{}, Metadata: map[string]any{}},
		{Role: session.RoleTool, Content: []session.Block{
			&session.ThinkingBlock{Redacted: []byte{}},
			&session.MediaBlock{Data: []byte{}},
			&session.ToolUseBlock{Input: json.RawMessage{}},
			&session.ToolResultBlock{Content: []session.Block{}},
		}},
	}
	wants := []session.Message{
		{Role: session.RoleUser},
		{Role: session.RoleTool, Content: []session.Block{
			&session.ThinkingBlock{}, &session.MediaBlock{}, &session.ToolUseBlock{}, &session.ToolResultBlock{},
		}},
	}
	s.hops(tb, given, wants, "empty and nil")
}

func messagesHaveTheSameBytesEveryTime(tb testing.TB, s *subject) {
	encode := func(messages []session.Message) []byte {
		var all []byte
		for _, m := range messages {
			line, err := session.AppendMessage(all, m)
			must(tb, err, "AppendMessage")
			all = append(line, '\n')
		}
		return all
	}
	s.hops(tb, conversation(), conversation(), "a conversation")
	first := encode(s.load(tb, "a conversation 1"))
	for _, p := range s.peers(tb, 2) {
		for _, id := range []string{"a conversation 1", "a conversation 2"} {
			if got := encode(p.load(tb, id)); !bytes.Equal(got, first) {
				tb.Errorf("encoded history of %q:\ngot  %s\nwant %s", id, cut(string(got), 2000), cut(string(first), 2000))
			}
		}
	}
}
