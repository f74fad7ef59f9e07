package filestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"github.com/holdfast-go/session"
)

// Load implements session.Store. A torn tail, which was never acknowledged, does
// not count; other damage is an ErrCorrupt that is a [*Damage].
func (s *Store) Load(ctx context.Context, sessionID string) ([]session.Message, error) {
	messages, err := s.DriverBackend.Load(ctx, sessionID)
	return messages, s.explain(ctx, "load", sessionID, err)
}

// Read implements session.Log. See Load for damage.
func (s *Store) Read(ctx context.Context, sessionID string, opts *session.ReadOptions) (session.Snapshot, error) {
	snap, err := s.DriverBackend.Read(ctx, sessionID, opts)
	return snap, s.explain(ctx, "read", sessionID, err)
}

// explain says where the damage is that an error tells of.
func (s *Store) explain(ctx context.Context, op, id string, err error) error {
	var d *Damage
	if !errors.Is(err, session.ErrCorrupt) || errors.As(err, &d) {
		return err
	}
	if _, damage, salvageErr := s.salvage(ctx, id); salvageErr == nil && len(damage) > 0 {
		return &session.Error{Op: op, SessionID: id, Err: &damage[0]}
	}
	return err
}

// Salvage implements session.Salvager. Where of a Damage is file, line and
// offset.
func (s *Store) Salvage(ctx context.Context, sessionID string) (session.Snapshot, []session.Damage, error) {
	snap, damage, err := s.DriverBackend.Salvage(ctx, sessionID)
	if err != nil || len(damage) == 0 {
		return snap, damage, err
	}
	err = s.call("salvage", sessionID, func() error { return s.driver.locate(ctx, sessionID, damage, func(int, Damage) {}) })
	return snap, damage, err
}

// salvage is Salvage, with the damage as this package tells of it, and tells
// OnDamage.
func (s *Store) salvage(ctx context.Context, id string) (session.Snapshot, []Damage, error) {
	snap, damage, err := s.DriverBackend.Salvage(ctx, id)
	if err != nil || len(damage) == 0 {
		return snap, nil, err
	}
	located := make([]Damage, len(damage))
	err = s.call("salvage", id, func() error {
		return s.driver.locate(ctx, id, damage, func(i int, d Damage) {
			located[i] = d
			if f := s.opts.OnDamage; f != nil {
				f(d)
			}
		})
	})
	return snap, located, err
}

// locate finds the lines that damaged messages are in.
func (d *files) locate(ctx context.Context, id string, damage []session.Damage, found func(i int, d Damage)) error {
	places := make(map[int]Damage)
	wanted := make(map[int]bool)
	for _, dm := range damage {
		wanted[dm.Position-1] = true
	}
	var name string
	err := d.with(ctx, id, func(l *log) error {
		name = l.name
		if err := l.refresh(ctx); err != nil || l.file == nil {
			return err
		}
		f := fold{history: &history{}, report: func(Damage) {}, placed: func(pos int, dm Damage) {
			if wanted[pos] {
				places[pos] = dm
			}
		}}
		return f.scan(ctx, l.file, l.history.size)
	})
	if err != nil {
		return err
	}
	for i := range damage {
		p := places[damage[i].Position-1]
		p.File = name
		if p.Err == nil || !errors.Is(p.Err, errNotLine) {
			p.Err = damage[i].Err
		}
		damage[i].Where, damage[i].Err = fmt.Sprintf("%s line %d, offset %d", name, p.Line, p.Offset), p.Err
		found(i, p)
	}
	return nil
}

// Repair takes what is damaged out of a session's files, and returns what that
// is. Damaged lines, and batches without their end, go to a file
// history.damaged-TIME.jsonl beside the history, and a meta.json that can't be
// read becomes meta.damaged-TIME.json: nothing is deleted. What is whole stays,
// byte for byte, but for what counts lines. If messages were lost the session
// has another version and Base afterwards. Of a session that is whole, or that
// does not exist, Repair changes nothing.
func (s *Store) Repair(ctx context.Context, sessionID string) (found []Damage, err error) {
	if err := session.CheckID(sessionID); err != nil {
		return nil, &session.Error{Op: "repair", SessionID: sessionID, Err: err}
	}
	err = s.call("repair", sessionID, func() error {
		return s.driver.with(ctx, sessionID, func(l *log) (err error) {
			found, err = l.repair(ctx)
			return err
		})
	})
	return found, err
}

