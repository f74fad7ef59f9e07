package session

import "hash/maphash"

// callSet finds the calls of a history by ID, the last of each ID. It holds
// positions, not IDs, so that it costs one small slice and keeps nothing alive.
type callSet struct {
	messages []Message
	seed     maphash.Seed
	slots    []callSlot // open addressing, a power of two, never full
	used     int
	last     *callSlot // the call that was put last
}

// callSlot is a call, or empty.
type callSlot struct {
	hash    uint32
	message int32 // from 1, negative once answered, 0 if empty
	block   int32
}

const minCallSlots = 64

// begin empties the set.
func (s *callSet) begin(messages []Message) {
	if s.slots == nil {
		s.seed, s.slots = maphash.MakeSeed(), make([]callSlot, minCallSlots)
	} else if s.used > 0 {
		clear(s.slots)
	}
	s.messages, s.used, s.last = messages, 0, nil
}

// find returns the slot of the call with an ID, or an empty one for it. It is
// good until the next put.
func (s *callSet) find(id string) *callSlot {
	hash := uint32(maphash.String(s.seed, id))
	mask := uint32(len(s.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		slot := &s.slots[i]
		if slot.message == 0 {
			slot.hash = hash
			return slot
		}
		if slot.hash == hash && s.id(slot) == id {
			return slot
		}
	}
}

// findLatest is find, faster if the call was put last.
func (s *callSet) findLatest(id string) *callSlot {
	if s.last != nil && s.id(s.last) == id {
		return s.last
	}
	return s.find(id)
}

// put makes the call at a position the slot's.
func (s *callSet) put(slot *callSlot, message, block int) {
	if slot.message == 0 {
		s.used++
	}
	slot.message, slot.block = int32(message+1), int32(block)
	s.last = slot
	if s.used > len(s.slots)/4*3 {
		s.grow(message + 1)
	}
}

// index is which message the call is in, -1 if there is none.
func (c *callSlot) index() int { return int(max(c.message, -c.message)) - 1 }

func (c *callSlot) answered() bool { return c.message < 0 }

// answer marks the call as answered.
func (c *callSlot) answer() { c.message = -max(c.message, -c.message) }

func (s *callSet) id(slot *callSlot) string {
	return s.messages[slot.index()].Content[slot.block].(*ToolUseBlock).ID
}

// grow makes room for as many calls as there will be if the rest of the history
// is like the messages read so far, at most one a message.
func (s *callSet) grow(read int) {
	old, n := s.slots, 2*len(s.slots)
	for expected := min(s.used*len(s.messages)/read, len(s.messages)); n/4*3 <= expected; {
		n *= 2
	}
	s.slots, s.last = make([]callSlot, n), nil
	mask := uint32(len(s.slots) - 1)
	for _, slot := range old {
		if slot.message == 0 {
			continue
		}
		i := slot.hash & mask
		for s.slots[i].message != 0 {
			i = (i + 1) & mask
		}
		s.slots[i] = slot
	}
}
