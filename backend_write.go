package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Save implements Store.
func (b *DriverBackend) Save(ctx context.Context, sessionID string, messages []Message) error {
	_, err := b.replace(ctx, "save", sessionID, messages, nil)
	return err
}

// Replace implements Log.
func (b *DriverBackend) Replace(ctx context.Context, sessionID string, messages []Message, opts *WriteOptions) (Version, error) {
	return b.replace(ctx, "replace", sessionID, messages, opts)
}

func (b *DriverBackend) replace(ctx context.Context, op, id string, messages []Message, opts *WriteOptions) (Version, error) {
	lines, err := b.encode(ctx, messages)
	if err != nil {
		return "", wrapError(op, id, err)
	}
	return b.write(ctx, op, id, opts, func(c *current, life uint64) (change, bool) {
		h, keep, seen := newHistoryHash(life), 0, 0
		if c.record != nil && c.hashed && c.count <= len(lines) {
			seen = c.count
			if h = h.addAll(lines[:seen]); h == c.hash {
				keep = seen
			}
		}
		return change{keep: keep, add: lines[keep:], hash: h.addAll(lines[seen:]), hashed: true}, true
	})
}

// Append implements Log.
func (b *DriverBackend) Append(ctx context.Context, sessionID string, messages []Message, opts *WriteOptions) (Version, error) {
	lines, err := b.encode(ctx, messages)
	if err != nil {
		return "", wrapError("append", sessionID, err)
	}
	return b.write(ctx, "append", sessionID, opts, func(c *current, life uint64) (change, bool) {
		ch := change{add: lines, hash: newHistoryHash(life), hashed: true}
		if c.record != nil {
			ch.keep, ch.hash, ch.hashed = c.count, c.hash, c.hashed
		}
		ch.hash = ch.hash.addAll(lines)
		return ch, len(lines) > 0
	})
}

// Truncate implements Log.
func (b *DriverBackend) Truncate(ctx context.Context, sessionID string, keep int, opts *WriteOptions) (Version, error) {
	if keep < 0 && ctx.Err() == nil {
		return "", wrapError("truncate", sessionID, fmt.Errorf("%w: keep %d", ErrInvalidOption, keep))
	}
	return b.write(ctx, "truncate", sessionID, opts, func(c *current, life uint64) (change, bool) {
		// The hash of what stays can't be told without reading it.
		return change{keep: keep, hash: newHistoryHash(life), hashed: keep == 0}, keep < c.count
	})
}

// encode checks and encodes the messages of a write.
func (b *DriverBackend) encode(ctx context.Context, messages []Message) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	lines, err := encodeMessages(messages)
	if err != nil {
		return nil, err
	}
	if most := b.opts.MaxBatchBytes; most > 0 {
		n := 0
		for _, l := range lines {
			n += len(l)
		}
		if n > most {
			return nil, fmt.Errorf("%w: %d bytes in one write, at most %d", ErrTooLarge, n, most)
		}
	}
	return lines, nil
}

// write makes one write of messages. plan says what it makes of the session as
// it is, or false if that changes nothing; life is the session's, or the one
// it will have.
func (b *DriverBackend) write(ctx context.Context, op, id string, opts *WriteOptions, plan func(c *current, life uint64) (change, bool)) (Version, error) {
	var o WriteOptions
	if opts != nil {
		o = *opts
	}
	v, err := b.writeChecked(ctx, id, o, plan)
	return v, wrapError(op, id, err)
}

func (b *DriverBackend) writeChecked(ctx context.Context, id string, o WriteOptions, plan func(*current, uint64) (change, bool)) (Version, error) {
	if err := b.begin(ctx, id); err != nil {
		return "", err
	}
	defer b.gate.Leave()
	if err := o.Check(); err != nil {
		return "", err
	}
	sl := b.slots.enter(id)
	defer b.slots.leave(sl)
	if err := sl.take(ctx); err != nil {
		return "", err
	}
	defer sl.give()

	var err error
	w := attempt{token: newToken(), key: o.Key, life: newToken()}
	known, fresh := sl.known, false // known may be behind; what is read below is not
	sl.known = nil
	for try := 0; ; try++ {
		if known == nil || !fresh && known.expired(b.now()) {
			if known, err = b.current(ctx, id); err != nil {
				return "", err
			}
			fresh = true
		}
		s, done := w.applied(known)
		ch, changes := plan(known, w.lifeOf(known))
		mismatch := o.IfVersion != AnyVersion && o.IfVersion != known.version()
		if done || mismatch || !changes {
			if !fresh {
				known = nil // look before saying so
				continue
			}
			sl.known = known
			switch {
			case done:
				return Version(s.String()), nil
			case mismatch:
				return "", &conflict{known.version()}
			}
			return known.version(), nil
		}
		now := b.now()
		next, commit := known.next(id, ch, w, now, b.expiry(now))
		made, seen, err := b.try(ctx, id, commit, func(c *current) bool { // not what another life shows of the same key
			return c.record != nil && c.life == next.life && w.shows(c)
		})
		if err != nil {
			return "", err
		}
		if made {
			sl.known = next
			return next.version(), nil
		}
		if seen == nil {
			if err := pause(ctx, try); err != nil {
				return "", err
			}
		}
		known, fresh = seen, true
	}
}

// attempt is what makes the commits of one call recognisable.
type attempt struct {
	token uint64 // unless there is a key
	key   string
	life  uint64 // of the session, if the call creates it
}

func (a attempt) lifeOf(c *current) uint64 {
	if c.record == nil {
		return a.life
	}
	return c.life
}