func (l *log) repair(ctx context.Context) (found []Damage, err error) {
	for {
		err := l.open(false)
		if errors.Is(err, fs.ErrNotExist) {
			l.forget()
			return l.repairLost()
		}
		if err != nil {
			return nil, err
		}
		err = l.ready(ctx)
		if err == errReplaced {
			l.forget()
			continue
		}
		if errors.Is(err, errLost) {
			return l.repairLost()
		}
		if err != nil {
			return nil, err
		}
		defer l.unlock()
		return l.repairLocked(ctx)
	}
}

// repairLost puts the meta.json aside that tells of a history that is no more.
func (l *log) repairLost() ([]Damage, error) {
	err := l.missing()
	if err == nil && l.file == nil {
		return nil, nil
	}
	if _, err := putMetaAside(l.d.root, l.dir, l.d.opts.Clock()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return []Damage{{File: l.name, Err: errLost}}, nil
}

func (l *log) repairLocked(ctx context.Context) (found []Damage, err error) {
	if _, err := readMeta(l.d.root, l.dir); errors.Is(err, session.ErrCorrupt) {
		aside, err := putMetaAside(l.d.root, l.dir, l.d.opts.Clock())
		if err != nil {
			return nil, err
		}
		found = append(found, Damage{File: path.Join(l.dir, metaName), Err: fmt.Errorf("%w: now %s", session.ErrCorrupt, aside)})
		defer l.checkpointSoon()
	}
	r := rewriting{size: l.seen}
	if err := r.look(ctx, l.file); err != nil {
		return found, err
	}
	if len(r.damage) == 0 {
		return found, nil
	}
	for i := range r.damage {
		r.damage[i].File = l.name
	}
	return append(found, r.damage...), l.rewrite(ctx, &r)
}

// rewriting is how a history is to be written anew.
type rewriting struct {
	size   int64
	damage []Damage
	lost   bool            // messages that counted
	lines  map[int64]*line // those that change, by their offsets
	drop   map[int64]bool  // where lines begin that go
	live   []bool          // of the messages so far, whether they are whole
	batch  []*pendingLine  // lines of a batch that is not whole
}

// look finds what is to be done.
func (r *rewriting) look(ctx context.Context, file io.ReaderAt) error {
	r.lines, r.drop = make(map[int64]*line), make(map[int64]bool)
	f := fold{history: &history{}}
	f.report = func(d Damage) { r.damage = append(r.damage, d) }
	f.placed = func(pos int, d Damage) {
		r.live = append(r.live[:min(pos, len(r.live))], !errors.Is(d.Err, errNotLine))
		if errors.Is(d.Err, errNotLine) {
			r.lost = true
		}
	}
	f.each = func(p *pendingLine) { r.line(f.head.Count, p) }
	f.decodes = func(message []byte) bool {
		_, err := session.DecodeMessage(message)
		r.lost = r.lost || err != nil
		return err == nil
	}
	if err := f.scan(ctx, file, r.size); err != nil {
		return err
	}
	slices.SortFunc(r.damage, func(a, b Damage) int { return int(a.Offset - b.Offset) })
	return nil
}

// line looks at a line that counts, before it does.
func (r *rewriting) line(count int, p *pendingLine) {
	last := len(r.batch) - 1
	switch { // a batch that has lost lines counts down over those that are left
	case p.more > 0:
		q := *p
		r.batch = append(r.batch, &q)
	case last >= 0:
		r.endBatch(p.commit != "")
	}
	if p.kind == KindRollback && r.lost {
		keep := max(count-p.dropped, 0)
		if p.keep >= 0 {
			keep = min(keep, p.keep)
		}
		l := r.changed(p)
		l.keep = whole(r.live[:min(keep, len(r.live))])
		l.dropped = whole(r.live[:min(count, len(r.live))]) - l.keep
		if l.base == "" && l.commit != "" {
			l.base = l.commit
		}
	}
}

// endBatch numbers the lines of a batch anew, of which the last one follows if
// ended is true.
func (r *rewriting) endBatch(ended bool) {
	for i, p := range r.batch {
		more := len(r.batch) - i
		if !ended {
			more--
		}
		if more == p.more {
			continue
		}
		l := r.changed(p)
		if l.more = more; more == 0 {
			l.commit = madeRev(nil, p.at)
		}
	}
	r.batch = nil
}

// changed returns the line that is written in place of p.
func (r *rewriting) changed(p *pendingLine) *line {
	l := r.lines[p.at]
	if l == nil {
		l = new(line)
		*l = p.line
		r.lines[p.at] = l
	}
	return l
}

func whole(live []bool) (n int) {
	for _, w := range live {
		if w {
			n++
		}
	}
	return n
}

// rewrite moves the damaged parts of the history to a file beside it.
func (l *log) rewrite(ctx context.Context, r *rewriting) error {
	if len(r.batch) > 0 {
		r.endBatch(false)
	}
	now := l.d.opts.Clock().UTC()
	aside, err := l.copyDamaged(r, now)
	if err != nil {
		return err
	}
	temp, err := l.copyWhole(ctx, r, aside, now)
	if err != nil {
		return err
	}
	if m, err := l.readMeta(); err != nil {
		return errors.Join(err, l.d.root.Remove(temp))
	} else if len(m.Head) > 0 {
		m.Head = nil // it is of the old file
		if err := writeMeta(l.d.root, l.dir, m, true); err != nil {
			return errors.Join(err, l.d.root.Remove(temp))
		}
	}
	if err := l.d.root.Rename(temp, l.name); err != nil {
		return errors.Join(err, l.d.root.Remove(temp))
	}
	l.forget()
	return syncDir(l.d.root, l.dir)
}

// copyDamaged writes the damaged parts to a file of their own and returns its
// name.
func (l *log) copyDamaged(r *rewriting, now time.Time) (string, error) {
	var f *os.File
	var name string
	for n := 0; f == nil; n++ {
		name = fmt.Sprintf("history.damaged-%s.jsonl", now.Format("20060102T150405.000000000Z"))
		if n > 0 {
			name = fmt.Sprintf("history.damaged-%s-%d.jsonl", now.Format("20060102T150405.000000000Z"), n)
		}
		var err error
		f, err = l.d.root.OpenFile(path.Join(l.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	for _, d := range r.damage {
		if _, err := io.Copy(w, io.NewSectionReader(l.file, d.Offset, d.Length)); err != nil {
			return "", err
		}
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	return name, syncDir(l.d.root, l.dir)
}

// copyWhole writes what is whole to a temporary file and returns its path.
func (l *log) copyWhole(ctx context.Context, r *rewriting, aside string, now time.Time) (string, error) {
	temp, err := writeTemp(l.d.root, l.dir, nil, false)
	if err != nil {
		return "", err
	}
	f, err := l.d.root.OpenFile(temp, os.O_WRONLY|os.O_APPEND, fileMode)
	if err != nil {
		return "", errors.Join(err, l.d.root.Remove(temp))
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, scanChunk)
	next := 0
	err = scanLines(ctx, l.file, 0, r.size, func(b []byte, at int64, _ bool) bool {
		for next < len(r.damage) && at >= r.damage[next].Offset+r.damage[next].Length {
			next++
		}
		switch {
		case next < len(r.damage) && at >= r.damage[next].Offset, len(b) == 0:
		case r.lines[at] != nil:
			w.Write(r.lines[at].append(nil)) // Flush returns what went wrong
		default:
			w.Write(b)
			w.WriteByte('\n')
		}
		return true
	})
	if r.lost {
		w.Write(l.repairNote(len(r.damage), aside, now))
	}
	err = errors.Join(err, w.Flush())
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return "", errors.Join(err, l.d.root.Remove(temp))
	}
	return temp, nil
}

// repairNote returns lines that say that messages are gone. The second, without
// a commit, gives the history another version and Base.
func (l *log) repairNote(n int, aside string, now time.Time) []byte {
	text := fmt.Sprintf("Repair: %d damaged parts of the history are in %s now.", n, aside)
	b := append([]byte(`{"ts":"`), now.Format(time.RFC3339Nano)...)
	b = appendString(append(b, `","kind":"notice","text":`...), text)
	b = append(b, "}\n"...)
	mark := line{ts: now, kind: KindRollback, keep: -1}
	return mark.append(b)
}
