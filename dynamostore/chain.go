package dynamostore

import (
	"context"
	"slices"
	"strings"
)

// located is a batch that is known to be of a history, and the last position
// that comes from it.
type located struct {
	*batch
	until int
}

// chain returns the batches that hold positions first to last of a segment,
// which begins at position low. A batch that is missing is left out. proved
// says that p names them, from the end of the segment downwards. Otherwise they
// are the only ones there, which proves as much only while none is removed.
func (d *driver) chain(ctx context.Context, id string, s segment, low, first, last int) (found []located, proved bool, err error) {
	c := &candidates{driver: d, id: id, base: s.base}
	if err := c.read(ctx, first, last); err != nil {
		return nil, false, err
	}
	top, proved := s.key, last == s.last
	if !proved {
		if top, err = c.only(ctx, low, first, last); err != nil {
			return nil, false, err
		}
		if top == "" { // another writer's batch is in the way
			if err := c.read(ctx, last+1, s.last); err != nil {
				return nil, false, err
			}
			top, proved, last = s.key, true, s.last
		}
	}
	found, whole, err := c.walk(ctx, top, low, first, last)
	return found, proved && whole, err
}

// candidates are batches of one base, among which may be some that no head
// names.
type candidates struct {
	driver *driver
	id     string
	base   string // escaped
	byKey  map[string]*batch
	all    []*batch // by key
}

// read reads the batches that begin at positions from to to.
func (c *candidates) read(ctx context.Context, from, to int) error {
	items, err := c.driver.query(ctx, c.id, span{from: positionAt(c.base, from), to: behindAt(c.base, to)})
	c.add(decodeBatches(items))
	return err
}

func (c *candidates) add(batches []*batch) {
	if c.byKey == nil {
		c.byKey = make(map[string]*batch, len(batches))
	}
	for _, b := range batches {
		if known := c.byKey[b.key]; known == nil {
			c.byKey[b.key] = b
			c.all = append(c.all, b)
		}
	}
	slices.SortFunc(c.all, func(a, b *batch) int { return strings.Compare(a.key, b.key) })
}

// fetch reads one batch, with all its parts. It returns nil if there is none.
func (c *candidates) fetch(ctx context.Context, key string) (*batch, error) {
	if b := c.byKey[key]; b != nil {
		return b, nil
	}
	items, err := c.driver.query(ctx, c.id, span{from: key, to: partKey(key, maxParts-1)})
	c.add(decodeBatches(items))
	return c.byKey[key], err
}

// only returns the key of the batch that covers position last, if no batch of
// another commit begins where its commit begins; else "".
func (c *candidates) only(ctx context.Context, low, first, last int) (string, error) {
	covering := c.covering(last)
	if len(covering) == 0 && first > low {
		// It begins before first. A part can't be it: it is of one message.
		items, err := c.driver.query(ctx, c.id, span{from: positionAt(c.base, low), to: positionAt(c.base, first), backward: true, limit: 1})
		if err != nil {
			return "", err
		}
		if before := decodeBatches(items); len(before) > 0 && len(before[0].data) == 1 {
			c.add(before)
		}
		covering = c.covering(last)
	}
	for _, b := range covering {
		if alone, err := c.alone(ctx, b, first, last); err != nil || alone {
			return b.key, err
		}
	}
	return "", nil
}

// covering returns the batches that have a message at a position.
func (c *candidates) covering(position int) []*batch {
	var found []*batch
	for _, b := range c.all {
		if b.start <= position && position <= b.end() {
			found = append(found, b)
		}
	}
	return found
}

// alone reports whether no other commit begins where that of a batch does. The
// batches that begin at positions first to last have been read.
func (c *candidates) alone(ctx context.Context, b *batch, first, last int) (bool, error) {
	if b.first < first || b.first > last {
		if err := c.read(ctx, b.first, b.first); err != nil {
			return false, err
		}
	}
	for _, other := range c.all {
		if other.start == b.first && nonceOf(other.key) != nonceOf(b.key) {
			return false, nil
		}
	}
	return c.byKey[keyAt(b.base, b.first, nonceOf(b.key))] != nil, nil
}

// walk follows p from the batch that covers position last down to the one that
// covers first. If one is missing it is not whole; it goes on before that, where
// there is only one to go on with.
func (c *candidates) walk(ctx context.Context, top string, low, first, last int) (found []located, whole bool, err error) {
	whole = true
	for key, position := top, last; position >= first; {
		var b *batch
		if key != "" {
			if b, err = c.fetch(ctx, key); err != nil {
				return nil, false, err
			}
		}
		if b != nil && b.start <= position && b.start >= low {
			found = append(found, located{b, min(position, b.end())})
			key, position = b.prev, b.start-1
			continue
		}
		// The key says where the missing batch begins. One message is missing
		// at least, so that what comes of this is not taken for a history.
		whole = false
		if _, _, start, _, ok := parseBatchKey(key); ok && start <= position {
			position = start
		}
		position--
		for key = ""; key == "" && position >= first; {
			if covering := c.covering(position); len(covering) == 1 {
				key = covering[0].key
			} else {
				position--
			}
		}
	}
	return found, whole, nil
}
