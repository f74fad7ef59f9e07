package filestore

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-go/session"
)

func reportCall(id, input string) session.Message {
	return session.NewMessage(session.RoleAssistant, session.ToolUse(id, ReportToolName, input))
}

func reportResult(id string) session.Message {
	return session.ToolResults(session.ToolResult(id, ReportToolName, "accepted"))
}

func TestLastReport(t *testing.T) {
	first, second := `{"headline":"First.", "blocks":[{"type":"check"},1]}`, `{"headline":"Second."}`
	prompt := session.UserText("again")
	other := session.NewMessage(session.RoleAssistant, session.ToolUse("e1", "edit", `{"headline":"x"}`))
	for what, c := range map[string]struct {
		messages []session.Message
		want     string
		current  bool
	}{
		"nothing":                {nil, "", false},
		"no report":              {[]session.Message{prompt, other}, "", false},
		"a report":               {[]session.Message{prompt, reportCall("r1", first)}, first, true},
		"its result":             {[]session.Message{reportCall("r1", first), reportResult("r1")}, first, true},
		"another's result":       {[]session.Message{reportCall("r1", first), reportResult("r2")}, first, false},
		"a prompt behind it":     {[]session.Message{reportCall("r1", first), reportResult("r1"), prompt}, first, false},
		"a cancelled turn":       {[]session.Message{reportCall("r1", first), session.AssistantText("[cancelled]")}, first, false},
		"two":                    {[]session.Message{reportCall("r1", first), reportResult("r1"), prompt, reportCall("r2", second)}, second, true},
		"a malformed one behind": {[]session.Message{reportCall("r1", first), reportResult("r1"), reportCall("r2", `{"headline":1}`)}, first, false},
		"no object":              {[]session.Message{reportCall("r1", `[]`), reportCall("r2", "null"), reportCall("r3", "")}, "", false},
		"with another call": {[]session.Message{
			session.NewMessage(session.RoleAssistant, session.ToolUse("r1", ReportToolName, second), session.ToolUse("e1", "edit", "{}")),
			session.ToolResults(session.ToolResult("e1", "edit", ""), session.ToolResult("r1", ReportToolName, "")),
		}, second, true},
	} {
		rep, current := lastReportIn(c.messages)
		if (rep == nil) != (c.want == "") || rep != nil && string(rep.Arguments) != c.want || current != c.current {
			t.Errorf("%s: %v, %v, want %s, %v", what, rep, current, c.want, c.current)
		}
	}
	rep, _ := lastReportIn([]session.Message{reportCall("r1", first)})
	if rep.Headline != "First." || len(rep.Blocks) != 2 || string(rep.Blocks[0]) != `{"type":"check"}` {
		t.Errorf("the report is %+v", rep)
	}
}

// TestLastReportOfASession looks for a report behind which much was written,
// with a notice, and which is then taken back.
func TestLastReportOfASession(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	say(t, s, "go")
	if err := s.AppendMessages([]session.Message{reportCall("r1", `{"headline":"Done."}`), reportResult("r1")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Notice("still running: build"); err != nil {
		t.Fatal(err)
	}
	check := func(what string, found, current bool) {
		t.Helper()
		rep, cur, err := s.LastReport()
		if err != nil || (rep != nil) != found || cur != current {
			t.Errorf("%s: Session.LastReport = %v, %v, %v, want found %v, current %v", what, rep, cur, err, found, current)
		}
		rep, cur, err = m.LastReport("demo")
		if err != nil || (rep != nil) != found || cur != current {
			t.Errorf("%s: Manager.LastReport = %v, %v, %v, want found %v, current %v", what, rep, cur, err, found, current)
		}
	}
	check("under a notice", true, true)
	var later []session.Message
	for i := range 3 * reportWindow {
		later = append(later, session.UserText(fmt.Sprint(i)))
	}
	if err := s.AppendMessages(later); err != nil {
		t.Fatal(err)
	}
	check("far from the end", true, false)
	if err := s.Rollback(len(later)); err != nil {
		t.Fatal(err)
	}
	check("when that was taken back", true, true)
	if err := s.Rollback(2); err != nil {
		t.Fatal(err)
	}
	check("when it was taken back", false, false)
}

func TestFromUI(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "false": false, "1": true, "yes": true} {
		t.Setenv(FromUIVar, value)
		if got := FromUI(); got != want {
			t.Errorf("FromUI with %q = %v, want %v", value, got, want)
		}
	}
}

func TestTitlesAreTheRoots(t *testing.T) {
	if FirstWordsTitle("a b c", 2) != "a b" || NormalizeTitle(" `x` ") != "x" || RunIDFor("demo") != session.RunIDFor("demo") ||
		MaxTitleChars != 80 || TitleFallbackWords != 5 {
		t.Error("titles and run IDs are not those of package session")
	}
}

// TestLastReportBesideDamage looks for a report where a line is damaged.
func TestLastReportBesideDamage(t *testing.T) {
	m := newManager(t)
	s := openSession(t, m, "demo")
	if err := s.AppendMessages([]session.Message{reportCall("r1", `{"headline":"Done."}`), reportResult("r1")}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(s.HistoryPath())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.HistoryPath(), append([]byte("{garbage}\n"), data...), 0o600); err != nil {
		t.Fatal(err)
	}
	if rep, current, err := m.LastReport("demo"); rep == nil || !current || err != nil {
		t.Errorf("LastReport = %v, %v, %v, want the report", rep, current, err)
	}
}

func TestLastReportOfAFlatFile(t *testing.T) {
	m := newManager(t)
	line, err := session.AppendMessage(nil, reportCall("r1", `{"headline":"Done."}`))
	if err != nil {
		t.Fatal(err)
	}
	file, _ := dropFlat(t, m, "demo", string(line))
	if rep, current, err := m.LastReport("demo"); rep == nil || rep.Headline != "Done." || !current || err != nil {
		t.Errorf("LastReport = %v, %v, %v, want the report", rep, current, err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("looking has migrated it: %v", err)
	}
}
