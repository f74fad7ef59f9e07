package session

import (
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// open reads the bracket that begins an object.
func (d *decoder) open() error {
	if d.pos >= len(d.data) {
		return d.fault(endOfData)
	}
	if d.data[d.pos] != '{' {
		return d.fault(wrongType)
	}
	d.pos++
	return nil
}

// member reads up to the next member's value. It returns where the member
// starts and its key, which holds until the next string is read; nil at the
// end of the object, which it also reads.
func (d *decoder) member(first bool) (start int, key []byte, err error) {
	i := skipSpace(d.data, d.pos)
	if i < len(d.data) && d.data[i] == '}' {
		d.pos = i + 1
		return i, nil, nil
	}
	if !first {
		if i >= len(d.data) || d.data[i] != ',' {
			return i, nil, unexpected(d.data, i)
		}
		i = skipSpace(d.data, i+1)
	}
	if i >= len(d.data) || d.data[i] != '"' {
		return i, nil, unexpected(d.data, i)
	}
	d.pos = i
	if key, err = d.quoted(); err != nil {
		return i, nil, err
	}
	j := skipSpace(d.data, d.pos)
	if j >= len(d.data) || d.data[j] != ':' {
		return i, nil, unexpected(d.data, j)
	}
	d.pos = skipSpace(d.data, j+1)
	return i, key, nil
}

// quoted reads a string, which is there. What it returns is not nil, and lies
// in d.data or d.buf.
func (d *decoder) quoted() ([]byte, error) {
	start := d.pos + 1
	i, high := skipPlain(d.data, start)
	text := d.data[start:i:i]
	if i < len(d.data) && d.data[i] == '\\' {
		if d.buf == nil {
			d.buf = make([]byte, 0, min(len(d.data)-start, 4<<10))
		}
		buf := append(d.buf[:0], text...)
		for i < len(d.data) && d.data[i] == '\\' {
			var err error
			if buf, i, err = appendUnescaped(buf, d.data, i); err != nil {
				return nil, err
			}
			next, seen := skipPlain(d.data, i)
			buf, i, high = append(buf, d.data[i:next]...), next, high|seen
		}
		d.buf, text = buf, buf
	}
	if i >= len(d.data) || d.data[i] != '"' || high != 0 && !utf8.Valid(text) {
		_, err := skipString(d.data, start-1) // which says where it is bad
		return nil, err
	}
	d.pos = i + 1
	return text, nil
}

// bytes reads a string, or null, of which it returns nil.
func (d *decoder) bytes() ([]byte, error) {
	if d.pos < len(d.data) && d.data[d.pos] == '"' {
		return d.quoted()
	}
	return nil, d.null()
}

// null reads null and nothing else.
func (d *decoder) null() error {
	if d.pos < len(d.data) && d.data[d.pos] == 'n' {
		end, err := skipWord(d.data, d.pos, "null")
		if err == nil {
			d.pos = end
		}
		return err
	}
	if d.pos >= len(d.data) {
		return d.fault(endOfData)
	}
	return d.fault(wrongType)
}

func (d *decoder) text() (string, error) {
	b, err := d.bytes()
	return string(b), err
}

// name is text that is likely to come again, such as a tool's name or the ID
// of a call. Equal ones then share their memory.
func (d *decoder) name() (string, error) {
	b, err := d.bytes()
	if len(b) == 0 || len(b) > 64 {
		return string(b), err
	}
	known := &d.names[(len(b)*31^int(b[len(b)-1])^int(b[0])<<2)%len(d.names)]
	if *known != string(b) {
		*known = string(b)
	}
	return *known, err
}

func (d *decoder) base64() ([]byte, error) {
	start := d.pos
	b, err := d.bytes()
	if err != nil || len(b) == 0 {
		return nil, err
	}
	data := d.arena.take(base64.StdEncoding.DecodedLen(len(b)))
	n, err := base64.StdEncoding.Decode(data, b)
	if err != nil {
		return nil, &jsonError{start, badBase64}
	}
	if n == 0 {
		return nil, nil
	}
	return data[:n:n], nil
}

func (d *decoder) bool() (bool, error) {
	if d.pos < len(d.data) && d.data[d.pos] == 't' {
		end, err := skipWord(d.data, d.pos, "true")
		d.pos = end
		return true, err
	}
	if d.pos < len(d.data) && d.data[d.pos] == 'f' {
		end, err := skipWord(d.data, d.pos, "false")
		d.pos = end
		return false, err
	}
	return false, d.null()
}

func (d *decoder) time() (time.Time, error) {
	start := d.pos
	b, err := d.bytes()
	if err != nil || b == nil {
		return time.Time{}, err
	}
	var t time.Time
	if err := t.UnmarshalText(b); err != nil {
		return t, &jsonError{start, badTime}
	}
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return t, &jsonError{start, badTime}
	}
	return t, nil
}

