package session

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type (
	namedString string
	upperKey    string
	level       int
)

func (l *level) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "level %d", *l), nil }

func (k upperKey) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(string(k))), nil }

func TestMetadataIsCanonical(t *testing.T) {
	seven := 7
	huge, _ := new(big.Int).SetString("12345678901234567890123456789012345678", 10)
	type usage struct {
		Input int     `json:"input"`
		Cost  float64 `json:"cost"`
		Note  string  `json:"note,omitempty"`
	}
	tests := []struct {
		in, want any
		text     string
	}{
		{nil, nil, `null`},
		{true, true, `true`},
		{"a<b\u2028", "a<b\u2028", "\"a<b\u2028\""},
		{int8(-1), int64(-1), `-1`},
		{uint16(1), int64(1), `1`},
		{int64(math.MaxInt64), int64(math.MaxInt64), `9223372036854775807`},
		{uint64(math.MaxInt64 + 1), json.Number("9223372036854775808"), `9223372036854775808`},
		{uint64(math.MaxUint64), json.Number("18446744073709551615"), `18446744073709551615`},
		{1<<53 + 1, int64(1<<53 + 1), `9007199254740993`},
		{1.0, 1.0, `1.0`},
		{0.1, 0.1, `0.1`},
		{1e20, 1e20, `100000000000000000000.0`},
		{1e21, 1e21, `1e+21`},
		{1e-7, 1e-7, `1e-07`},
		{math.Copysign(0, -1), math.Copysign(0, -1), `-0.0`},
		{math.MaxFloat64, math.MaxFloat64, `1.7976931348623157e+308`},
		{math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64, `5e-324`},
		{float32(0.1), 0.1, `0.1`},
		{float32(2), 2.0, `2.0`},
		{json.Number("7"), int64(7), `7`},
		{json.Number("-0"), int64(0), `0`},
		{json.Number(""), int64(0), `0`},
		{json.Number("1e2"), 100.0, `100.0`},
		{json.Number("0.10"), 0.1, `0.1`},
		{json.Number("100.0"), 100.0, `100.0`},
		{json.Number("1.5E-3"), 0.0015, `0.0015`},
		{json.Number("-0.0e9"), math.Copysign(0, -1), `-0.0`},
		{json.Number("0e99999999999999999999"), 0.0, `0.0`},
		{json.Number("1e400"), json.Number("1e400"), `1e400`},
		{json.Number("1e-400"), json.Number("1e-400"), `1e-400`},
		{json.Number("1e99999999999999999999"), json.Number("1e99999999999999999999"), `1e99999999999999999999`},
		{json.Number("0.1000000000000000055511151231257827"), json.Number("0.1000000000000000055511151231257827"), `0.1000000000000000055511151231257827`},
		{json.Number("9007199254740993.0"), json.Number("9007199254740993.0"), `9007199254740993.0`},
		{json.Number("12345678901234567890123456789012345678"), json.Number("12345678901234567890123456789012345678"), `12345678901234567890123456789012345678`},
		{json.Number("-9223372036854775809"), json.Number("-9223372036854775809"), `-9223372036854775809`},
		{[]any{}, []any{}, `[]`},
		{[]any(nil), nil, `null`},
		{map[string]any{}, map[string]any{}, `{}`},
		{map[string]any(nil), nil, `null`},
		{[]string(nil), nil, `null`},
		{map[string]int(nil), nil, `null`},
		{(*int)(nil), nil, `null`},
		{&seven, int64(7), `7`},
		{[]string{"b", "a"}, []any{"b", "a"}, `["b","a"]`},
		{[]float64{1, 2.5}, []any{1.0, 2.5}, `[1.0,2.5]`},
		{[2]uint8{1, 2}, []any{int64(1), int64(2)}, `[1,2]`},
		{[]byte("abc"), "YWJj", `"YWJj"`},
		{namedString("x"), "x", `"x"`},
		{map[namedString]float64{"b": 1, "a": 2}, map[string]any{"a": 2.0, "b": 1.0}, `{"a":2.0,"b":1.0}`},
		{map[int]string{2: "b", 10: "a"}, map[string]any{"2": "b", "10": "a"}, `{"10":"a","2":"b"}`},
		{[]any{map[string]string{"k": "<v>"}}, []any{map[string]any{"k": "<v>"}}, `[{"k":"<v>"}]`},
		{usage{Input: 5, Cost: 0.25}, map[string]any{"input": int64(5), "cost": 0.25}, `{"cost":0.25,"input":5}`},
		{&usage{Input: 5, Note: "\uFFFD"}, map[string]any{"input": int64(5), "cost": int64(0), "note": "\uFFFD"}, "{\"cost\":0,\"input\":5,\"note\":\"\uFFFD\"}"},
		{json.RawMessage(` { "b" : 1e2, "a": "\ud83d\ufffd" } `), map[string]any{"b": 100.0, "a": "\uFFFD\uFFFD"}, "{\"a\":\"\uFFFD\uFFFD\",\"b\":100.0}"},
		{huge, json.Number("12345678901234567890123456789012345678"), `12345678901234567890123456789012345678`},
		{[]big.Int{*huge}, []any{json.Number("12345678901234567890123456789012345678")}, `[12345678901234567890123456789012345678]`},
		{&[1]big.Int{*big.NewInt(7)}, []any{int64(7)}, `[7]`},
		{[]json.Number{"7", "1e2"}, []any{int64(7), 100.0}, `[7,100.0]`},
		{map[string]*json.Number{"a": new(json.Number)}, map[string]any{"a": int64(0)}, `{"a":0}`},
		{[]fmt.Stringer{nil, time.Second}, []any{nil, int64(1e9)}, `[null,1000000000]`},
		{upperKey("k"), "K", `"K"`},
		{[]level{3}, []any{"level 3"}, `["level 3"]`},
		{[1]level{3}, []any{int64(3)}, `[3]`},
		{time.Unix(0, 0).UTC(), "1970-01-01T00:00:00Z", `"1970-01-01T00:00:00Z"`},
		{3 * time.Second, int64(3e9), `3000000000`},
	}
	for _, test := range tests {
		name := fmt.Sprintf("%T(%v)", test.in, test.in)
		m := Message{Role: "user", Metadata: map[string]any{"k": test.in}}
		canonical, err := Canonical([]Message{m})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := canonical[0].Metadata["k"]; !same(got, test.want) {
			t.Errorf("%s: Canonical = %T(%v), want %T(%v)", name, got, got, test.want, test.want)
		}
		line := encode(t, m)
		if want := `{"role":"user","metadata":{"k":` + test.text + `}}`; line != want {
			t.Errorf("%s: AppendMessage = %s, want %s", name, line, want)
		}
		if got := decode(t, line).Metadata["k"]; !same(got, test.want) {
			t.Errorf("%s: DecodeMessage = %T(%v), want %T(%v)", name, got, got, test.want, test.want)
		}
		if !m.Equal(canonical[0]) {
			t.Errorf("%s: not Equal to its canonical form", name)
		}
		var std, ours any // encoding/json says the same
		data, err := json.Marshal(test.in)
		if err != nil || json.Unmarshal(data, &std) != nil || json.Unmarshal([]byte(test.text), &ours) != nil {
			if !strings.Contains(test.text, "e400") && !strings.Contains(test.text, "e9999") {
				t.Errorf("%s: encoding/json: %s, %v", name, data, err)
			}
		} else if !reflect.DeepEqual(std, ours) {
			t.Errorf("%s: encoding/json writes %s, AppendMessage %s", name, data, test.text)
		}
	}
}

