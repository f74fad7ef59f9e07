package session

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how many arrays and objects may be open at once in a raw JSON
// value or in metadata, and how deep tool results may nest.
const maxDepth = 1000

// jsonError says what is wrong with a JSON text and where, without quoting it.
type jsonError struct {
	offset int
	what   string
}

func (e *jsonError) Error() string { return e.what + " at byte " + strconv.Itoa(e.offset) }

const (
	endOfData  = "unexpected end"
	badChar    = "unexpected character"
	badEscape  = "invalid escape"
	badControl = "control character in a string"
	badUTF8    = "invalid UTF-8"
	tooDeep    = "nested too deeply"
)

// unexpected is the error of a byte that can't stand at i.
func unexpected(data []byte, i int) error {
	if i >= len(data) {
		return &jsonError{len(data), endOfData}
	}
	return &jsonError{i, badChar}
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && isSpace(data[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// validateJSON returns nil if data is exactly one JSON value, in valid UTF-8
// and not nested too deeply, with white space around it or not.
func validateJSON(data []byte) error {
	i, err := skipValue(data, skipSpace(data, 0), 0)
	if err != nil {
		return err
	}
	if i = skipSpace(data, i); i < len(data) {
		return &jsonError{i, badChar}
	}
	return nil
}

// skipValue returns the end of the JSON value that begins at i, which it
// checks in full. depth is how many containers are open around it.
func skipValue(data []byte, i, depth int) (int, error) {
	if i >= len(data) {
		return i, unexpected(data, i)
	}
	switch c := data[i]; {
	case c == '"':
		return skipString(data, i)
	case c == '{', c == '[':
		if depth >= maxDepth {
			return i, &jsonError{i, tooDeep}
		}
		if c == '{' {
			return skipObject(data, i, depth+1)
		}
		return skipArray(data, i, depth+1)
	case c == '-' || '0' <= c && c <= '9':
		return skipNumber(data, i)
	case c == 't':
		return skipWord(data, i, "true")
	case c == 'f':
		return skipWord(data, i, "false")
	case c == 'n':
		return skipWord(data, i, "null")
	}
	return i, &jsonError{i, badChar}
}

func skipObject(data []byte, i, depth int) (int, error) {
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(data) || data[i] != '"' {
			return i, unexpected(data, i)
		}
		var err error
		if i, err = skipString(data, i); err != nil {
			return i, err
		}
		if i = skipSpace(data, i); i >= len(data) || data[i] != ':' {
			return i, unexpected(data, i)
		}
		if i, err = skipValue(data, skipSpace(data, i+1), depth); err != nil {
			return i, err
		}
		i = skipSpace(data, i)
		if i < len(data) && data[i] == '}' {
			return i + 1, nil
		}
		if i >= len(data) || data[i] != ',' {
			return i, unexpected(data, i)
		}
		i = skipSpace(data, i+1)
	}
}

func skipArray(data []byte, i, depth int) (int, error) {
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = skipValue(data, i, depth); err != nil {
			return i, err
		}
		i = skipSpace(data, i)
		if i < len(data) && data[i] == ']' {
			return i + 1, nil
		}
		if i >= len(data) || data[i] != ',' {
			return i, unexpected(data, i)
		}
		i = skipSpace(data, i+1)
	}
}

func skipWord(data []byte, i int, word string) (int, error) {
	for k := range len(word) {
		if i+k >= len(data) || data[i+k] != word[k] {
			return i, unexpected(data, i+k)
		}
	}
	return i + len(word), nil
}

func skipNumber(data []byte, i int) (int, error) {
	if data[i] == '-' {
		i++
	}
	if i < len(data) && data[i] == '0' {
		i++
	} else if j := skipDigits(data, i); j > i {
		i = j
	} else {
		return i, unexpected(data, i)
	}
	if i < len(data) && data[i] == '.' {
		j := skipDigits(data, i+1)
		if j == i+1 {
			return j, unexpected(data, j)
		}
		i = j
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		j := skipDigits(data, i)
		if j == i {
			return j, unexpected(data, j)
		}
		i = j
	}
	return i, nil
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && '0' <= data[i] && data[i] <= '9' {
		i++
	}
	return i
}

// skipString returns the end, behind the closing quote, of the string whose
// opening quote is at i.
func skipString(data []byte, i int) (int, error) {
	start, high := i+1, uint64(0)
	for i = start; ; {
		var seen uint64
		i, seen = skipPlain(data, i)
		high |= seen
		if i >= len(data) {
			return i, unexpected(data, i)
		}
		if data[i] == '"' {
			break
		}
		if data[i] != '\\' {
			return i, &jsonError{i, badControl}
		}
		n := escapeLen(data, i)
		if n == 0 {
			return i, &jsonError{i, badEscape}
		}
		i += n
	}
	if high != 0 {
		if bad := invalidUTF8(data[start:i]); bad >= 0 {
			return i, &jsonError{start + bad, badUTF8}
		}
	}
	return i + 1, nil
}

const (
	eachByte = 0x0101010101010101
	highBits = 0x8080808080808080
)

// skipPlain returns the first position from i on of a quote, a backslash or a
// control character, or the length of s. If a byte before that is not ASCII,
// high is not 0; it may be not 0 for others.
func skipPlain(s []byte, i int) (end int, high uint64) {
	rest := s[i:]
	for len(rest) >= 8 {
		x := binary.LittleEndian.Uint64(rest)
		high |= x & highBits
		if stop := stops(x); stop != 0 {
			return len(s) - len(rest) + bits.TrailingZeros64(stop)/8, high
		}
		rest = rest[8:]
	}
	for k, c := range rest {
		if c < ' ' || c == '"' || c == '\\' {
			return len(s) - len(rest) + k, high
		}
		high |= uint64(c & 0x80)
	}
	return len(s), high
}

// stops returns a word whose lowest set bit is the top bit of the first byte
// of x that is a quote, a backslash or a control character; 0 if none is.
func stops(x uint64) uint64 {
	// With bit 1 flipped the quote is U+0020 and the control characters are
	// still below it, so that one subtraction finds both. A borrow can only
	// set bits above a byte that was rightly found.
	return ((x ^ eachByte*2 - eachByte*0x21) | (x ^ eachByte*'\\' - eachByte)) &^ x & highBits
}

// invalidUTF8 returns where data stops being valid UTF-8, or -1.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// escapeLen returns the length of the escape at i, 0 if it is none.
func escapeLen(data []byte, i int) int {
	if i+1 >= len(data) {
		return 0
	}
	switch data[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(data, i+2); ok {
			return 6
		}
	}
	return 0
}

func hex4(data []byte, i int) (rune, bool) {
	if i+4 > len(data) {
		return 0, false
	}
	var r rune
	for _, c := range data[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// appendUnescaped appends the character that the escape at i stands for and
// returns the end of the escape. Half a surrogate pair stands for U+FFFD.
func appendUnescaped(dst, data []byte, i int) ([]byte, int, error) {
	n := escapeLen(data, i)
	if n == 0 {
		return dst, i, &jsonError{i, badEscape}
	}
	switch c := data[i+1]; c {
	case 'b':
		dst = append(dst, '\b')
	case 'f':
		dst = append(dst, '\f')
	case 'n':
		dst = append(dst, '\n')
	case 'r':
		dst = append(dst, '\r')
	case 't':
		dst = append(dst, '\t')
	case 'u':
		r, _ := hex4(data, i+2)
		if utf16.IsSurrogate(r) {
			var second rune
			if escapeLen(data, i+6) == 6 && data[i+6] == '\\' {
				second, _ = hex4(data, i+8)
			}
			if r = utf16.DecodeRune(r, second); r != utf8.RuneError {
				n = 12
			}
		}
		dst = utf8.AppendRune(dst, r)
	default:
		dst = append(dst, c)
	}
	return dst, i + n, nil
}
