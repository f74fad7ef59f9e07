package session

import (
	"reflect"
	"sync"
)

// plainStores are the sessions of plain Stores that are being written now.
var plainStores turnstiles

type plainSession struct {
	store Store
	id    string
}

// turnstiles let one through at a time for each key that is in use.
type turnstiles struct {
	mu  sync.Mutex
	use map[plainSession]*turnstile
}

type turnstile struct {
	sync.Mutex
	users int
}

func (t *turnstiles) lock(key plainSession) (unlock func()) {
	if !reflect.TypeOf(key.store).Comparable() {
		key.store = nil // sessions of one ID share a turnstile: slower, no less right
	}
	t.mu.Lock()
	if t.use == nil {
		t.use = make(map[plainSession]*turnstile)
	}
	ts := t.use[key]
	if ts == nil {
		ts = &turnstile{}
		t.use[key] = ts
	}
	ts.users++
	t.mu.Unlock()
	ts.Lock()
	return func() {
		ts.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if ts.users--; ts.users == 0 {
			delete(t.use, key)
		}
	}
}
