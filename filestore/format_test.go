package filestore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/holdfast-go/session"
)

// TestLineRoundTrip parses what append has written, in both ways.
func TestLineRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringN(0, 20, -1), rapid.StringMatching(`[a-z0-9-]{0,20}`))
		at := func(label string) time.Time {
			return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, label), rapid.Int64Range(0, 999_999_999).Draw(t, label)).UTC()
		}
		l := line{ts: at("ts"), keep: -1, commit: text.Draw(t, "commit"), base: text.Draw(t, "base"), tool: text.Draw(t, "tool")}
		l.kind = rapid.SampledFrom([]Kind{KindMessage, KindToolResult, KindRollback, kindMeta}).Draw(t, "kind")
		l.more = rapid.IntRange(0, 1000).Draw(t, "more")
		l.ms = rapid.Int64Range(0, 1e9).Draw(t, "ms")
		if rapid.Bool().Draw(t, "expires") {
			l.expires = at("expires")
			l.updated = at("updated")
			l.record = rapid.SliceOf(rapid.Byte()).Draw(t, "record")
		}
		switch l.kind {
		case KindRollback:
			l.dropped, l.keep = rapid.IntRange(0, 1e6).Draw(t, "dropped"), rapid.IntRange(0, 1e6).Draw(t, "keep")
		case kindMeta:
			l.meta = rapid.SampledFrom([][]byte{nil, []byte("null"), []byte(`{"title":"a{\"}"}`)}).Draw(t, "meta")
		default:
			m, err := session.AppendMessage(nil, session.UserText(text.Draw(t, "text")))
			if err != nil {
				t.Skip(err)
			}
			l.message = m
		}
		b := l.append(nil)
		if bytes.Count(b, []byte{'\n'}) != 1 || b[len(b)-1] != '\n' || !json.Valid(b) {
			t.Fatalf("line %q is not one line of JSON", b)
		}
		b = b[:len(b)-1]
		if !wellFormed(b) {
			t.Errorf("wellFormed(%q) = false", b)
		}
		own, ok := parseLine(b)
		if diff := cmp.Diff(l, own, cmp.AllowUnexported(line{})); !ok || diff != "" {
			t.Errorf("parseLine(%q) = %t (-want +got):\n%s", b, ok, diff)
		}
		foreign, ok := parseForeign(b)
		if diff := cmp.Diff(own, foreign, cmp.AllowUnexported(line{})); !ok || diff != "" {
			t.Errorf("parseForeign(%q) = %t (-own +foreign):\n%s", b, ok, diff)
		}
		message, counts := messageIn(b)
		if counts != l.kind.hasMessage() || !bytes.Equal(message, l.message) {
			t.Errorf("messageIn(%q) = %q, %t", b, message, counts)
		}
		for i := range b { // no part of a line passes for one
			if wellFormed(b[:i]) {
				t.Errorf("wellFormed(%q) = true", b[:i])
			}
		}
	})
}

func seedLines(f *testing.F) {
	for _, s := range []string{
		`{"ts":"2026-12-01T03:26:34.5Z","kind":"message","commit":"57-0123456789abcdef","message":{"role":"user","content":[]}}`,
		`{"ts":"2026-12-01T03:26:34Z","kind":"tool_result","tool":"x","ms":12,"more":1,"message":{"role":"tool"}}`,
		`{"ts":"2026-12-01T03:26:34Z","kind":"rollback","dropped":3,"keep":17,"commit":"a","base":"b","record":"AAE="}`,
		`{"ts":"2026-12-01T03:26:34Z","kind":"meta","commit":"a","expires":"2026-12-01T03:26:34Z","meta":{"title":"\u0041"}}`,
		`{"kind":"notice","text":"a\"b"}`, `{"role":"user","content":"x"}`, `{"kind":"message","message":null}`, `{}`, `[]`, ``, `{"ts":1}`,
		"{\"kind\":\"message\",\"message\":{\"a\":\"\x00\"}}", `{"more":-1}`, `{"more":01}`, `{"kind":"message","message":{}}{}`,
	} {
		f.Add([]byte(s))
	}
}

