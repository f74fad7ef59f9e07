package filestore

import (
	"time"

	"github.com/holdfast-go/session"
)

// Kind names what a line of history.jsonl records.
type Kind string

const (
	// KindMessage is one message of the conversation.
	KindMessage Kind = "message"
	// KindToolResult is a message that is a tool's result, with which tool
	// produced it and how long it took.
	KindToolResult Kind = "tool_result"
	// KindNotice is something that happened to the turn rather than in the
	// conversation: an interrupt, a limit that was met, a process that ended.
	KindNotice Kind = "notice"
	// KindSettings records the model and options that a turn ran with.
	KindSettings Kind = "settings"
	// KindRollback records that the last few messages are no longer part of
	// the conversation. They stay in the file.
	KindRollback Kind = "rollback"

	// kindMeta records what meta.json was set to.
	kindMeta Kind = "meta"
)

// Event is one line of history.jsonl.
type Event struct {
	TS   time.Time `json:"ts"`
	Kind Kind      `json:"kind"`

	// Message is set on KindMessage and KindToolResult.
	Message *session.Message `json:"message,omitempty"`

	// Tool and MS (milliseconds) accompany KindToolResult.
	Tool string `json:"tool,omitempty"`
	MS   int64  `json:"ms,omitempty"`

	// Text accompanies KindNotice.
	Text string `json:"text,omitempty"`

	// Model, MergeThinking and Tools accompany KindSettings. Tools is what the
	// model was offered.
	Model         string   `json:"model,omitempty"`
	MergeThinking *bool    `json:"merge_thinking,omitempty"`
	Tools         []string `json:"tools,omitempty"`

	// Dropped accompanies KindRollback: how many messages at the end of the
	// history so far are no longer part of the conversation.
	Dropped int `json:"dropped,omitempty"`
}