// json reads a raw value.
func (d *decoder) json() (json.RawMessage, error) {
	end, err := skipValue(d.data, d.pos, 0)
	if err != nil {
		return nil, err
	}
	value := d.arena.copy(d.data[d.pos:end])
	d.pos = end
	return value, nil
}

// jsonText reads a raw value that is written as a string.
func (d *decoder) jsonText() (json.RawMessage, error) {
	start := d.pos
	b, err := d.bytes()
	if err != nil || len(b) == 0 {
		return nil, err
	}
	if validateJSON(b) != nil {
		return nil, &jsonError{start, badInputText}
	}
	return d.arena.copy(b), nil
}

// version reads the version of the form.
func (d *decoder) version() error {
	start := d.pos
	end, err := skipValue(d.data, d.pos, 0)
	if err != nil {
		return err
	}
	d.pos = end
	switch v := d.data[start:end]; {
	case string(v) == "1" || string(v) == "null":
		return nil
	case isNewerVersion(v):
		return ErrNewerFormat
	}
	return &jsonError{start, badVersion}
}

// isNewerVersion reports whether a JSON value is an integer above 1.
func isNewerVersion(v []byte) bool {
	return '1' <= v[0] && v[0] <= '9' && string(v) != "1" && skipDigits(v, 0) == len(v)
}

// newerVersion reports whether data, in which there is something that this
// version can't read, is of a newer one.
func newerVersion(data []byte) bool {
	d := decoder{data: data, pos: skipSpace(data, 0)}
	if d.open() != nil {
		return false
	}
	for first := true; ; first = false {
		_, key, err := d.member(first)
		if err != nil || key == nil {
			return false
		}
		isVersion := string(key) == "v"
		start := d.pos
		if d.pos, err = skipValue(data, d.pos, 0); err != nil {
			return false
		}
		if isVersion && isNewerVersion(data[start:d.pos]) {
			return true
		}
	}
}

// unknown reads the value of an unknown member, and appends the member, which
// starts at start, to those before it.
func (d *decoder) unknown(before []byte, start int) ([]byte, error) {
	keyEnd, err := skipString(d.data, start)
	if err != nil {
		return before, err
	}
	end, err := skipValue(d.data, d.pos, 0)
	if err != nil {
		return before, err
	}
	if len(before) > 0 {
		before = append(before, ',')
	}
	before = append(append(before, d.data[start:keyEnd]...), ':')
	if value := d.data[d.pos:end]; fitsLine(value) {
		before = append(before, value...)
	} else {
		before = appendCompact(before, value)
	}
	d.pos = end
	return before, nil
}

// metadata reads an object of canonical values, or null.
func (d *decoder) metadata() (map[string]any, error) {
	if d.pos >= len(d.data) || d.data[d.pos] != '{' {
		return nil, d.null()
	}
	m, err := d.object(0)
	if len(m) == 0 {
		return nil, err
	}
	return m, err
}

// value reads a value in its canonical form. depth is how many containers are
// open around it.
func (d *decoder) value(depth int) (any, error) {
	if d.pos >= len(d.data) {
		return nil, d.fault(endOfData)
	}
	switch d.data[d.pos] {
	case '{':
		return d.object(depth)
	case '[':
		return d.array(depth)
	case '"':
		return d.text()
	case 't', 'f':
		return d.bool()
	case 'n':
		return nil, d.null()
	}
	end, err := skipValue(d.data, d.pos, depth)
	if err != nil {
		return nil, err
	}
	literal := string(d.data[d.pos:end])
	d.pos = end
	return canonicalNumber(literal)
}

func (d *decoder) object(depth int) (map[string]any, error) {
	if depth >= maxDepth {
		return nil, d.fault(tooDeep)
	}
	d.pos++
	m := map[string]any{}
	for first := true; ; first = false {
		_, key, err := d.member(first)
		if err != nil {
			return nil, err
		}
		if key == nil {
			return m, nil
		}
		name := string(key)
		if m[name], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
}

func (d *decoder) array(depth int) ([]any, error) {
	if depth >= maxDepth {
		return nil, d.fault(tooDeep)
	}
	array := []any{}
	d.pos = skipSpace(d.data, d.pos+1)
	for first := true; ; first = false {
		if d.pos < len(d.data) && d.data[d.pos] == ']' {
			d.pos++
			return array, nil
		}
		if !first {
			if d.pos >= len(d.data) || d.data[d.pos] != ',' {
				return nil, unexpected(d.data, d.pos)
			}
			d.pos = skipSpace(d.data, d.pos+1)
		}
		value, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
		d.pos = skipSpace(d.data, d.pos)
	}
}
