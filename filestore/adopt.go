package filestore

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/session"
)

// adopt gives h, the head of a history into which others have written, a Record.
// What a Record holds is the contract's own business, so it comes from a session
// that the contract makes, whose history it has not got the hash of. The
// version then shows the history's own revision.
func (l *log) adopt(ctx context.Context, h *session.Head) error {
	if h.Updated.IsZero() { // no line says when it was written
		info, err := l.file.Stat()
		if err != nil {
			return err
		}
		h.Updated = info.ModTime().UTC()
	}
	if l.adopted == nil {
		created := l.history.created
		if created.IsZero() {
			created = h.Updated
			if m, err := readMeta(l.d.root, l.dir); err == nil && !m.Created.IsZero() {
				created = m.Created.UTC()
			}
		}
		var err error
		if l.adopted, err = newRecord(ctx, created); err != nil {
			return err
		}
	}
	h.Record = append([]byte(nil), l.adopted...)
	h.Appends = []session.Appended{{Rev: h.Rev}}
	return nil
}

// newRecord returns the Record of a session whose messages are not known.
func newRecord(ctx context.Context, created time.Time) ([]byte, error) {
	d := &recorder{}
	b := session.NewBackend(d, &session.BackendOptions{Clock: func() time.Time { return created }})
	defer b.Close()
	if _, err := b.Append(ctx, "s", []session.Message{session.UserText("a"), session.UserText("b")}, nil); err != nil {
		return nil, err
	}
	if _, err := b.Truncate(ctx, "s", 1, nil); err != nil {
		return nil, err
	}
	return d.head.Record, nil
}

// recorder is a driver that keeps one head.
type recorder struct{ head session.Head }

func (r *recorder) Head(context.Context, string) (session.Head, error) { return r.head, nil }

func (r *recorder) Range(context.Context, string, session.Head, int, int) ([][]byte, error) {
	return nil, session.ErrCorrupt
}

func (r *recorder) Commit(_ context.Context, _ string, c session.Commit) error {
	r.head = *c.Head
	return nil
}

func (r *recorder) Heads(context.Context, session.HeadQuery) iter.Seq2[session.Head, error] {
	return func(func(session.Head, error) bool) {}
}

func (r *recorder) Close() error { return nil }
