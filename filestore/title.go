package filestore

import (
	"os"

	"github.com/holdfast-go/session"
)

// Titles and run IDs are the same for every backend. They are package
// session's, and stand here for those who look for them beside the directories.
const (
	// MaxTitleChars is session.MaxTitleChars.
	MaxTitleChars = session.MaxTitleChars
	// TitleFallbackWords is session.TitleFallbackWords.
	TitleFallbackWords = session.TitleFallbackWords
)

// FirstWordsTitle is session.FirstWordsTitle.
func FirstWordsTitle(prompt string, n int) string { return session.FirstWordsTitle(prompt, n) }

// NormalizeTitle is session.NormalizeTitle.
func NormalizeTitle(s string) string { return session.NormalizeTitle(s) }

// RunIDFor is session.RunIDFor.
func RunIDFor(name string) string { return session.RunIDFor(name) }

const (
	// RunIDVar is the environment variable in which a process finds the run ID
	// of its session, to send it with each request. See RunIDFor.
	RunIDVar = "SESSION_RUN_ID"
	// FromUIVar is the environment variable by which a front end tells the
	// process that it starts for a turn that it has shown the prompt already.
	FromUIVar = "SESSION_FROM_UI"
)

// FromUI reports whether a front end has started this process: whether
// FromUIVar is set to anything but "", "0" and "false".
func FromUI() bool {
	switch os.Getenv(FromUIVar) {
	case "", "0", "false":
		return false
	}
	return true
}
