package session

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFirstWordsTitle(t *testing.T) {
	for _, test := range []struct {
		prompt string
		n      int
		want   string
	}{
		{"", 0, ""}, {" \n\t ", 3, ""}, {"one", 3, "one"},
		{"fix  the\nbroken\tbuild of\u00a0the server", 0, "fix the broken build of"},
		{"fix the broken build", -1, "fix the broken build"},
		{"fix the broken build", 2, "fix the"},
		{"修复 构建", 1, "修复"},
	} {
		if got := FirstWordsTitle(test.prompt, test.n); got != test.want {
			t.Errorf("FirstWordsTitle(%q, %d) = %q, want %q", test.prompt, test.n, got, test.want)
		}
	}
}

func TestNormalizeTitle(t *testing.T) {
	long := strings.Repeat("長", MaxTitleChars)
	for _, test := range []struct{ s, want string }{
		{"", ""}, {" \n \n", ""}, {`""`, ""}, {`"`, ""}, {"```", ""}, {"“”", ""},
		{"Fix the build", "Fix the build"},
		{"\n\n  Fix \t the build  \nand more", "Fix the build"},
		{"Fix the build\r\nand more", "Fix the build"},
		{`"Fix the build"`, "Fix the build"},
		{"'`Fix the build`'", "Fix the build"},
		{"“Fix the build”", "Fix the build"},
		{`" Fix the build "`, "Fix the build"},
		{`Explain "foo"`, `Explain "foo"`},
		{`"foo" and "bar"`, `foo" and "bar`},
		{long, long}, {long + "長", long}, {`"` + long + `"`, long},
		{strings.Repeat("a", MaxTitleChars-1) + " bc", strings.Repeat("a", MaxTitleChars-1)},
		{"half \xf0\x9f a character", "half a character"},
	} {
		if got := NormalizeTitle(test.s); got != test.want {
			t.Errorf("NormalizeTitle(%q) = %q, want %q", test.s, got, test.want)
		}
	}
}

func TestNormalizeTitleIsShortTextOfOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.StringOfN(rapid.SampledFrom([]rune("a 長\n\"'`“”🎉")), 0, 200, -1)).Draw(t, "s")
		title := NormalizeTitle(s)
		if !utf8.ValidString(title) || utf8.RuneCountInString(title) > MaxTitleChars {
			t.Fatalf("%q", title)
		}
		if title != strings.Join(strings.Fields(title), " ") {
			t.Fatalf("%q has other white space than single spaces inside", title)
		}
	})
}

func TestRunIDFor(t *testing.T) {
	a, b := RunIDFor("2026-12-01-abc123"), RunIDFor("2026-12-01-abc124")
	if a != RunIDFor("2026-12-01-abc123") || a == b {
		t.Errorf("RunIDFor is not stable and distinct: %s, %s", a, b)
	}
	// The ID outlives the process: another would lose the prompt cache.
	if want := "2bea71a901984407eaa5a0167326e273"; a != want {
		t.Errorf("RunIDFor = %s, want %s", a, want)
	}
}
