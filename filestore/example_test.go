package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/session"
	"github.com/holdfast-go/session/filestore"
)

// newManager returns a manager of an empty directory.
func newManager() (*filestore.Manager, func()) {
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		log.Fatal(err)
	}
	m, err := filestore.NewManagerIn(dir)
	if err != nil {
		log.Fatal(err)
	}
	return m, func() {
		m.Close()
		os.RemoveAll(dir)
	}
}

// A turn of a coding agent, from the lock to the report, and what the next one
// finds.
func Example() {
	sessions, done := newManager()
	defer done()
	s, err := sessions.Open("demo")
	if err != nil {
		log.Fatal(err)
	}
	unlock, err := s.AcquireLock() // one process works on a session
	if err != nil {
		log.Fatal(err)
	}
	end, err := s.MarkTurnStart() // for those who look from outside
	if err != nil {
		log.Fatal(err)
	}
	active, _ := sessions.ActiveTurns()
	pid, live := s.TurnPID()
	fmt.Println("active:", active, pid == os.Getpid(), live)

	prompt := "rename the helper in main.go please"
	meta := s.Meta()
	meta.FirstPrompt = prompt
	meta.Title = filestore.NormalizeTitle(filestore.FirstWordsTitle(prompt, 0))
	s.SaveMeta()
	s.Settings("model-1", false, []string{"Edit", filestore.ReportToolName})
	s.AppendMessages([]session.Message{
		session.UserText(prompt),
		session.NewMessage(session.RoleAssistant, session.ToolUse("c1", "Edit", `{"path":"main.go"}`)),
		session.ToolResults(session.ToolError("c1", "Edit", "no such text")),
	})
	s.Rollback(2) // the model took a wrong turn: out of the conversation, not out of the transcript
	s.AppendMessages([]session.Message{
		session.NewMessage(session.RoleAssistant, session.ToolUse("c2", filestore.ReportToolName, `{"headline":"Renamed the helper.","blocks":[]}`)),
		session.ToolResults(session.ToolResult("c2", filestore.ReportToolName, "accepted")),
	})
	s.Notice("background process still running: build")
	end()
	unlock()

	report, current, _ := sessions.LastReport("demo")
	fmt.Println("report:", report.Headline, current)
	model, _ := s.LastSettingsModel()
	fmt.Println("model:", model)
	recent, _ := sessions.MostRecent()
	fmt.Println("most recent:", recent, sessions.SessionExists(recent))
	list, _ := sessions.ListSessions()
	for _, info := range list {
		fmt.Printf("listed: %s %q, %d messages\n", info.Name, info.Title, info.MessageCount)
	}
	text, _ := sessions.ShowSession("demo")
	fmt.Println(strings.ReplaceAll(text, "─", "-"))

	sessions.DeleteSession("demo")
	fmt.Println("exists:", sessions.SessionExists("demo"))
	// Output:
	// active: [demo] true true
	// report: Renamed the helper. true
	// model: model-1
	// most recent: demo true
	// listed: demo "rename the helper in main.go", 3 messages
	// Session: demo (3 messages)
	// Title: rename the helper in main.go
	// --------------------------------------------------
	//
	// [user]
	// rename the helper in main.go please
	//
	// [assistant]
	// (calls Report)
	//
	// [tool: Report] (result of 8 bytes)
	//
	// exists: false
}

// The files of a session, as other programs see them.
func ExampleSession_Dir() {
	sessions, done := newManager()
	defer done()
	s, err := sessions.Open("demo")
	if err != nil {
		log.Fatal(err)
	}
	s.AppendMessages([]session.Message{session.UserText("hi")})
	for _, path := range []string{s.HistoryPath(), s.CheckpointsDir(), s.ProcDir(), s.InboxDir(), s.TmpDir(), s.TurnPIDPath()} {
		rel, _ := filepath.Rel(sessions.BaseDir(), path)
		fmt.Println(filepath.ToSlash(rel))
	}
	_, err = sessions.Open("../demo")
	fmt.Println(errors.Is(err, session.ErrInvalidID))
	// Output:
	// demo/history.jsonl
	// demo/checkpoints
	// demo/proc
	// demo/inbox
	// demo/tmp
	// demo/turn.pid
	// true
}

// A message that arrives while the agent works is delivered once it is stored.
func ExampleSession_DrainInbox() {
	sessions, done := newManager()
	defer done()
	s, err := sessions.Open("demo")
	if err != nil {
		log.Fatal(err)
	}
	sessions.PutInbox("demo", "stop after this file")      // another process
	sessions.PutInbox("demo", "and don't touch the tests") // another one
	delivered, err := s.DrainInbox(context.Background(), nil)
	if err != nil {
		log.Fatal(err)
	}
	messages, _ := s.Load()
	for i, m := range messages {
		fmt.Println(m, m.ID == delivered[i].ID)
	}
	// Output:
	// user: stop after this file true
	// user: and don't touch the tests true
}

// Output that is too large for a message goes to a file.
func ExampleSession_Spill() {
	sessions, done := newManager()
	defer done()
	s, err := sessions.Open("demo")
	if err != nil {
		log.Fatal(err)
	}
	output := strings.Repeat("ok\n", 100_000)
	text, err := s.Spill("shell", []byte(output), &filestore.SpillOptions{Keep: 6})
	if err != nil {
		log.Fatal(err)
	}
	files, _ := os.ReadDir(s.TmpDir())
	fmt.Println(strings.ReplaceAll(text, filepath.Join(s.TmpDir(), files[0].Name()), "FILE"))
	// Output:
	// ok
	// ok
	//
	// [300000 bytes in all, too many for a message. The whole output is in FILE]
	// ok
	// ok
}

// A summary opens a new session, which the old name leads to.
func ExampleSession_Compact() {
	sessions, done := newManager()
	defer done()
	s, err := sessions.Open("long")
	if err != nil {
		log.Fatal(err)
	}
	s.AppendMessages([]session.Message{session.UserText("hi"), session.AssistantText("hello")})
	if _, err := s.Compact("They greeted each other.", &filestore.CompactOptions{Name: "short"}); err != nil {
		log.Fatal(err)
	}
	next, err := sessions.Open("long")
	if err != nil {
		log.Fatal(err)
	}
	messages, _ := next.Load()
	fmt.Println(next.Name(), next.Meta().Parent, messages)
	old, _ := sessions.LoadSession("long")
	fmt.Println(old)
	// Output:
	// short long [user: [Summary of the conversation so far] They greeted each other.]
	// [user: hi assistant: hello]
}
