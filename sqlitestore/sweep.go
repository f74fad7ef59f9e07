package sqlitestore

import (
	"context"
	"database/sql/driver"
	"sync"
	"time"
)

const (
	// sweepEvery is how often a write may start a sweep, by the store's clock.
	sweepEvery = time.Minute
	// sweepSessions is how many due sessions one transaction looks at, and
	// sweepMessages how many messages it removes, but for those of a session
	// that has more: other writers wait meanwhile.
	sweepSessions = 64
	sweepMessages = 10_000

	dueSessions = `SELECT s.number, s.id, m.expires, m.key FROM ` + headTables + ` WHERE s.due <= ?1 ORDER BY s.due LIMIT ?2`
	setDue      = `UPDATE sessions SET due = ?2 WHERE number = ?1`
)

// sweeps are the sweeps that writes start.
type sweeps struct {
	mu      sync.Mutex
	last    time.Time
	running bool
	wg      sync.WaitGroup
}

func (s *sweeps) wait() { s.wg.Wait() }

// Sweep removes expired sessions and returns how many. Nobody needs to call it
// for correctness: expired sessions are absent, and every minute a write, if
// there is one, removes some in the background.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	err = s.call("sweep", func() (err error) {
		removed, err = s.driver.sweep(ctx)
		return err
	})
	return removed, err
}

// sweepSometimes starts a sweep of one transaction if the last one was long
// enough ago.
func (d *database) sweepSometimes() {
	s, now := &d.sweeps, d.opts.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := now.Sub(s.last); s.running || since >= 0 && since < sweepEvery {
		return
	}
	s.last, s.running = now, true
	s.wg.Go(func() {
		// An error is not lost: what stands in the way of this write stands
		// in the way of the caller's too, and the next sweep tries again.
		_, more, _ := d.sweepOnce(context.Background())
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running = false; more {
			s.last = time.Time{}
		}
	})
}

func (d *database) sweep(ctx context.Context) (removed int, err error) {
	for {
		n, more, err := d.sweepOnce(ctx)
		removed += n
		if err != nil || !more {
			return removed, err
		}
	}
}

// sweepOnce removes some of the expired sessions in one transaction. more says
// that there may be others.
func (d *database) sweepOnce(ctx context.Context) (removed int, more bool, err error) {
	now := d.opts.Clock().UnixNano()
	err = d.writer.submit(ctx, maxGroupBytes, func(ctx context.Context, w *writer) error {
		removed, more = 0, false
		type due struct {
			number  int64
			id      string
			expires driver.Value
		}
		var all []due
		messages := 0
		err := w.conn.query(context.Background(), dueSessions, func(v []driver.Value) error {
			if messages > sweepMessages {
				more = true
				return nil
			}
			key, _ := v[3].(int64)
			messages += positionOf(key)
			all = append(all, due{v[0].(int64), v[1].(string), v[2]})
			return nil
		}, now, int64(sweepSessions))
		if err != nil {
			return err
		}
		more = more || len(all) == sweepSessions
		for _, s := range all {
			delete(w.known, s.id)
			query, args := dropping, []driver.Value{s.number}
			if expires, ok := s.expires.(int64); !ok || expires > now {
				query, args = setDue, append(args, s.expires)
			} else {
				removed++
			}
			if _, err := w.conn.run(query, args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		removed = 0
	}
	return removed, more, err
}
