package session

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string with no more escapes than JSON
// demands. It reports whether s is valid UTF-8.
func appendString(dst []byte, s string) ([]byte, bool) {
	// buf always has room for rest, an escape and a quote. Whole words are
	// copied before they are looked at; what is copied too far is overwritten.
	const margin = 8
	buf, n, rest, high := slices.Grow(dst, len(s)+1+margin), len(dst)+1, s, uint64(0)
	buf = buf[:cap(buf)]
	buf[n-1] = '"'
	for rest != "" {
		if len(rest) >= 8 {
			x := load64(rest)
			binary.LittleEndian.PutUint64(buf[n:], x)
			high |= x
			stop := stops(x)
			if stop == 0 {
				n, rest = n+8, rest[8:]
				continue
			}
			plain := bits.TrailingZeros64(stop) / 8
			n, rest = n+plain, rest[plain:]
		} else if c := rest[0]; c >= ' ' && c != '"' && c != '\\' {
			high |= uint64(c)
			buf[n] = c
			n, rest = n+1, rest[1:]
			continue
		}
		if len(buf)-n < len(rest)+margin {
			buf = slices.Grow(buf[:n], len(rest)+margin)
			buf = buf[:cap(buf)]
		}
		n += putEscape(buf[n:], rest[0])
		rest = rest[1:]
	}
	buf[n] = '"'
	return buf[:n+1], high&highBits == 0 || utf8.ValidString(s)
}

func load64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// putEscape puts the escape of c into buf and returns its length, at most 6.
func putEscape(buf []byte, c byte) int {
	switch c {
	case '"', '\\':
	case '\n':
		c = 'n'
	case '\r':
		c = 'r'
	case '\t':
		c = 't'
	case '\b':
		c = 'b'
	case '\f':
		c = 'f'
	default:
		return copy(buf, []byte{'\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15]})
	}
	buf[0], buf[1] = '\\', c
	return 2
}

// appendCompact appends a valid JSON value without the white space outside
// its strings.
func appendCompact(dst, value []byte) []byte {
	for i := 0; i < len(value); {
		switch c := value[i]; {
		case isSpace(c):
			i++
		case c == '"':
			end, _ := skipString(value, i)
			dst = append(dst, value[i:end]...)
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}
