package session

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// canonicalNumber returns what a JSON number literal means: an int64 or a
// float64 if that is the same number, else a json.Number of the literal.
func canonicalNumber(literal string) (any, error) {
	if literal == "" {
		return int64(0), nil // as encoding/json has it
	}
	if end, err := skipNumber([]byte(literal), 0); err != nil || end != len(literal) {
		return nil, errNotNumber
	}
	if !strings.ContainsAny(literal, ".eE") {
		if n, err := strconv.ParseInt(literal, 10, 64); err == nil {
			return n, nil
		}
	} else if f, err := strconv.ParseFloat(literal, 64); err == nil && sameNumber(literal, f) {
		return f, nil
	}
	return json.Number(literal), nil
}

// appendFloat appends the shortest JSON number that means f and has a point
// or an exponent.
func appendFloat(dst []byte, f float64) []byte {
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if !strings.Contains(string(dst[start:]), ".") {
		dst = append(dst, ".0"...)
	}
	return dst
}

// sameNumber reports whether a literal is the same decimal number as the
// shortest form of f.
func sameNumber(literal string, f float64) bool {
	var buf [32]byte
	a, okA := parseDecimal(literal)
	b, okB := parseDecimal(string(strconv.AppendFloat(buf[:0], f, 'e', -1, 64)))
	return okA && okB && a == b
}

// decimal is the number 0.digits times ten to the power of exp. The first and
// the last of the digits are not 0; 0 has none.
type decimal struct {
	negative bool
	digits   [20]byte // more than any shortest form has
	n        int
	exp      int64
}

// parseDecimal takes a JSON number apart, unless it has too many digits.
func parseDecimal(literal string) (d decimal, ok bool) {
	mantissa, exponent := literal, ""
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		mantissa, exponent = literal[:i], literal[i+1:]
	}
	point, zeros := false, 0
	for _, c := range []byte(mantissa) {
		switch {
		case c == '-':
			d.negative = true
			continue
		case c == '.':
			point = true
			continue
		case c == '0':
			zeros++
		default:
			if d.n == 0 {
				zeros = 0
			}
			if d.n+zeros >= len(d.digits) {
				return d, false
			}
			for ; zeros > 0; zeros-- {
				d.digits[d.n] = '0'
				d.n++
			}
			d.digits[d.n] = c
			d.n++
		}
		if !point && (c != '0' || d.n > 0) {
			d.exp++
		} else if point && d.n == 0 {
			d.exp--
		}
	}
	if d.n == 0 {
		return decimal{negative: d.negative}, true
	}
	if exponent != "" {
		e, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			return d, false
		}
		d.exp += e
	}
	return d, true
}
