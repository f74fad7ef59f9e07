package session

// cell is a block and the memory for a content of this block alone, so that
// the usual message takes no slice of its own.
type cell[B any] struct {
	slot  [1]Block
	block B
}

// arena hands out memory from slabs, so that a history costs a few allocations
// and not some for each message. What it hands out is never longer than asked
// for: appending to it doesn't reach its neighbour.
type arena struct {
	ahead int // how many messages are to come at most; slabs are sized by it

	texts    []cell[TextBlock]
	thinking []cell[ThinkingBlock]
	media    []cell[MediaBlock]
	uses     []cell[ToolUseBlock]
	results  []cell[ToolResultBlock]
	raws     []cell[RawBlock]
	blocks   []Block
	bytes    []byte
}

const (
	maxCells     = 256      // how many cells a slab has at most
	maxByteSlab  = 32 << 10 // how many bytes
	bytesPerLine = 128      // how many bytes of raw JSON a message is guessed to have
)

func (a *arena) cells() int { return min(max(a.ahead/4, 1), maxCells) }

func nextCell[B any](a *arena, slab *[]cell[B]) *cell[B] {
	if len(*slab) == 0 {
		*slab = make([]cell[B], a.cells())
	}
	c := &(*slab)[0]
	*slab = (*slab)[1:]
	return c
}

func (a *arena) newText() (*TextBlock, *[1]Block) {
	c := nextCell(a, &a.texts)
	return &c.block, &c.slot
}

func (a *arena) newThinking() (*ThinkingBlock, *[1]Block) {
	c := nextCell(a, &a.thinking)
	return &c.block, &c.slot
}

func (a *arena) newMedia() (*MediaBlock, *[1]Block) {
	c := nextCell(a, &a.media)
	return &c.block, &c.slot
}

func (a *arena) newToolUse() (*ToolUseBlock, *[1]Block) {
	c := nextCell(a, &a.uses)
	return &c.block, &c.slot
}

func (a *arena) newToolResult() (*ToolResultBlock, *[1]Block) {
	c := nextCell(a, &a.results)
	return &c.block, &c.slot
}

func (a *arena) newRaw() (*RawBlock, *[1]Block) {
	c := nextCell(a, &a.raws)
	return &c.block, &c.slot
}

// content returns a slice of the given blocks. slot is the memory that came
// with the last of them. Of no blocks it is nil.
func (a *arena) content(blocks []Block, slot *[1]Block) []Block {
	switch len(blocks) {
	case 0:
		return nil
	case 1:
		slot[0] = blocks[0]
		return slot[:]
	}
	content := a.slots(len(blocks))
	copy(content, blocks)
	return content
}

// slots returns an empty content of n blocks.
func (a *arena) slots(n int) []Block {
	if n > len(a.blocks) {
		chunk := a.cells()
		if n > chunk/4 {
			return make([]Block, n)
		}
		a.blocks = make([]Block, chunk)
	}
	s := a.blocks[:n:n]
	a.blocks = a.blocks[n:]
	return s
}

// take returns n bytes.
func (a *arena) take(n int) []byte {
	if n > len(a.bytes) {
		chunk := min(a.ahead*bytesPerLine, maxByteSlab)
		if n > chunk/4 {
			return make([]byte, n)
		}
		a.bytes = make([]byte, chunk)
	}
	b := a.bytes[:n:n]
	a.bytes = a.bytes[n:]
	return b
}

// copy returns a copy of b, which is not empty.
func (a *arena) copy(b []byte) []byte {
	c := a.take(len(b))
	copy(c, b)
	return c
}
