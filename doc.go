// Package session stores the conversations of LLM agents: durably, exactly, at
// a cost that follows the new message and not the history.
//
// # The tour
//
// A conversation is a slice of [Message]. A message has a [Role] and blocks of
// content: text, thinking, media, tool calls and their results, and whatever a
// provider has beyond these, kept whole. What is stored comes back as it was,
// byte for byte where that matters; see [AppendMessage] for the JSON form.
//
// A store is a [Backend]: a [Log] of messages with versions, appends and
// partial reads; a [Catalog] of sessions to list, name and delete; and a
// [Locker] for one turn at a time. All backends keep one contract, which is
// written out at [Backend]. Choose one at startup by a string:
//
//	stores := session.Openers{"memory": memstore.OpenURL, "sqlite": sqlitestore.OpenURL}
//	store, err := stores.Open(ctx, "sqlite:chat.db")
//
// Then:
//
//	history, err := store.Load(ctx, "ada")
//	version, err := store.Append(ctx, "ada", []session.Message{session.UserText("hi")}, nil)
//
// Two writers on one session are told apart by versions: pass the one you read
// as [WriteOptions].IfVersion, and the second to write gets [ErrConflict]. A
// retry after a timeout is safe with a [WriteOptions].Key.
//
// [Fork], [Copy] and [Rewind] work on any backend. [Turns] divides a history
// into turns.
//
// # In an agent loop
//
// [SessionPlugin] loads a history before a stream and stores each message as it
// comes. [TrimmingPlugin] shows the model a view of it that a [HistoryPolicy]
// makes; what is stored is never trimmed. Both are [Plugin]s, whose hooks [Run]
// or a loop of your own notifies. [Conversation] is the engine under them.
// [Validate] says what a provider would refuse, [Repair] makes a view that none
// refuses.
//
// # Writing a backend
//
// Implement the five methods of [Driver] and hand it to [NewBackend], which
// adds the rest of the contract; then let package storetest prove it. A store
// that only has Load and Save is a [Store], which is enough for some uses.
package session
