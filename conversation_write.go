package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// appendToLog appends at the version that is known, and settles conflicts.
func (c *Conversation) appendToLog(ctx context.Context, added []Message) error {
	opts := &WriteOptions{IfVersion: c.version, Key: c.keys.next()}
	for {
		var v Version
		err := c.retry(ctx, func() (err error) {
			v, err = c.log.Append(ctx, c.id, added, opts)
			return err
		})
		switch {
		case err == nil && opts.IfVersion == AnyVersion: // behind what another wrote
			return c.catchUp(ctx, false)
		case err == nil:
			c.recent, c.version = append(c.recent, added...), v
			return nil
		case !errors.Is(err, ErrConflict) || c.opts.OnConflict == ConflictFail:
			return err
		case c.opts.OnConflict == ConflictAppend:
			opts.IfVersion = AnyVersion
		default:
			if err := c.catchUp(ctx, true); err != nil {
				return err
			}
			opts.IfVersion = c.version
		}
	}
}

// keyMaker makes keys that no other write of a session has: a random beginning
// and a number.
type keyMaker struct {
	random string
	made   uint64
}

func (k *keyMaker) next() string {
	if k.random == "" {
		k.random = fmt.Sprintf("%016x%016x-", rand.Uint64(), rand.Uint64())
	}
	k.made++
	var b [64]byte
	return string(strconv.AppendUint(append(b[:0], k.random...), k.made, 36))
}

// settle makes history the session's, if it is not already.
func (c *Conversation) settle(ctx context.Context, history []Message) error {
	known := c.history()
	if len(known) <= len(history) && EqualMessages(known, history[:len(known)]) {
		return c.Append(ctx, history[len(known):]...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	patient := outlive(ctx, c.opts.WriteTimeout)
	defer patient.end()
	stored, err := Canonical(history)
	if err != nil {
		return wrapError("replace", c.id, err)
	}
	if c.log == nil {
		unlock := plainStores.lock(plainSession{c.store, c.id})
		defer unlock()
		err = c.retry(patient, func() error { return c.store.Save(patient, c.id, stored) })
	} else {
		opts := &WriteOptions{IfVersion: c.version, Key: c.keys.next()}
		err = c.retry(patient, func() error {
			v, err := c.log.Replace(patient, c.id, stored, opts)
			if err == nil {
				c.version = v
			}
			return err
		})
	}
	if err == nil {
		c.become(stored)
	}
	return err
}

// become takes up another history.
func (c *Conversation) become(history []Message) { c.messages, c.recent = history, nil }

// catchUp takes up what the session has become. If only appends will do, and
// what was known is no longer its beginning: ErrConflict.
func (c *Conversation) catchUp(ctx context.Context, onlyAppends bool) error {
	s, err := c.log.Read(ctx, c.id, nil)
	if err != nil {
		return err
	}
	if known := c.known(); onlyAppends && (s.Total < len(known) || !EqualMessages(s.Messages[:len(known)], known)) {
		return wrapError("append", c.id, &conflict{s.Version})
	}
	c.become(s.Messages)
	c.version = s.Version
	return nil
}

// appendToStore loads and saves, for a store that can't append. Conversations
// of this process take turns.
func (c *Conversation) appendToStore(ctx context.Context, added []Message) error {
	unlock := plainStores.lock(plainSession{c.store, c.id})
	defer unlock()
	stored, err := c.store.Load(ctx, c.id)
	if err != nil {
		return err
	}
	known := c.known()
	switch {
	case len(stored) == len(known)+len(added) && EqualMessages(stored[len(known):], added):
		// A try that failed had succeeded.
	case c.opts.OnConflict == ConflictFail && !EqualMessages(stored, known):
		return wrapError("append", c.id, ErrConflict)
	default:
		stored = append(stored, added...)
		if err := c.store.Save(ctx, c.id, stored); err != nil {
			return err
		}
	}
	c.become(stored)
	return nil
}

// retry makes a write, again if it fails for a reason that may pass.
func (c *Conversation) retry(ctx context.Context, write func() error) error {
	for try := 0; ; try++ {
		err := write()
		if err == nil || try >= c.opts.Retries || final(err) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond << min(try, 6)):
		case <-ctx.Done():
			return err
		}
	}
}

// final reports whether trying again can't help.
func final(err error) bool {
	for _, e := range []error{
		ErrConflict, ErrInvalidID, ErrInvalidMessage, ErrInvalidOption, ErrTooLarge, ErrCorrupt, ErrNewerFormat,
		ErrClosed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
