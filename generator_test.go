package session

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// messageGen generates messages that AppendMessage accepts.
func messageGen() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		m := Message{
			ID:      textGen().Draw(t, "id"),
			Role:    Role(rapid.OneOf(rapid.SampledFrom([]string{"user", "assistant", "tool", "r\"x"}), rapid.StringN(1, 5, -1)).Draw(t, "role")),
			Content: contentGen(2).Draw(t, "content"),
			unknown: unknownGen().Draw(t, "unknown"),
		}
		if rapid.Bool().Draw(t, "has time") {
			m.Time = timeGen().Draw(t, "time")
		}
		if rapid.Bool().Draw(t, "has metadata") {
			m.Metadata = rapid.MapOfN(textGen(), valueGen(3), 0, 4).Draw(t, "metadata")
		}
		return m
	})
}

func messagesGen() *rapid.Generator[[]Message] { return rapid.SliceOfN(messageGen(), 0, 6) }

func textGen() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Just(""),
		rapid.StringN(0, 20, -1),
		rapid.SampledFrom([]string{
			"plain text that is longer than a few words", "a<b && c>d", "\u2028\u2029", "\x00\x01\x1f\x7f",
			"\"\\/\b\f\n\r\t", "é世界🎉", "\uFFFD", `\u003c`, "1234567\n", "12345678\"", "1234567\\x", "\ufeff",
		}),
	)
}

func timeGen() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		s := rapid.Int64Range(-62167219200+86400, 253402300799-86400).Draw(t, "s")
		ns := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 999999999)).Draw(t, "ns")
		zone := time.FixedZone("z", rapid.IntRange(-86399, 86399).Draw(t, "offset"))
		return time.Unix(s, ns).In(zone)
	})
}

func contentGen(depth int) *rapid.Generator[[]Block] {
	return rapid.OneOf(
		rapid.Just([]Block(nil)),
		rapid.Just([]Block{}),
		rapid.SliceOfN(blockGen(depth), 1, 1),
		rapid.SliceOfN(blockGen(depth), 0, 4),
	)
}

func blockGen(depth int) *rapid.Generator[Block] {
	return rapid.Custom(func(t *rapid.T) Block {
		text := func(name string) string { return textGen().Draw(t, name) }
		unknown := unknownGen().Draw(t, "unknown")
		switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
		case kind == 1:
			return &ThinkingBlock{Text: text("text"), Signature: text("signature"), Redacted: bytesGen().Draw(t, "redacted"), unknown: unknown}
		case kind == 2:
			return &MediaBlock{Type: MediaType(text("type")), MIMEType: text("mime"), Name: text("name"),
				Data: bytesGen().Draw(t, "data"), SourceURI: text("uri"), unknown: unknown}
		case kind == 3:
			b := &ToolUseBlock{ID: text("id"), Name: text("name"), unknown: unknown}
			if rapid.Bool().Draw(t, "has input") {
				b.Input = json.RawMessage(rawGen(3).Draw(t, "input"))
			}
			return b
		case kind == 4 && depth > 0:
			return &ToolResultBlock{ToolUseID: text("id"), Name: text("name"), Content: contentGen(depth-1).Draw(t, "content"),
				IsError: rapid.Bool().Draw(t, "error"), unknown: unknown}
		case kind == 5:
			return rawBlockGen().Draw(t, "raw")
		}
		return &TextBlock{Text: text("text"), unknown: unknown}
	})
}

func rawBlockGen() *rapid.Generator[*RawBlock] {
	return rapid.Custom(func(t *rapid.T) *RawBlock {
		kind := rapid.SampledFrom([]string{"citation", "text", "raw", "tool_result", "q\"é", "\x00"}).Draw(t, "type")
		data := rapid.OneOf(rawGen(3), rapid.Custom(func(t *rapid.T) string {
			member := `"type":` + rapid.SampledFrom([]string{strconv.Quote("citation"), `"te\u0078t"`, `"raw"`, `null`, `1`}).Draw(t, "own")
			space := rapid.SampledFrom([]string{"", " ", "\n", "\r"}).Draw(t, "space")
			return "{" + space + `"a":` + rawGen(1).Draw(t, "a") + "," + member + "}"
		})).Draw(t, "data")
		return &RawBlock{Type: kind, Data: json.RawMessage(data)}
	})
}

