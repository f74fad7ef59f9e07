package session

// Turn is a part of a history: the messages from First up to, not including,
// End, both indexes.
type Turn struct{ First, End int }

// Turns divides a history into turns. A turn begins with a user message that
// holds more than tool results, and goes on up to the next. What stands before
// the first turn, such as system messages, is the preamble and in none. It
// looks at each message once and copies nothing.
func Turns(messages []Message) []Turn {
	var turns []Turn
	for i, m := range messages {
		if !beginsTurn(m) {
			continue
		}
		if n := len(turns); n > 0 {
			turns[n-1].End = i
		}
		turns = append(turns, Turn{i, len(messages)})
	}
	return turns
}

func beginsTurn(m Message) bool {
	if m.Role != RoleUser {
		return false
	}
	for _, b := range m.Content {
		if _, ok := b.(*ToolResultBlock); !ok {
			return true
		}
	}
	return len(m.Content) == 0
}
