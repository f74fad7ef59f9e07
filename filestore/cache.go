package filestore

import (
	"container/list"
	"sync"
)

// maxLogs is how many sessions are remembered, without their files being open.
const maxLogs = 1 << 13

// cache has the logs that are in use and those that were used last.
type cache struct {
	mu      sync.Mutex
	logs    map[string]*log
	recent  list.List // of all logs, the last used first
	opened  list.List // of those whose file is open, likewise
	maxOpen int
}

// place of a log in a cache, guarded by its mutex.
type cached struct {
	users  int
	recent *list.Element
	opened *list.Element // nil: its file is not open
}

// acquire returns the log of a session. The caller releases it.
func (c *cache) acquire(id string, create func() (*log, error)) (*log, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.logs[id]
	if l == nil {
		var err error
		if l, err = create(); err != nil {
			return nil, err
		}
		c.logs[id] = l
		l.cached.recent = c.recent.PushFront(l)
		if len(c.logs) > maxLogs {
			c.forgetOne()
		}
	} else {
		c.recent.MoveToFront(l.cached.recent)
		if l.cached.opened != nil {
			c.opened.MoveToFront(l.cached.opened)
		}
	}
	l.cached.users++
	return l, nil
}

// release ends the use of a log. One of which nothing is known is forgotten.
func (c *cache) release(l *log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.cached.users--; l.cached.users == 0 && l.file == nil && !l.known {
		c.forget(l)
	}
}

// forgetOne forgets the log that has not been used for the longest time.
func (c *cache) forgetOne() {
	for e := c.recent.Back(); e != nil; e = e.Prev() {
		if l := e.Value.(*log); l.cached.users == 0 {
			c.forget(l)
			return
		}
	}
}

// forget removes a log that nobody uses.
func (c *cache) forget(l *log) {
	c.shut(l)
	c.recent.Remove(l.cached.recent)
	delete(c.logs, l.id)
}

// shut closes the file of a log that nobody uses.
func (c *cache) shut(l *log) {
	if l.cached.opened != nil {
		c.opened.Remove(l.cached.opened)
		l.cached.opened = nil
		l.file.Close() // nothing of it is left to be written
		l.file = nil
	}
}

// noteOpen makes room for a file that a user of l has opened.
func (c *cache) noteOpen(l *log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.cached.opened = c.opened.PushFront(l)
	for e := c.opened.Back(); c.opened.Len() > c.maxOpen && e != nil; {
		other := e.Value.(*log)
		e = e.Prev()
		if other.cached.users == 0 {
			c.shut(other)
		}
	}
}

// noteClosed notes that a user of l has closed its file.
func (c *cache) noteClosed(l *log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.cached.opened != nil {
		c.opened.Remove(l.cached.opened)
		l.cached.opened = nil
	}
}

// close closes all files. Nobody uses a log any more.
func (c *cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.logs {
		c.shut(l)
	}
}

// crowded reports whether most of the files that may be open are.
func (c *cache) crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened.Len() > c.maxOpen*3/4
}