func (a attempt) tokenIn(life uint64) uint64 {
	if a.key != "" {
		return keyToken(life, a.key)
	}
	return a.token
}

// applied reports whether the session shows a commit of this attempt, or of an
// earlier call with the same key, and returns its stamp.
func (a attempt) applied(c *current) (stamp, bool) {
	if c.record == nil {
		return stamp{}, false
	}
	return c.find(a.tokenIn(c.life))
}

func (a attempt) shows(c *current) bool {
	_, shown := a.applied(c)
	return shown
}

// current reads a session's head.
func (b *DriverBackend) current(ctx context.Context, id string) (*current, error) {
	h, err := b.driver.Head(ctx, id)
	if err != nil {
		return nil, contextError(ctx, err)
	}
	return currentOf(h, b.now())
}

// resolveTimeout bounds the look at what became of a write whose reply was
// lost, which is made even if the caller's context is done.
const resolveTimeout = 5 * time.Second

// try makes one commit and reports whether it was made. When the reply was lost
// it looks whether the commit shows all the same, and returns what it saw if it
// does. Neither one nor the other: another came first, or, where the driver
// retries, perhaps the commit itself; read the session again. With an error the
// commit was not made, or nothing can be said.
func (b *DriverBackend) try(ctx context.Context, id string, c Commit, applied func(*current) bool) (made bool, seen *current, err error) {
	err = b.driver.Commit(ctx, id, c)
	switch {
	case err == nil:
		return true, nil, nil
	case errors.Is(err, ErrConflict):
		return false, nil, nil
	case errors.Is(err, ErrTooLarge), errors.Is(err, ErrNewerFormat):
		return false, nil, err
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), resolveTimeout)
	defer cancel()
	if seen, lookErr := b.current(look, id); lookErr == nil && applied(seen) {
		return false, seen, nil
	}
	return false, nil, contextError(ctx, err)
}

// Update implements Catalog.
func (b *DriverBackend) Update(ctx context.Context, sessionID string, change func(*Meta) error) (Info, error) {
	info, err := b.update(ctx, sessionID, change)
	return info, wrapError("update", sessionID, err)
}

func (b *DriverBackend) update(ctx context.Context, id string, edit func(*Meta) error) (Info, error) {
	if err := b.begin(ctx, id); err != nil {
		return Info{}, err
	}
	defer b.gate.Leave()
	w := attempt{token: newToken()}
	var edited editedMeta
	for try := 0; ; try++ {
		h, err := b.driver.Head(ctx, id)
		if err != nil {
			return Info{}, contextError(ctx, err)
		}
		cur, err := currentOf(h, b.now())
		if err != nil {
			return Info{}, err
		}
		if _, done := w.applied(cur); done {
			return infoOf(h)
		}
		if cur.record == nil {
			return Info{}, ErrNotFound
		}
		if edited.life != cur.life || !bytes.Equal(edited.from, h.Meta) {
			if edited, err = editMeta(h, cur.life, edit); err != nil {
				return Info{}, err
			}
		}
		now := b.now()
		_, commit := cur.next(id, change{keep: h.Count, meta: edited.to, setMeta: true}, w, now, b.expiry(now))
		made, seen, err := b.try(ctx, id, commit, w.shows)
		if err != nil {
			return Info{}, err
		}
		if made {
			return infoOf(*commit.Head)
		}
		if seen == nil {
			if err := pause(ctx, try); err != nil {
				return Info{}, err
			}
		}
	}
}

// editedMeta is what an Update has made of a Meta. It is good for another try
// if only messages were written meanwhile.
type editedMeta struct {
	life     uint64 // of the session
	from, to []byte
}

func editMeta(h Head, life uint64, edit func(*Meta) error) (editedMeta, error) {
	info, err := infoOf(h)
	if err != nil {
		return editedMeta{}, err
	}
	if err := edit(&info.Meta); err != nil {
		return editedMeta{}, err
	}
	to, err := EncodeMeta(info.Meta)
	return editedMeta{life, h.Meta, to}, err
}

// Delete implements Catalog.
func (b *DriverBackend) Delete(ctx context.Context, sessionID string, opts *WriteOptions) error {
	var o WriteOptions
	if opts != nil {
		o = *opts
	}
	return wrapError("delete", sessionID, b.delete(ctx, sessionID, o))
}

func (b *DriverBackend) delete(ctx context.Context, id string, o WriteOptions) error {
	if err := b.begin(ctx, id); err != nil {
		return err
	}
	defer b.gate.Leave()
	if o.Key != "" {
		return fmt.Errorf("%w: Delete with a Key", ErrInvalidOption)
	}
	first, err := b.current(ctx, id)
	if err != nil {
		return err
	}
	// Gone, or another session in its place: never to be removed by this call.
	gone := func(c *current) bool {
		return c.record == nil || first.record == nil || c.life != first.life
	}
	for cur, try := first, 0; ; try++ {
		if o.IfVersion != AnyVersion && o.IfVersion != cur.version() {
			return &conflict{cur.version()}
		}
		if cur.rev == "" || try > 0 && gone(cur) {
			return nil
		}
		made, seen, err := b.try(ctx, id, Commit{IfRev: cur.rev}, func(c *current) bool {
			// With a version it matters who removed it.
			return o.IfVersion == AnyVersion && gone(c)
		})
		if made || seen != nil || err != nil {
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
		if cur, err = b.current(ctx, id); err != nil {
			return err
		}
	}
}
