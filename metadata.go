package session

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

var (
	errMetadataText  = errors.New("metadata: text is not valid UTF-8")
	errMetadataDepth = errors.New("metadata: nested too deeply, or in a cycle")
	errMetadataValue = errors.New("metadata: a value that can't be marshalled")
)

// canonicalMetadata returns a copy of metadata in its canonical form, which is
// described at [Message]; nil if it is empty.
func canonicalMetadata(m map[string]any) (map[string]any, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return canonicalObject(m, 0)
}

// canonicalObject returns the canonical form of an object inside depth others.
func canonicalObject(m map[string]any, depth int) (map[string]any, error) {
	if depth >= maxDepth {
		return nil, errMetadataDepth
	}
	canonical := make(map[string]any, len(m))
	for key, value := range m {
		if !utf8.ValidString(key) {
			return nil, errMetadataText
		}
		v, err := canonicalValue(value, depth+1)
		if err != nil {
			return nil, err
		}
		canonical[key] = v
	}
	return canonical, nil
}

// canonicalValue returns the canonical form of a value inside depth arrays and
// objects.
func canonicalValue(value any, depth int) (any, error) {
	switch v := value.(type) {
	case nil, bool, int64:
		return value, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, errMetadataText
		}
		return value, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errNotFinite
		}
		return value, nil
	case int:
		return int64(v), nil
	case json.Number:
		return canonicalNumber(string(v))
	case map[string]any:
		if v == nil {
			return nil, nil
		}
		return canonicalObject(v, depth)
	case []any:
		if v == nil {
			return nil, nil
		}
		if depth >= maxDepth {
			return nil, errMetadataDepth
		}
		canonical := make([]any, len(v))
		for i := range v {
			var err error
			if canonical[i], err = canonicalValue(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return canonical, nil
	}
	return canonicalReflect(reflect.ValueOf(value), depth)
}

// canonicalReflect is canonicalValue for values of any other type. It does
// itself what it can, so that a float64 stays one; structs and what marshals
// itself go through encoding/json.
func canonicalReflect(v reflect.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errMetadataDepth
	}
	t := v.Type()
	if marshalsItself(t) || marshalsItself(reflect.PointerTo(t)) {
		return throughJSON(v, depth)
	}
	switch t.Kind() {
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.String:
		if t == reflect.TypeFor[json.Number]() {
			return canonicalNumber(v.String())
		}
		return canonicalValue(v.String(), depth)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return canonicalNumber(strconv.FormatUint(v.Uint(), 10))
	case reflect.Float64:
		return canonicalValue(v.Float(), depth)
	case reflect.Float32:
		// The float64 that is written the same, as encoding/json has it.
		f, err := strconv.ParseFloat(strconv.FormatFloat(v.Float(), 'g', -1, 32), 64)
		if err != nil {
			return nil, errNotFinite
		}
		return canonicalValue(f, depth)
	case reflect.Interface:
		if v.IsNil() {
			return nil, nil
		}
		return canonicalReflect(v.Elem(), depth)
	case reflect.Pointer:
		if v.IsNil() {
			return nil, nil
		}
		// A pointer counts as a level, which ends a chain of pointers.
		return canonicalReflect(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return throughJSON(v, depth) // base64
		}
		return canonicalArray(v, depth)
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return canonicalMap(v, depth)
		}
	}
	return throughJSON(v, depth)
}

func canonicalArray(v reflect.Value, depth int) (any, error) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return nil, nil
	}
	if depth >= maxDepth {
		return nil, errMetadataDepth
	}
	canonical := make([]any, v.Len())
	for i := range canonical {
		var err error
		if canonical[i], err = canonicalReflect(v.Index(i), depth+1); err != nil {
			return nil, err
		}
	}
	return canonical, nil
}

