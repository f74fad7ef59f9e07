package session

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// MaxTitleChars is how many characters, not bytes, a title has at most.
const MaxTitleChars = 80

// TitleFallbackWords is how many leading words of a prompt make a title when
// no model was asked for one, or it failed.
const TitleFallbackWords = 5

// FirstWordsTitle returns the first n words of a prompt, joined by single
// spaces; of n <= 0, the first TitleFallbackWords. It is "" if there are none.
// [NormalizeTitle] bounds its length.
func FirstWordsTitle(prompt string, n int) string {
	if n <= 0 {
		n = TitleFallbackWords
	}
	var words []string
	for word := range strings.FieldsSeq(prompt) {
		if words = append(words, word); len(words) == n {
			break
		}
	}
	return strings.Join(words, " ")
}

// NormalizeTitle returns a title as it is stored: the first line of s that is
// not blank, without quotes or backticks around it, its white space collapsed,
// at most MaxTitleChars characters long and never ending inside one. It is ""
// if nothing remains. Invalid UTF-8 is left out.
func NormalizeTitle(s string) string {
	for line := range strings.Lines(strings.ToValidUTF8(s, "")) {
		title := strings.Join(strings.Fields(line), " ")
		if title == "" {
			continue
		}
		title = unquote(title)
		return strings.TrimRight(title[:runeIndex(title, MaxTitleChars)], " ")
	}
	return ""
}

// quotePairs are the quotes that stand around a title, opening and closing.
var quotePairs = [][2]string{{`"`, `"`}, {"'", "'"}, {"`", "`"}, {"“", "”"}, {"„", "“"}, {"‘", "’"}, {"«", "»"}, {"「", "」"}}

// unquote removes quotes around s, as often as there are any. Of quotes alone
// nothing remains.
func unquote(s string) string {
	for again := true; again; {
		again = false
		for _, q := range quotePairs {
			if len(s) >= len(q[0])+len(q[1]) && strings.HasPrefix(s, q[0]) && strings.HasSuffix(s, q[1]) {
				s = strings.TrimSpace(s[len(q[0]) : len(s)-len(q[1])])
				again = true
			}
		}
	}
	if strings.Trim(s, `"'`+"`") == "" {
		return ""
	}
	return s
}

// runeIndex returns the index of the n-th character of s, from 0, or its length.
func runeIndex(s string, n int) int {
	i := 0
	for ; n > 0 && i < len(s); n-- {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return i
}

// RunIDFor returns a stable ID derived from a session's name: 32 hexadecimal
// digits that tell nothing of the name and are safe in a header. Sent with each
// request, it lets an endpoint that routes by it reach the backend which holds
// the conversation's prompt cache.
func RunIDFor(name string) string {
	sum := sha256.Sum256([]byte("session run " + name))
	return hex.EncodeToString(sum[:16])
}