func bytesGen() *rapid.Generator[[]byte] {
	return rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 20))
}

// rawGen generates JSON values with all the white space and spellings that
// JSON allows.
func rawGen(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		space := func() string {
			return rapid.SampledFrom([]string{"", "", "", " ", "\n", "\r\n\t"}).Draw(t, "space")
		}
		var s string
		switch kind := rapid.IntRange(0, 4).Draw(t, "kind"); {
		case kind == 1:
			s = rapid.SampledFrom([]string{"0", "-0", "9007199254740993", "1e2", "-1.50E+10", "1e400", "18446744073709551615",
				"12345678901234567890123456789012345678", "0.1000000000000000055511151231257827"}).Draw(t, "number")
		case kind == 2:
			s = rawStringGen().Draw(t, "string")
		case kind == 3 && depth > 0:
			items := rapid.SliceOfN(rawGen(depth-1), 0, 3).Draw(t, "items")
			s = "[" + space() + strings.Join(items, ","+space()) + "]"
		case kind == 4 && depth > 0:
			var members []string
			for range rapid.IntRange(0, 3).Draw(t, "members") {
				members = append(members, rawStringGen().Draw(t, "key")+space()+":"+rawGen(depth-1).Draw(t, "value"))
			}
			s = "{" + strings.Join(members, ","+space()) + space() + "}"
		default:
			s = rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
		}
		return space() + s + space()
	})
}

func rawStringGen() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if rapid.Bool().Draw(t, "odd") {
			return rapid.SampledFrom([]string{`"\u003c\/"`, `"\ud83d"`, `"\ud83d\ude00"`, `"z"`, `"a"`, `"type"`, `"<&>` + "\u2028" + `"`}).Draw(t, "text")
		}
		quoted, _ := appendString(nil, textGen().Draw(t, "text"))
		return string(quoted)
	})
}

// unknownGen generates what a decoder keeps of members that it doesn't know.
func unknownGen() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "", "", `"x":1`, `"cache_control":{"type": "ephemeral"},"x":[]`, `"\u0078":"\n","x":null`})
}

// valueGen generates metadata values, most of them not canonical.
func valueGen(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind == 0:
			return textGen().Draw(t, "text")
		case kind == 1:
			return rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 3)).Draw(t, "int")
		case kind == 2:
			return rapid.Uint64().Draw(t, "uint")
		case kind == 3:
			f := rapid.OneOf(rapid.Float64(), rapid.Map(rapid.Uint64(), math.Float64frombits)).Draw(t, "float")
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return math.Copysign(0, -1)
			}
			return f
		case kind == 4:
			return rapid.Float32Range(-1e30, 1e30).Draw(t, "float32")
		case kind == 5:
			return json.Number(rapid.StringMatching(`-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?`).Draw(t, "number"))
		case kind == 6 && depth > 0:
			return rapid.SliceOfN(valueGen(depth-1), 0, 3).Draw(t, "array")
		case kind == 7 && depth > 0:
			return rapid.MapOfN(textGen(), valueGen(depth-1), 0, 3).Draw(t, "object")
		case kind == 8:
			n := rapid.IntRange(-9, 9).Draw(t, "n")
			return rapid.SampledFrom([]any{[]string{"a", "\n"}, map[string]float64{"b": 1, "a": 2}, &n, []byte("abc"), [2]int8{1, 2},
				struct {
					A int `json:"a"`
					B []string
				}{n, nil}, time.Unix(int64(n), 0).UTC(), json.RawMessage("{\n\"a\": 1e2}"), []any(nil), map[string]any(nil)}).Draw(t, "other")
		}
		return rapid.SampledFrom([]any{nil, true, false, []any{}, map[string]any{}}).Draw(t, "word")
	})
}
