package dynamostore

import (
	"container/list"
	"sync"
)

// cacheSize is how many sessions a driver remembers, at about 1 KiB each.
const cacheSize = 8192

// cache remembers the states of the sessions that were used last. It may be
// behind: what is done by it is checked against the head, by its revision or
// its base.
type cache struct {
	mu    sync.Mutex
	byID  map[string]*list.Element
	order *list.List // of cached, last used first
}

type cached struct {
	id string
	st state
}

func newCache() *cache {
	return &cache{byID: make(map[string]*list.Element), order: list.New()}
}

func (c *cache) get(id string) (state, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byID[id]
	if e == nil {
		return state{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).st, true
}

// put remembers a state, unless a later one of the same history is known. A
// session that begins anew may count from 1 again.
func (c *cache) put(id string, st state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byID[id]; e != nil {
		c.order.MoveToFront(e)
		if known := e.Value.(*cached); known.st.seq <= st.seq || known.st.base != st.base {
			known.st = st
		}
		return
	}
	c.byID[id] = c.order.PushFront(&cached{id, st})
	if c.order.Len() > cacheSize {
		delete(c.byID, c.order.Remove(c.order.Back()).(*cached).id)
	}
}

// forget forgets a session whose state turned out to be behind.
func (c *cache) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byID[id]; e != nil {
		c.order.Remove(e)
		delete(c.byID, id)
	}
}
