package session

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func truncatorOf(t testing.TB, opts ToolResultTruncatorOptions) *ToolResultTruncator {
	t.Helper()
	m, err := NewToolResultTruncator(opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTruncatorOptions(t *testing.T) {
	for _, opts := range []ToolResultTruncatorOptions{
		{}, {MaxBytes: MinResultBytes - 1}, {MaxBytes: 100, Head: -1}, {MaxBytes: 100, Tail: -1},
	} {
		if _, err := NewToolResultTruncator(opts); !errors.Is(err, ErrInvalidOption) {
			t.Errorf("NewToolResultTruncator(%+v): %v, want ErrInvalidOption", opts, err)
		}
	}
}

func resultOf(content ...Block) []Message {
	messages := []Message{UserText("look"), NewMessage(RoleAssistant, ToolUse("t", "look", "{}")),
		ToolResults(&ToolResultBlock{ToolUseID: "t", Name: "look", IsError: true, Content: content})}
	for i := range messages {
		messages[i].ID = string(rune('a' + i))
	}
	return messages
}

func TestTruncatorKeepsHeadAndTail(t *testing.T) {
	wide := strings.Repeat("界", 400) // 1,200 bytes
	number := strings.Repeat("0123456789", 10_000)
	picture := image(9)
	for _, test := range []struct {
		name    string
		opts    ToolResultTruncatorOptions
		content []Block
		want    []Block
	}{
		{"short enough", ToolResultTruncatorOptions{MaxBytes: 1200}, []Block{Text(wide)}, []Block{Text(wide)}},
		{"head and tail", ToolResultTruncatorOptions{MaxBytes: 100, Head: 10, Tail: 5}, []Block{Text(number)},
			[]Block{Text("0123456789\n[… 99,985 bytes left out …]\n56789")}},
		{"between characters", ToolResultTruncatorOptions{MaxBytes: 100, Head: 10, Tail: 5}, []Block{Text(wide)},
			[]Block{Text("界界界\n[… 1,188 bytes left out …]\n界")}},
		{"head alone", ToolResultTruncatorOptions{MaxBytes: 100, Head: 10}, []Block{Text(number)},
			[]Block{Text("0123456789\n[… 99,990 bytes left out …]")}},
		{"tail alone", ToolResultTruncatorOptions{MaxBytes: 100, Tail: 10}, []Block{Text(number)},
			[]Block{Text("[… 99,990 bytes left out …]\n0123456789")}},
		{"by default two to one", ToolResultTruncatorOptions{MaxBytes: 64}, []Block{Text(number)},
			[]Block{Text("01234567890123456789\n[… 99,970 bytes left out …]\n0123456789")}},
		{"more than there is room for", ToolResultTruncatorOptions{MaxBytes: 64, Head: 2000, Tail: 1000}, []Block{Text(number)},
			[]Block{Text("01234567890123456789\n[… 99,970 bytes left out …]\n0123456789")}},
		{"several blocks", ToolResultTruncatorOptions{MaxBytes: 100, Head: 10, Tail: 15},
			[]Block{Text("first"), picture, Text("second " + wide), Text(wide), picture, Text(wide + " last"), Text("end")},
			[]Block{Text("first"), picture, Text("secon\n[… 3,596 bytes left out …]"), picture, Text("界界 last"), Text("end")}},
		{"no block of white space alone", ToolResultTruncatorOptions{MaxBytes: 100, Head: 10, Tail: 5},
			[]Block{Text(number), Text(number + "    "), Text("e")},
			[]Block{Text("0123456789\n[… 199,994 bytes left out …]"), Text("e")}},
		{"only images", ToolResultTruncatorOptions{MaxBytes: 64}, []Block{picture, picture}, []Block{picture, picture}},
	} {
		t.Run(test.name, func(t *testing.T) {
			messages := resultOf(test.content...)
			view := selected(t, truncatorOf(t, test.opts), messages)
			if want := resultOf(test.want...); !EqualMessages(view, want) {
				t.Errorf("view = %v, want %v", viewTexts(view[2:]), viewTexts(want[2:]))
			}
		})
	}
}

// What is not changed is shared, so that a view of a long history costs little.
func TestTruncatorCopiesOnlyWhatItChanges(t *testing.T) {
	m := truncatorOf(t, ToolResultTruncatorOptions{MaxBytes: 64})
	messages := policyTurns(3, 1)
	if view := selected(t, m, messages); &view[0] != &messages[0] {
		t.Error("the view of short results is not the history")
	}
	messages[6].Content = []Block{ToolResult("1-0", "look", strings.Repeat("a", 100))}
	view := selected(t, m, messages)
	for i := range messages {
		if shared := view[i].Content[0] == messages[i].Content[0]; shared != (i != 6) {
			t.Errorf("message %d is shared: %v", i, shared)
		}
	}
	Pin(&messages[6])
	if view := selected(t, m, messages); view[6].Content[0] != messages[6].Content[0] {
		t.Error("a pinned result was cut")
	}
}

func TestTruncatorIsWithinItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var content []Block
		for range rapid.IntRange(1, 5).Draw(t, "blocks") {
			if rapid.IntRange(0, 4).Draw(t, "image") == 0 {
				content = append(content, image(3))
			}
			text := strings.Repeat(rapid.StringN(0, 9, -1).Draw(t, "text"), rapid.IntRange(0, 50).Draw(t, "times"))
			content = append(content, Text(text))
		}
		opts := ToolResultTruncatorOptions{MaxBytes: rapid.IntRange(MinResultBytes, 400).Draw(t, "max"),
			Head: rapid.IntRange(0, 300).Draw(t, "head"), Tail: rapid.IntRange(0, 300).Draw(t, "tail")}
		m, err := NewToolResultTruncator(opts)
		if err != nil {
			t.Fatal(err)
		}
		before := resultOf(content...)
		view, err := m.Select(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		cut := view[2].ToolResults()[0]
		images := func(content []Block) int { return len(blocksOf[*MediaBlock](content)) }
		all, text := joinAll(content), joinAll(cut.Content)
		switch {
		case len(text) > opts.MaxBytes || !utf8.ValidString(text):
			t.Fatalf("%d bytes, %q, valid: %v", len(text), text, utf8.ValidString(text))
		case images(cut.Content) != images(content):
			t.Fatalf("%d images of %d", images(cut.Content), images(content))
		case len(all) <= opts.MaxBytes && text != all:
			t.Fatalf("%q was changed to %q", all, text)
		}
		if len(all) > opts.MaxBytes {
			head, rest, marked := strings.Cut(text, markStart)
			_, tail, closed := strings.Cut(rest, markEnd)
			if !marked || !closed || !strings.HasPrefix(all, strings.TrimSuffix(head, "\n")) || !strings.HasSuffix(all, strings.TrimPrefix(tail, "\n")) {
				t.Fatalf("%q was cut to %q", all, text)
			}
		}
		if slices.ContainsFunc(cut.Content, func(b Block) bool {
			text, ok := b.(*TextBlock)
			return ok && text.Text == "" && !slices.Contains(content, b)
		}) {
			t.Fatalf("an empty block was left of %v", viewTexts(before))
		}
	})
}

// joinAll joins the texts of a result without anything between.
func joinAll(content []Block) string {
	s := ""
	for _, b := range blocksOf[*TextBlock](content) {
		s += b.Text
	}
	return s
}

func TestWithCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 12345: "12,345", 1234567: "1,234,567"} {
		if got := withCommas(n); got != want {
			t.Errorf("withCommas(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestTruncatorReduce(t *testing.T) {
	messages := resultOf(Text(strings.Repeat("a", 100_000)))
	var policy Reducer = truncatorOf(t, ToolResultTruncatorOptions{MaxBytes: 40_000})
	view := selected(t, policy, messages)
	var sizes []int
	for {
		reduced, err := policy.Reduce(t.Context(), messages, view)
		if errors.Is(err, ErrCannotShrink) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		policy, view = reduced.(Reducer), selected(t, reduced, messages)
		sizes = append(sizes, textBytes(view[2].ToolResults()[0].Content))
	}
	if want := []int{9999, 2499, 624, 154, 63}; !slices.Equal(sizes, want) {
		t.Errorf("bytes of the result = %d, want %d", sizes, want)
	}
}