func canonicalMap(v reflect.Value, depth int) (any, error) {
	if v.IsNil() {
		return nil, nil
	}
	if depth >= maxDepth {
		return nil, errMetadataDepth
	}
	canonical := make(map[string]any, v.Len())
	for i := v.MapRange(); i.Next(); {
		key := i.Key().String()
		if !utf8.ValidString(key) {
			return nil, errMetadataText
		}
		value, err := canonicalReflect(i.Value(), depth+1)
		if err != nil {
			return nil, err
		}
		canonical[key] = value
	}
	return canonical, nil
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func marshalsItself(t reflect.Type) bool {
	return t.Implements(jsonMarshaler) || t.Implements(textMarshaler)
}

func throughJSON(v reflect.Value, depth int) (any, error) {
	if v.CanAddr() { // its pointer may have the methods
		v = v.Addr()
	}
	text, err := json.Marshal(v.Interface())
	if err != nil { // its text may quote the value
		return nil, errMetadataValue
	}
	// encoding/json puts U+FFFD in place of what isn't UTF-8.
	replaced := bytes.Contains(text, []byte("\uFFFD")) || bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`))
	if replaced && !validText(v, 0) {
		return nil, errMetadataText
	}
	d := decoder{data: text}
	value, err := d.value(depth)
	var syntax *jsonError
	switch {
	case errors.As(err, &syntax) && syntax.what == tooDeep:
		return nil, errMetadataDepth
	case err != nil: // a Marshaler's output is not checked for UTF-8
		return nil, errMetadataText
	}
	return value, nil
}

// validText reports whether the strings that encoding/json finds in v are
// valid UTF-8. What a json.Marshaler writes it leaves to the decoder.
func validText(v reflect.Value, depth int) bool {
	if !v.IsValid() || depth > 2*maxDepth {
		return true
	}
	if v.CanInterface() && v.Type().Implements(jsonMarshaler) {
		return true
	}
	if v.CanInterface() && v.Type().Implements(textMarshaler) {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return true
		}
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		return err != nil || utf8.Valid(text)
	}
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || validText(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if !validText(v.Index(i), depth+1) {
				return false
			}
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			if !validText(i.Key(), depth+1) || !validText(i.Value(), depth+1) {
				return false
			}
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			if (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" && !validText(field, depth+1) {
				return false
			}
		}
	}
	return true
}

// appendObject appends metadata in its canonical form.
func appendObject(dst []byte, m map[string]any, depth int) ([]byte, error) {
	if depth >= maxDepth {
		return dst, errMetadataDepth
	}
	var few [8]string
	keys := few[:0]
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var valid bool
		if dst, valid = appendString(dst, key); !valid {
			return dst, errMetadataText
		}
		var err error
		if dst, err = appendValue(append(dst, ':'), m[key], depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendValue(dst []byte, value any, depth int) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		dst, valid := appendString(dst, v)
		if !valid {
			return dst, errMetadataText
		}
		return dst, nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case int:
		return strconv.AppendInt(dst, int64(v), 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst, errNotFinite
		}
		return appendFloat(dst, v), nil
	case json.Number:
		number, err := canonicalNumber(string(v))
		if n, ok := number.(json.Number); ok {
			return append(dst, n...), nil
		}
		if err != nil {
			return dst, err
		}
		return appendValue(dst, number, depth)
	case map[string]any:
		if v != nil {
			return appendObject(dst, v, depth)
		}
		return append(dst, "null"...), nil
	case []any:
		if v != nil {
			return appendArray(dst, v, depth)
		}
		return append(dst, "null"...), nil
	}
	canonical, err := canonicalReflect(reflect.ValueOf(value), depth)
	if err != nil {
		return dst, err
	}
	return appendValue(dst, canonical, depth)
}

func appendArray(dst []byte, array []any, depth int) ([]byte, error) {
	if depth >= maxDepth {
		return dst, errMetadataDepth
	}
	dst = append(dst, '[')
	for i, value := range array {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, value, depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}
