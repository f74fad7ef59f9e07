package storetest

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

var badMessageRules = []rule{{
	"BadMessage/IsRefusedBySave",
	"Save of a message that can't be kept whole is ErrInvalidMessage and writes nothing, wherever in the history it stands.",
	nil, func(tb testing.TB, s *subject) {
		refuseBadMessages(tb, s, func(id string, messages []session.Message) error {
			return s.store.Save(s.ctx, id, messages)
		})
	},
}, {
	"BadMessage/IsRefusedByAppend",
	"Append of a message that can't be kept whole is ErrInvalidMessage and writes nothing, also when it is the last of a batch.",
	[]Feature{Log}, func(tb testing.TB, s *subject) {
		refuseBadMessages(tb, s, func(id string, messages []session.Message) error {
			_, err := s.log.Append(s.ctx, id, messages, nil)
			return err
		})
	},
}, {
	"BadMessage/IsRefusedByReplace",
	"Replace with a message that can't be kept whole is ErrInvalidMessage and writes nothing.",
	[]Feature{Log}, func(tb testing.TB, s *subject) {
		refuseBadMessages(tb, s, func(id string, messages []session.Message) error {
			_, err := s.log.Replace(s.ctx, id, messages, nil)
			return err
		})
	},
}}

// secret is content that no error text may show.
const secret = "sesame-42"

// badMessages returns, by what is wrong with them, messages that can't be kept.
func badMessages() map[string]session.Message {
	const bad = secret + "\xff"
	block := func(b session.Block) session.Message {
		return session.NewMessage(session.RoleAssistant, session.Text("fine"), b)
	}
	meta := func(v any) session.Message {
		m := session.UserText("fine")
		m.Metadata = map[string]any{"fine": 1, "bad": v}
		return m
	}
	at := func(t time.Time) session.Message { return session.Message{Role: session.RoleUser, Time: t} }
	cycle := map[string]any{}
	cycle["self"] = cycle
	var noText *session.TextBlock
	return map[string]session.Message{
		"no role":                       {},
		"role, UTF-8":                   {Role: bad},
		"message ID, UTF-8":             {Role: session.RoleUser, ID: bad},
		"year 10000":                    at(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)),
		"year -1":                       at(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)),
		"nil block":                     block(nil),
		"nil *TextBlock":                block(noText),
		"nil *ToolResultBlock":          block((*session.ToolResultBlock)(nil)),
		"text, UTF-8":                   block(session.Text(bad)),
		"text, surrogate":               block(session.Text("\xed\xa0\x80")),
		"thinking, UTF-8":               block(&session.ThinkingBlock{Text: bad}),
		"signature, UTF-8":              block(&session.ThinkingBlock{Signature: bad}),
		"media type, UTF-8":             block(&session.MediaBlock{Type: bad}),
		"MIME type, UTF-8":              block(&session.MediaBlock{MIMEType: bad}),
		"media name, UTF-8":             block(&session.MediaBlock{Name: bad}),
		"source URI, UTF-8":             block(&session.MediaBlock{SourceURI: bad}),
		"tool use ID, UTF-8":            block(&session.ToolUseBlock{ID: bad}),
		"tool name, UTF-8":              block(&session.ToolUseBlock{Name: bad}),
		"input, not JSON":               block(session.ToolUse("1", "t", "{"+secret)),
		"input, two values":             block(session.ToolUse("1", "t", `{} {}`)),
		"input, white space":            block(session.ToolUse("1", "t", ` `)),
		"input, UTF-8":                  block(session.ToolUse("1", "t", `{"a":"`+bad+`"}`)),
		"result of, UTF-8":              block(&session.ToolResultBlock{ToolUseID: bad}),
		"result name, UTF-8":            block(&session.ToolResultBlock{Name: bad}),
		"nil block in a result":         block(&session.ToolResultBlock{Content: []session.Block{session.Text("fine"), nil}}),
		"nil *TextBlock in a result":    block(&session.ToolResultBlock{Content: []session.Block{noText}}),
		"text in a result, UTF-8":       block(session.ToolResult("1", "t", bad)),
		"raw type, UTF-8":               block(&session.RawBlock{Type: bad, Data: json.RawMessage(`{}`)}),
		"raw data, empty":               block(&session.RawBlock{Type: "x"}),
		"raw data, not JSON":            block(&session.RawBlock{Type: "x", Data: json.RawMessage(secret)}),
		"raw data, UTF-8":               block(&session.RawBlock{Type: "x", Data: json.RawMessage(`"` + bad + `"`)}),
		"metadata, NaN":                 meta(math.NaN()),
		"metadata, infinity":            meta(math.Inf(-1)),
		"metadata, channel":             meta(make(chan int)),
		"metadata, function":            meta(func() {}),
		"metadata, cycle":               meta(cycle),
		"metadata, deep NaN":            meta([]any{map[string]any{"x": float32(math.NaN())}}),
		"metadata, not a number":        meta(json.Number(secret)),
		"metadata, UTF-8":               meta(bad),
		"metadata, UTF-8 in a key":      meta(map[string]any{bad: 1}),
		"metadata, UTF-8 in a []string": meta([]string{bad}),
	}
}

// refuseBadMessages gives write each bad message, alone and as the last of
// many.
func refuseBadMessages(tb testing.TB, s *subject, write func(id string, messages []session.Message) error) {
	tb.Helper()
	s.save(tb, id, "before")
	before := s.state(tb, id)
	absent := s.state(tb, "absent")
	for what, bad := range badMessages() {
		for _, messages := range [][]session.Message{
			{bad},
			append(userTexts("before"), bad),
			append(userTexts(numbered("long ", 50)...), bad),
		} {
			for _, to := range []string{id, "absent"} {
				err := write(to, messages)
				wantErr(tb, err, is(session.ErrInvalidMessage), "%s, message %d", what, len(messages))
				if err != nil && strings.Contains(err.Error(), secret) {
					tb.Errorf("%s: error text %q shows message content", what, err)
				}
			}
		}
	}
	want(tb, s.state(tb, id), before, "the session after refused writes")
	want(tb, s.state(tb, "absent"), absent, "the absent session after refused writes")
}
