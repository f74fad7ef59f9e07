package session

import (
	"context"
	"sync"
)

// maxIdleSlots is how many sessions a DriverBackend remembers the heads of:
// half a kilobyte each, two if all their writes have keys.
const maxIdleSlots = 4096

// slot is what one process shares about one session: whose turn it is to
// write, and the head as its last writer left it. The head spares a warm
// append the read; another process may have moved on, which Commit notices.
type slot struct {
	turn  chan struct{} // holds a value while somebody writes
	users int           // guarded by slots.mu

	known *current // nil: not known. Guarded by turn

	wakeMu sync.Mutex
	wake   chan struct{} // closed when a lease of the session ends here
}

// slots is a bounded set of slots. Those in use always stay.
type slots struct {
	mu sync.Mutex
	m  map[string]*slot
}

func (s *slots) enter(id string) *slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.m[id]
	if sl == nil {
		sl = &slot{turn: make(chan struct{}, 1), wake: make(chan struct{})}
		if s.m == nil {
			s.m = make(map[string]*slot)
		}
		s.evict()
		s.m[id] = sl
	}
	sl.users++
	return sl
}

func (s *slots) leave(sl *slot) {
	s.mu.Lock()
	sl.users--
	s.mu.Unlock()
}

// evict forgets idle slots while there are too many. Which does not matter: a
// session in use is soon known again.
func (s *slots) evict() {
	for id, sl := range s.m {
		if len(s.m) < maxIdleSlots {
			return
		}
		if sl.users == 0 {
			delete(s.m, id)
		}
	}
}

// take waits for the turn to write.
func (sl *slot) take(ctx context.Context) error {
	select {
	case sl.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case sl.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (sl *slot) give() { <-sl.turn }

// waker returns a channel that is closed at the next call of wakeAll.
func (sl *slot) waker() <-chan struct{} {
	sl.wakeMu.Lock()
	defer sl.wakeMu.Unlock()
	return sl.wake
}

func (sl *slot) wakeAll() {
	sl.wakeMu.Lock()
	defer sl.wakeMu.Unlock()
	close(sl.wake)
	sl.wake = make(chan struct{})
}
