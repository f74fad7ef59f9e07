package session

// budgetWalk goes through a history as it grew and drops what a budget asks
// for on the way.
type budgetWalk struct {
	messages []Message
	counts   []int // of each message: its tokens << flagBits, and flags
	total    int   // tokens of what is shown
	preamble int   // how many messages stand before the first turn, -1 if none has begun
	turn     int   // the message that begins the newest turn
	unit     int   // the message that begins the newest unit
	next     int   // the message that begins the oldest unit that was not dropped
	pins     bool  // there are pinned units

	prompt     span // of the turn of the unit dropped last
	promptCost int
	promptKept bool // for a pin
}

// The flags of a message.
const (
	unitFlag = 1 << iota // it begins a unit
	turnFlag             // it begins a turn
	pinFlag              // its unit is pinned, see dropper.pass
	flagBits = iota
)

// add goes on to message i, of n tokens.
func (w *budgetWalk) add(i, n int) {
	w.total += n
	count := n << flagBits
	m := &w.messages[i]
	if isPinned(m) {
		count |= pinFlag
		w.pins = true
	}
	switch m.Role {
	case RoleUser:
		if startsTurn(w.messages, i) {
			count |= w.begin(i, count)
		}
	case RoleAssistant:
		if startsUnit(w.messages, i) {
			count |= unitFlag
			w.unit = i
		}
	}
	w.counts[i] = count
}

// begin goes on to a prompt and returns its flags.
func (w *budgetWalk) begin(i, count int) int {
	if w.preamble < 0 {
		w.preamble, w.next, w.unit = i, i, i
	}
	if len(w.messages[i].Content) > 1 && answersAndAsks(w.messages, i) {
		count |= w.join(i, count)
	}
	w.turn, w.unit = i, i
	return unitFlag | turnFlag | count&pinFlag
}

// join pins the newest unit and a prompt at i that answers its calls together:
// both if one of them is.
func (w *budgetWalk) join(i, count int) int {
	if i == w.preamble { // the preamble calls, and stays
		w.pins = true
		return pinFlag
	}
	for _, c := range w.counts[w.unit:i] {
		count |= c & pinFlag
	}
	w.counts[w.unit] |= count & pinFlag
	return count & pinFlag
}

// trim drops whole turns before the newest, and if that is not enough, units
// of the newest turn before the newest unit.
func (w *budgetWalk) trim(limit, trimTo int) {
	for w.total > trimTo && w.next < w.turn {
		w.drop()
		for w.counts[w.next]&turnFlag == 0 {
			w.drop()
		}
	}
	if w.total <= limit {
		return
	}
	for w.total > trimTo && w.next < w.unit {
		w.drop()
	}
}

// drop drops the oldest unit, but not what stays for pins, and not the prompt
// of the turn that the next unit is in.
func (w *budgetWalk) drop() {
	first := w.next
	tokens, flags := w.counts[first]>>flagBits, w.counts[first]
	for w.next++; w.counts[w.next]&unitFlag == 0; w.next++ {
		tokens += w.counts[w.next] >> flagBits
		flags |= w.counts[w.next] & pinFlag
	}
	pinned := flags&pinFlag != 0
	switch {
	case flags&turnFlag != 0:
		w.prompt, w.promptCost, w.promptKept = span{first, w.next}, tokens, pinned
	case pinned:
		w.promptKept = true
	default:
		w.total -= tokens
	}
	if w.counts[w.next]&turnFlag != 0 && !w.promptKept {
		w.total -= w.promptCost
	}
}

func (w *budgetWalk) cut() cut {
	switch {
	case w.preamble < 0:
		return cut{preamble: len(w.messages), from: len(w.messages)}
	case w.pins:
		return cutAt(w.messages, w.preamble, w.next)
	case w.next > w.preamble && w.counts[w.next]&turnFlag == 0:
		return cut{w.preamble, []span{w.prompt}, w.next}
	}
	return cut{preamble: w.preamble, from: w.next}
}
