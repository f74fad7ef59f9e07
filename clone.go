package session

import (
	"encoding/json"
	"reflect"
)

// CloneMessages returns a deep copy: what is done to one doesn't show in the
// other. It is a few allocations, however many messages there are, and equal
// to the original in all fields; nil stays nil and empty stays empty. Metadata
// is copied in its canonical form where it is not of a basic type, []any or
// map[string]any; what has no such form, and could not be stored either, is
// shared, and so are a content and metadata nested too deeply to be stored.
func CloneMessages(messages []Message) []Message {
	if messages == nil {
		return nil
	}
	var (
		c      copier
		shared map[int]bool
	)
	for i := range messages {
		before := c.counts
		if !c.countContent(messages[i].Content, 0) {
			if c.counts = before; shared == nil {
				shared = map[int]bool{}
			}
			shared[i] = true
		}
	}
	c.allocate()
	clones := make([]Message, len(messages))
	for i := range messages {
		c.clone(&clones[i], &messages[i], shared[i])
	}
	return clones
}

// Clone returns a deep copy, as CloneMessages does.
func (m Message) Clone() Message {
	var (
		c     copier
		clone Message
	)
	copied := c.countContent(m.Content, 0)
	if !copied {
		c.counts = counts{}
	}
	c.allocate()
	c.clone(&clone, &m, !copied)
	return clone
}

// clone makes to a copy of from. Its content is shared if it is too deep.
func (c *copier) clone(to, from *Message, tooDeep bool) {
	*to = *from
	if !tooDeep {
		to.Content = c.content(from.Content)
	}
	if from.Metadata != nil {
		if clone, ok := cloneObject(from.Metadata, 0); ok {
			to.Metadata = clone
		}
	}
}

// copier copies messages in two rounds: it counts what they need, allocates
// it, and fills it.
type copier struct {
	counts
	arena
	canonical bool // nil in place of what is empty
}

// counts is how much of everything copies need.
type counts struct {
	nText, nThinking, nMedia, nUse, nResult, nRaw int
	nSlots                                        int // blocks of contents with more than one
	nBytes                                        int // in byte slices that share a slab
}

// maxShared is how long a byte slice may be that shares a slab with others: a
// small one that is kept must not keep large ones alive.
const maxShared = 4 << 10

func (c *counts) countBytes(b []byte) {
	if len(b) <= maxShared {
		c.nBytes += len(b)
	}
}

func (c *copier) allocate() {
	c.texts = cells[TextBlock](c.nText)
	c.thinking = cells[ThinkingBlock](c.nThinking)
	c.media = cells[MediaBlock](c.nMedia)
	c.uses = cells[ToolUseBlock](c.nUse)
	c.results = cells[ToolResultBlock](c.nResult)
	c.raws = cells[RawBlock](c.nRaw)
	if c.nSlots > 0 {
		c.blocks = make([]Block, c.nSlots)
	}
	if c.nBytes > 0 {
		c.arena.bytes = make([]byte, c.nBytes)
	}
}

func cells[B any](n int) []cell[B] {
	if n == 0 {
		return nil
	}
	return make([]cell[B], n)
}

// countContent counts what a copy of content needs. It reports whether content
// is not nested too deeply.
func (c *counts) countContent(content []Block, depth int) bool {
	if depth > maxDepth {
		return false
	}
	if len(content) > 1 {
		c.nSlots += len(content)
	}
	for _, b := range content {
		switch b := b.(type) {
		case *TextBlock:
			c.nText++
		case *ThinkingBlock:
			if c.nThinking++; b != nil {
				c.countBytes(b.Redacted)
			}
		case *MediaBlock:
			if c.nMedia++; b != nil {
				c.countBytes(b.Data)
			}
		case *ToolUseBlock:
			if c.nUse++; b != nil {
				c.countBytes(b.Input)
			}
		case *ToolResultBlock:
			if c.nResult++; b != nil && !c.countContent(b.Content, depth+1) {
				return false
			}
		case *RawBlock:
			if c.nRaw++; b != nil {
				c.countBytes(b.Data)
			}
		}
	}
	return true
}

// content returns a copy of content.
func (c *copier) content(content []Block) []Block {
	switch len(content) {
	case 0:
		if content == nil || c.canonical {
			return nil
		}
		return []Block{}
	case 1:
		b, slot := c.block(content[0])
		if slot == nil {
			return []Block{b}
		}
		slot[0] = b
		return slot[:]
	}
	copies := c.blocks[:len(content):len(content)]
	c.blocks = c.blocks[len(content):]
	for i, b := range content {
		copies[i], _ = c.block(b)
	}
	return copies
}

// block returns a copy of b, and memory for a content of b alone unless b is
// nil.
func (c *copier) block(b Block) (Block, *[1]Block) {
	switch b := b.(type) {
	case *TextBlock:
		if b != nil {
			to, slot := c.newText()
			*to = *b
			return to, slot
		}
	case *ThinkingBlock:
		if b != nil {
			to, slot := c.newThinking()
			*to = *b
			to.Redacted = c.copyBytes(b.Redacted)
			return to, slot
		}
	case *MediaBlock:
		if b != nil {
			to, slot := c.newMedia()
			*to = *b
			to.Data = c.copyBytes(b.Data)
			return to, slot
		}
	case *ToolUseBlock:
		if b != nil {
			to, slot := c.newToolUse()
			*to = *b
			to.Input = c.copyBytes(b.Input)
			return to, slot
		}
	case *ToolResultBlock:
		if b != nil {
			to, slot := c.newToolResult()
			*to = *b
			to.Content = c.content(b.Content)
			return to, slot
		}
	case *RawBlock:
		if b != nil {
			to, slot := c.newRaw()
			*to = *b
			to.Data = c.copyBytes(b.Data)
			return to, slot
		}
	}
	return b, nil
}

func (c *copier) copyBytes(b []byte) []byte {
	switch {
	case len(b) > maxShared:
		return append(make([]byte, 0, len(b)), b...)
	case len(b) > 0:
		n := copy(c.arena.bytes, b)
		b, c.arena.bytes = c.arena.bytes[:n:n], c.arena.bytes[n:]
		return b
	case b == nil || c.canonical:
		return nil
	}
	return []byte{}
}

// cloneObject returns a deep copy of metadata, canonical or not, unless it is
// nested too deeply.
func cloneObject(m map[string]any, depth int) (map[string]any, bool) {
	clone := make(map[string]any, len(m))
	for key, value := range m {
		var ok bool
		if clone[key], ok = cloneValue(value, depth+1); !ok {
			return nil, false
		}
	}
	return clone, true
}

func cloneValue(value any, depth int) (any, bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch v := value.(type) {
	case nil, bool, string, json.Number, float64, float32, int, int8, int16, int32, int64,
		uint, uint8, uint16, uint32, uint64, uintptr:
		return value, true
	case map[string]any:
		if v != nil {
			return cloneObject(v, depth)
		}
		return value, true
	case []any:
		if v == nil {
			return value, true
		}
		clone := make([]any, len(v))
		for i := range v {
			var ok bool
			if clone[i], ok = cloneValue(v[i], depth+1); !ok {
				return nil, false
			}
		}
		return clone, true
	}
	if canonical, err := canonicalReflect(reflect.ValueOf(value), depth); err == nil {
		return canonical, true
	}
	return value, true
}
