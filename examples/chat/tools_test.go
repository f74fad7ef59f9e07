package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/session"
)

func TestCalculate(t *testing.T) {
	tests := []struct{ expression, want string }{
		{"12 * (3+4)", "84"},
		{"1 + 2 * 3", "7"},
		{"(1 + 2) * 3", "9"},
		{"-3 - -4", "1"},
		{"10 / 4", "2.5"},
		{"10 % 4", "2"},
		{"0.1 + 0.2", "0.3"},
		{"1/3", "0.333333333333333"},
		{"1/3*3", "1"},
		{"99999999999999999999 + 1", "100000000000000000000"},
		{"2^10", "1024"},
		{"2^-1", "0.5"},
		{"(-2)^3", "-8"},
		{"3 × 4 ÷ 2 − 1", "5"},
		{"1,234 + 1", "1235"},
		{"010 + 08", "18"},
		{"1.05 * 2", "2.1"},
	}
	for _, test := range tests {
		if got, err := calculate(test.expression); got != test.want || err != nil {
			t.Errorf("calculate(%q) = %q, %v, want %q", test.expression, got, err, test.want)
		}
	}
}

func TestCalculateErrors(t *testing.T) {
	tests := []struct{ expression, want string }{
		{"", "not an expression"},
		{"2 +", "not an expression"},
		{"(2", "not an expression"},
		{"2 3", "not an expression"},
		{"x + 1", "not an expression"},
		{"f(1)", "not an expression"},
		{"'a' + 1", "not an expression"},
		{`"a" + "b"`, "not an expression"},
		{"1i * 2", "not an expression"},
		{"!1", "not an expression"},
		{"1 / 0", "division by zero"},
		{"1 / (2 - 2)", "division by zero"},
		{"1 % 0", "division by zero"},
		{"0 ^ -1", "division by zero"},
		{"1.5 % 2", "whole numbers"},
		{"2 ^ 0.5", "whole number"},
		{"2 * 3^2", "parentheses"},
		{"-2^2", "parentheses"},
		{"1 << 3", "operator"},
		{"9^9999", "too large"},
		{"(9^1000)^(9^1000)", "too large"},
		{"(9^1000)^1000", "too large"},
		{"1e999999999", "too large"},
		{"(2^2000) / 3", "too large"},
		{strings.Repeat("(", 2000), "too long"},
	}
	for _, test := range tests {
		if got, err := calculate(test.expression); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("calculate(%.40q) = %q, %v, want an error with %q", test.expression, got, err, test.want)
		}
	}
}

func FuzzCalculate(f *testing.F) {
	f.Add("12 * (3+4)")
	f.Add("2^-1 % 3.5e2, 1'")
	f.Fuzz(func(t *testing.T, expression string) {
		if got, err := calculate(expression); (got == "") == (err == nil) {
			t.Errorf("calculate(%q) = %q, %v, want either a result or an error", expression, got, err)
		}
	})
}

func TestTools(t *testing.T) {
	clock := func() time.Time { return time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC) }
	for _, test := range []struct {
		name, tool, input string
		want              string
		isError           bool
	}{
		{"Calculator", "calculator", `{"expression":"6*7"}`, "42", false},
		{"Clock", "clock", `{}`, "2026-03-14T15:09:26Z", false},
		{"BadInput", "calculator", `[]`, "input", true},
		{"NoInput", "calculator", "", "input", true},
		{"Fails", "calculator", `{"expression":"1/0"}`, "zero", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			tools := newTools(clock)
			i := slices.IndexFunc(tools, func(tool session.Tool) bool { return tool.Name == test.tool })
			content, err := tools[i].Call(t.Context(), session.ToolUse("1", test.tool, test.input))
			got := session.NewMessage(session.RoleTool, content...).Text()
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) || (err != nil) != test.isError {
				t.Errorf("%s(%s) = %q, %v, want %q, an error: %v", test.tool, test.input, got, err, test.want, test.isError)
			}
		})
	}
}