// FuzzParseLine checks that parsing panics on nothing, takes no more than JSON
// for whole, and reads what it reads fast like the slow way does.
func FuzzParseLine(f *testing.F) {
	seedLines(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.IndexByte(b, '\n') >= 0 {
			return
		}
		var own line
		own.keep = -1
		l, ok := parseLine(b)
		messageIn(b)
		if json.Valid(b) && bytes.HasPrefix(b, []byte{'{'}) && !wellFormed(bytes.TrimSpace(b)) {
			t.Errorf("wellFormed(%q) = false", b)
		}
		if !ok || !json.Valid(b) || !own.parseOwn(b) || bytes.Count(b, []byte(`"message"`))+bytes.Count(b, []byte(`"meta"`)) > 1 {
			return
		}
		if foreign, ok := parseForeign(b); !ok || !cmp.Equal(l, foreign, cmp.AllowUnexported(line{})) {
			if names := []string{"ts", "kind", "tool", "ms", "dropped", "keep", "more", "commit", "base", "updated", "expires", "record"}; repeated(b, names) {
				return // encoding/json merges members in its own ways
			}
			t.Errorf("%q:\nown     %+v\nforeign %+v %t", b, l, foreign, ok)
		}
	})
}

func repeated(b []byte, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return bytes.Count(bytes.ToLower(b), []byte(`"`+n+`"`)) > 1 })
}

// TestScanLines reads lines of all lengths around those of the buffers.
func TestScanLines(t *testing.T) {
	var b []byte
	var want []string
	for i, n := range []int{0, 1, 5, scanChunk - 10, 0, scanChunk, 3, 5 * scanChunk, 16<<10 - 1, 16 << 10, 40_000, 0, 7} {
		l := strings.Repeat(fmt.Sprint(i%10), n)
		want = append(want, l)
		b = append(append(b, l...), '\n')
	}
	for _, tail := range []string{"", "tail"} {
		var got []string
		var whole []bool
		r := bytes.NewReader(append(slices.Clone(b), tail...))
		err := scanLines(t.Context(), r, 0, r.Size(), func(b []byte, at int64, w bool) bool {
			got, whole = append(got, string(b)), append(whole, w)
			return true
		})
		wants := want
		if tail != "" {
			wants = append(want[:len(want):len(want)], tail)
		}
		if err != nil || !slices.Equal(got, wants) || slices.Contains(whole[:len(want)], false) || tail != "" && whole[len(want)] {
			t.Errorf("scanLines: %d lines, %v, want %d", len(got), err, len(wants))
		}
	}
	var got []string
	err := scanBack(t.Context(), bytes.NewReader(b), int64(len(b)), func(b []byte, at int64) bool {
		got = append(got, string(b))
		return true
	})
	slices.Reverse(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("scanBack: %d lines, %v, want %d", len(got), err, len(want))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := scanLines(ctx, bytes.NewReader(b), 0, 10, nil); err == nil {
		t.Error("scanLines with a context that is done = nil")
	}
}

func TestWellFormed(t *testing.T) {
	for _, s := range []string{`{}`, `{"a":"\"}"}`, `{"a":[{},"]"]}`, `{"text":"a long text with 'quotes' and \\"}`, "{\t\"a\" : 1}", `{"a":"é €"}`} {
		if !wellFormed([]byte(s)) {
			t.Errorf("wellFormed(%q) = false", s)
		}
	}
	for _, s := range []string{"", "{", "}", "[]", "1", `{}}`, `{}{}`, `{"a}`, `{"a":"\"}`, "{\"a\":\"\x00\"}", "{\"a text of some length\":\"and one \x00 in it\"}", "{\x00}", `{"a":"b{"a":"b"}`} {
		if wellFormed([]byte(s)) {
			t.Errorf("wellFormed(%q) = true", s)
		}
	}
}
