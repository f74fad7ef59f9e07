package session

import (
	"context"
	"strconv"
	"unicode/utf8"
)

// MinResultBytes is the least that a ToolResultTruncator can be told to leave
// of a result.
const MinResultBytes = 64

// ToolResultTruncatorOptions configures a ToolResultTruncator.
type ToolResultTruncatorOptions struct {
	// MaxBytes is how many bytes of text a result is shown with at most, the
	// mark for what is left out included. It must be MinResultBytes or more.
	MaxBytes int

	// Head and Tail are how many bytes of the start and of the end of a longer
	// text are shown at most. Default, if both are 0: of what fits beside the
	// mark, two thirds and one third. If they and the mark are more than
	// MaxBytes, both are made smaller in proportion.
	Head, Tail int
}

// ToolResultTruncator shows a history with the long texts of tool results cut
// short: the head and the tail stay, cut between characters, with a mark such
// as "[… 12,345 bytes left out …]" on a line of its own between.
//
// A result's limit is for all its text blocks together; blocks that are left
// out whole are gone. Other blocks, such as images, stay. Each message is cut
// by itself, so one that was shown is shown the same from then on. No message
// is dropped. Pinned messages stay whole.
type ToolResultTruncator struct {
	max, head, tail int
}

// NewToolResultTruncator returns a ToolResultTruncator. If MaxBytes is less
// than MinResultBytes, or Head or Tail is negative: ErrInvalidOption.
func NewToolResultTruncator(opts ToolResultTruncatorOptions) (*ToolResultTruncator, error) {
	if opts.MaxBytes < MinResultBytes {
		return nil, invalidPolicy("truncate", "MaxBytes is %d, less than %d", opts.MaxBytes, MinResultBytes)
	}
	if opts.Head < 0 || opts.Tail < 0 {
		return nil, invalidPolicy("truncate", "Head is %d, Tail is %d: negative", opts.Head, opts.Tail)
	}
	return &ToolResultTruncator{opts.MaxBytes, opts.Head, opts.Tail}, nil
}

// Select returns the view of messages: messages itself if no result is too
// long, else a new slice in which only the messages with such results are new.
// Its error is nil.
func (m *ToolResultTruncator) Select(_ context.Context, messages []Message) ([]Message, error) {
	return m.reshape(messages), nil
}

func (m *ToolResultTruncator) locate(_ context.Context, messages []Message) ([]Message, []int, error) {
	return m.reshape(messages), positions(0, len(messages)), nil
}

func (m *ToolResultTruncator) reshape(messages []Message) []Message {
	view := messages[:len(messages):len(messages)]
	for i := range messages {
		content, changed := m.content(messages[i].Content)
		if !changed || Pinned(messages[i]) {
			continue
		}
		if &view[0] == &messages[0] {
			view = append([]Message(nil), messages...)
		}
		view[i].Content = content
	}
	return view
}

// content returns content with its long results cut, and whether there are any.
func (m *ToolResultTruncator) content(content []Block) ([]Block, bool) {
	changed := false
	for i, b := range content {
		r, ok := b.(*ToolResultBlock)
		if !ok {
			continue
		}
		total := textBytes(r.Content)
		if total <= m.max {
			continue
		}
		if !changed {
			content, changed = append([]Block(nil), content...), true
		}
		short := *r
		short.Content = m.cut(r.Content, total)
		content[i] = &short
	}
	return content, changed
}

func textBytes(content []Block) (total int) {
	for _, b := range content {
		if t, ok := b.(*TextBlock); ok {
			total += len(t.Text)
		}
	}
	return total
}

// cut returns the blocks of a result whose texts have total bytes, more than
// the limit, with only the head and the tail of the texts.
func (m *ToolResultTruncator) cut(content []Block, total int) []Block {
	var (
		head, tail = m.parts(total)
		short      []Block
		mark       *TextBlock // the block that the mark goes into, with the text before it
		afterMark  string
		gone       int
		before     int // bytes of the texts before
	)
	for _, b := range content {
		t, ok := b.(*TextBlock)
		if !ok {
			short = append(short, b)
			continue
		}
		first := ""
		if mark == nil {
			first = truncateText(t.Text, head-before)
		}
		rest := t.Text[len(first):]
		before += len(t.Text)
		last := truncateHead(rest, before-(total-tail))
		if mark != nil && len(last) < len(t.Text) && isBlank(last) {
			last = "" // a block of white space alone is refused by providers
		}
		gone += len(rest) - len(last)
		switch {
		case rest == "" || len(last) == len(t.Text):
			short = append(short, b)
		case mark == nil:
			mark, afterMark = &TextBlock{Text: first, unknown: t.unknown}, last
			short = append(short, mark)
		case last != "":
			short = append(short, &TextBlock{Text: last, unknown: t.unknown})
		}
	}
	mark.Text = joinMarked(mark.Text, gone, afterMark)
	return short
}

const markStart, markEnd = "[… ", " bytes left out …]"

func joinMarked(head string, gone int, tail string) string {
	if head != "" {
		head += "\n"
	}
	if tail != "" {
		tail = "\n" + tail
	}
	return head + markStart + withCommas(gone) + markEnd + tail
}

// parts returns how many bytes of the head and of the tail of a text of total
// bytes are shown at most.
func (m *ToolResultTruncator) parts(total int) (head, tail int) {
	room := m.max - len(joinMarked("", total, "")) - len("\n\n")
	head, tail = m.head, m.tail
	if head == 0 && tail == 0 {
		head, tail = 2*room, room
	}
	if sum := head + tail; sum > room {
		head, tail = int(float64(room)*float64(head)/float64(sum)), int(float64(room)*float64(tail)/float64(sum))
	}
	return head, tail
}

// withCommas writes n, which is not negative, with a comma before each three
// digits.
func withCommas(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// truncateHead returns the longest suffix of s of at most limit bytes that does
// not begin inside a character.
func truncateHead(s string, limit int) string {
	i := len(s) - min(max(limit, 0), len(s))
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// Reduce returns a ToolResultTruncator with a lower MaxBytes: the highest of a
// quarter, a sixteenth and so on that halves view, else the lowest. If no limit
// leaves fewer tokens than view, by EstimateTokens: ErrCannotShrink.
func (m *ToolResultTruncator) Reduce(_ context.Context, messages, view []Message) (HistoryPolicy, error) {
	var lowest *ToolResultTruncator
	size := EstimateTokens(view)
	for limit := m.max; limit > MinResultBytes; {
		limit = max(limit/4, MinResultBytes)
		reduced := &ToolResultTruncator{limit, m.head, m.tail}
		n := EstimateTokens(reduced.reshape(messages))
		if n <= size/2 {
			return reduced, nil
		}
		if n < size {
			lowest = reduced
		}
	}
	if lowest == nil {
		return nil, errCannotShrink()
	}
	return lowest, nil
}