// same is reflect.DeepEqual that tells 0 from -0.
func same(a, b any) bool {
	x, okX := a.(float64)
	y, okY := b.(float64)
	if okX && okY {
		return math.Float64bits(x) == math.Float64bits(y)
	}
	return reflect.DeepEqual(a, b)
}

func TestMetadataKeysAreSorted(t *testing.T) {
	m := Message{Role: "user", Metadata: map[string]any{}}
	for i := range 30 {
		m.Metadata[fmt.Sprintf("k%02d", i*7%30)] = map[string]any{"b": i, "a": "é", "\"": nil, "": true}
	}
	want := encode(t, m)
	for range 20 {
		if got := encode(t, m.Clone()); got != want {
			t.Fatalf("encoded twice:\n%s\n%s", got, want)
		}
	}
	if got := decode(t, `{"role":"u","metadata":{"b":1,"a":2,"b":3}}`); got.Metadata["b"] != int64(3) {
		t.Errorf("equal keys: got %v, want the last", got.Metadata)
	}
}

// A canonical form shares nothing with what it was made of.
func TestCanonicalMetadataIsACopy(t *testing.T) {
	inner := map[string]any{"a": []any{"x"}}
	strings := []string{"x"}
	m := Message{Role: "user", Metadata: map[string]any{"m": inner, "s": strings}}
	want := Message{Role: "user", Metadata: map[string]any{"m": map[string]any{"a": []any{"x"}}, "s": []any{"x"}}}
	copies, err := Canonical([]Message{m})
	if err != nil {
		t.Fatal(err)
	}
	copies = append(copies, m.Clone())
	inner["a"].([]any)[0], strings[0] = "changed", "changed"
	inner["b"], m.Metadata["new"] = 1, 1
	for _, got := range copies {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the copy changed with the original (-want +got):\n%s", cmp.Diff(want, got, show))
		}
	}
}
