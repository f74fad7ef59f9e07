package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/session"
)

const (
	// maxInHead is how many older segments stay in the head, at about 50 bytes
	// each.
	maxInHead = 3
	// maxSegments is how many a history may have. Then the next commit that
	// drops messages writes those that stay anew, as one segment.
	maxSegments = 200
)

// rebase begins a new base: the segments are cut to what the commit keeps. It
// returns what is to be added to the history.
func (w *write) rebase(ctx context.Context, nonce string, h *session.Head) ([][]byte, error) {
	d, st, add := w.driver, w.st, w.c.Add
	w.next.count, w.next.last, w.next.older, w.next.olderAt = w.c.Keep, "", nil, ""
	if st.rev == "" {
		return add, nil
	}
	all, err := d.allSegments(ctx, w.id, st)
	if w.c.Keep == 0 && errors.Is(err, session.ErrCorrupt) {
		all, w.sweep, err = st.segments(), true, nil // expired and partly removed, or to be mended by this
	}
	if err != nil {
		return nil, err
	}
	kept := all
	if len(all) >= d.maxSegments && w.c.Keep > 0 {
		if add, err = w.rewritten(ctx); err != nil {
			return nil, err
		}
		w.next.count = 0
	}
	if kept, err = w.cut(ctx, all, w.next.count); err != nil {
		return nil, err
	}
	if !hidden(w.id) || st.count > 0 || st.last != "" { // a lease has nothing but its head
		w.drop(all, kept)
	}
	if len(kept) <= maxInHead {
		w.next.older = kept
	} else if n := len(all) - len(st.segments()); n > 0 && len(kept) >= n && kept[n-1] == all[n-1] && len(kept)-n <= maxInHead {
		w.next.olderAt, w.next.older = st.olderAt, kept[n:]
	} else {
		w.next.olderAt = sideKey(olderMark, w.next.seq, nonce)
		w.put(d.encodeBeside(w.id, w.next.olderAt, attrOlder, str(encodeSegments(kept)), w.next.seq, removalOf(h)))
	}
	if st.olderAt != "" && st.olderAt != w.next.olderAt {
		w.dead = append(w.dead, st.olderAt)
	}
	return add, nil
}

// rewritten returns the messages that stay and those that are added.
func (w *write) rewritten(ctx context.Context) ([][]byte, error) {
	lines, sure, err := w.driver.readLines(ctx, w.id, w.st, 0, w.c.Keep)
	if err != nil {
		return nil, err
	}
	for i, l := range lines {
		if l == nil {
			return nil, w.missing(ctx, i+1)
		}
	}
	if !sure {
		if err := w.current(ctx); err != nil {
			return nil, err
		}
	}
	return append(lines, w.c.Add...), nil
}

// cut returns the segments of the first keep messages.
func (w *write) cut(ctx context.Context, all []segment, keep int) ([]segment, error) {
	behind := 0
	for i, s := range all {
		if s.last < keep {
			behind = s.last
			continue
		}
		if keep == behind {
			return all[:i:i], nil
		}
		if s.last == keep {
			return all[: i+1 : i+1], nil
		}
		found, proved, err := w.driver.chain(ctx, w.id, s, behind+1, keep, keep)
		if err != nil {
			return nil, err
		}
		for _, b := range found {
			if b.start <= keep && keep <= b.until {
				if !proved {
					err = w.current(ctx)
				}
				return append(all[:i:i], segment{s.base, keep, b.key}), err
			}
		}
		return nil, w.missing(ctx, keep)
	}
	return all, nil
}

// current checks that the session still is in the state that the commit began
// with: what was read of it may not be of its history otherwise.
func (w *write) current(ctx context.Context) error {
	now, _, err := w.driver.readHead(ctx, w.id)
	if err == nil && now.rev != w.st.rev {
		err = session.ErrConflict
	}
	return err
}

// missing says why a message is not there.
func (w *write) missing(ctx context.Context, position int) error {
	if err := w.current(ctx); err != nil {
		return err
	}
	return fmt.Errorf("%w: message %d is missing", session.ErrCorrupt, position)
}

// drop notes what nothing names once the segments are those that are kept.
func (w *write) drop(all, kept []segment) {
	after := make(map[string]int) // base to the last position that stays
	for _, s := range kept {
		after[s.base] = s.last
	}
	current := escapeBase(w.st.base)
	for _, s := range append(all[:len(all):len(all)], segment{base: current, last: w.st.count}) {
		last, seen := after[s.base]
		if seen && last >= s.last {
			continue
		}
		after[s.base] = s.last // note each base once
		w.dropped = append(w.dropped, span{from: behindAt(s.base, last), to: behindAt(s.base, maxPosition)})
	}
}
