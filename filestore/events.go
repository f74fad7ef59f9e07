package filestore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"time"

	"github.com/holdfast-go/session"
)

// appendEvents writes events in their order. A run of messages is one commit,
// made like any other of the Backend; a rollback is one too, of all messages if
// it drops more than there are. Notices and settings are no part of the history:
// the version stays.
func (s *Store) appendEvents(ctx context.Context, id string, events []Event) error {
	for len(events) > 0 {
		n := 0
		for n < len(events) && events[n].Kind.hasMessage() {
			n++
		}
		var err error
		switch {
		case n > 0:
			err = s.appendMessages(ctx, id, events[:n])
		case events[0].Kind == KindRollback:
			n, err = 1, s.rollBack(ctx, id, events[0].Dropped)
		default:
			for n < len(events) && (events[n].Kind == KindNotice || events[n].Kind == KindSettings) {
				n++
			}
			if n == 0 {
				return fmt.Errorf("%w: an event of another kind", session.ErrInvalidOption)
			}
			err = s.appendNotes(ctx, id, events[:n])
		}
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// notesKey is the key of what a context says about the messages of a commit.
type notesKey struct{}

func notesOf(ctx context.Context) []Event {
	notes, _ := ctx.Value(notesKey{}).([]Event)
	return notes
}

func (s *Store) appendMessages(ctx context.Context, id string, events []Event) error {
	messages := make([]session.Message, len(events))
	for i, e := range events {
		if e.Message == nil {
			return fmt.Errorf("%w: event %d has none", session.ErrInvalidMessage, i+1)
		}
		if y := e.TS.UTC().Year(); y < 1 || y > 9999 {
			return fmt.Errorf("%w: the time of event %d", session.ErrInvalidOption, i+1)
		}
		messages[i] = *e.Message
	}
	_, err := s.Append(context.WithValue(ctx, notesKey{}, events), id, messages, nil)
	return err
}

func (s *Store) rollBack(ctx context.Context, id string, n int) error {
	for {
		info, err := s.Info(ctx, id)
		if errors.Is(err, session.ErrNotFound) {
			return nil
		}
		drop := min(n, info.Messages)
		if err != nil || drop <= 0 {
			return err
		}
		_, err = s.Truncate(ctx, id, info.Messages-drop, &session.WriteOptions{IfVersion: info.Version})
		if !errors.Is(err, session.ErrConflict) {
			return err
		}
	}
}

// note is the form of a notice or settings.
type note struct {
	TS            time.Time `json:"ts"`
	Kind          Kind      `json:"kind"`
	Text          string    `json:"text,omitempty"`
	Model         string    `json:"model,omitempty"`
	MergeThinking *bool     `json:"merge_thinking,omitempty"`
	Tools         []string  `json:"tools,omitempty"`
}

// appendNotes writes notices and settings, and creates the file if need be.
func (s *Store) appendNotes(ctx context.Context, id string, events []Event) error {
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	lines.SetEscapeHTML(false) // so that grep finds what was written
	for _, e := range events {
		n := note{e.TS.UTC(), e.Kind, e.Text, e.Model, e.MergeThinking, e.Tools}
		if n.TS.IsZero() {
			n.TS = s.opts.Clock().Round(0).UTC()
		}
		if err := lines.Encode(n); err != nil {
			return fmt.Errorf("%w: %w", session.ErrInvalidOption, err)
		}
	}
	b := text.Bytes()
	return s.call("append", id, func() error {
		return s.driver.with(ctx, id, func(l *log) error {
			return l.begin(ctx, func() error { return l.writeNotes(ctx, b) })
		})
	})
}

func (l *log) writeNotes(ctx context.Context, b []byte) error {
	first := l.seen == 0
	b = append(l.freshLine(nil), b...)
	if err := l.writeBytes(b, first); err != nil {
		return err
	}
	if err := l.catchUp(ctx, l.seen+int64(len(b)), func(Damage) {}, true); err != nil {
		l.known = false // the write was made; who comes next reads all
	}
	return nil
}

// Events yields the transcript, oldest first: what Load returns and, beside it,
// notices, settings, and messages that were taken back, before the rollback
// that did it. Of a line of another kind it yields the time and the kind.
// Batches without their end are not in it. A damaged line is an error that is a
// [*Damage], behind which it goes on; any other error is the last.
func (s *Session) Events(ctx context.Context) iter.Seq2[Event, error] {
	return s.store.events(ctx, s.id)
}

func (s *Store) events(ctx context.Context, id string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		var file *os.File
		var size int64
		err := s.call("read", id, func() (err error) {
			file, size, err = s.driver.transcript(ctx, id)
			return err
		})
		if err != nil {
			yield(Event{}, err)
		}
		if file == nil {
			return
		}
		defer file.Close()
		t := transcript{name: file.Name(), yield: yield}
		if err := t.read(ctx, file, size); err != nil && !t.stopped {
			yield(Event{}, &session.Error{Op: "read", SessionID: id, Err: err})
		}
	}
}

// transcript opens a history for reading and returns how much of it counts. It
// is a handle of its own: others may close the log's. No file: there is none.
func (d *files) transcript(ctx context.Context, id string) (file *os.File, size int64, err error) {
	err = d.with(ctx, id, func(l *log) error {
		if err := l.refresh(ctx); err != nil || l.history.size == 0 {
			return err
		}
		size = l.history.size
		if file, err = d.root.Open(l.name); errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		return err
	})
	return file, size, err
}

// transcript yields the events of a history.
type transcript struct {
	name    string
	yield   func(Event, error) bool
	stopped bool
}

func (t *transcript) read(ctx context.Context, r io.ReaderAt, size int64) error {
	f := fold{history: &history{}, report: func(d Damage) {
		d.File = t.name
		t.give(Event{}, &d)
	}}
	f.each = func(p *pendingLine) {
		e, err := p.event()
		var d *Damage
		if errors.As(err, &d) {
			d.File = t.name
		}
		t.give(e, err)
	}
	err := scanLines(ctx, r, 0, size, func(b []byte, at int64, whole bool) bool {
		f.next(b, at, whole)
		return !t.stopped
	})
	if err == nil && !t.stopped {
		f.end()
	}
	return err
}

func (t *transcript) give(e Event, err error) { t.stopped = t.stopped || !t.yield(e, err) }

// event returns the event that a line is.
func (p *pendingLine) event() (Event, error) {
	e := Event{TS: p.ts, Kind: p.kind, Tool: p.tool, MS: p.ms, Dropped: p.dropped}
	if p.kind.hasMessage() {
		m, err := session.DecodeMessage(p.message)
		if err != nil {
			d := p.place()
			d.Err = err
			return Event{}, &d
		}
		e.Message = &m
	}
	if p.kind == KindNotice || p.kind == KindSettings {
		var n note
		if err := json.Unmarshal(p.raw, &n); err != nil {
			d := p.place()
			d.Err = errNotLine
			return Event{}, &d
		}
		e.Text, e.Model, e.MergeThinking, e.Tools = n.Text, n.Model, n.MergeThinking, n.Tools
	}
	return e, nil
}

// liveMessages returns what is whole of the conversation, and what is damaged.
// Options.OnDamage is told too.
func (s *Store) liveMessages(ctx context.Context, id string) ([]session.Message, []Damage, error) {
	snap, damage, err := s.salvage(ctx, id)
	return snap.Messages, damage, err
}
