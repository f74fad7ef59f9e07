package session

// budgetWalk goes through a history as it grew and drops what a budget asks
// for on the way.
type budgetWalk struct {
	messages []Message
	counter  TokenCounter
	counts   []int // of each message: its tokens << flagBits, and flags
	total    int   // tokens of what is shown
	preamble int   // how many messages stand before the first turn, -1 if none has begun
	unit     int   // the message that begins the newest unit
	bound    int   // where what whole turns can be dropped of ends, see isBound
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
	mixFlag              // it answers calls and asks, see answersAndAsks
	callFlag             // it begins the unit that such a message answers
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
	flags := unitFlag | turnFlag | count&pinFlag
	if w.preamble < 0 {
		w.preamble, w.next, w.unit = i, i, i
	}
	w.bound = i
	if len(w.messages[i].Content) > 1 && answersAndAsks(w.messages, i) {
		flags |= mixFlag | w.answer(i, count)
	}
	w.unit = i
	return flags
}

// answer goes on to a prompt that answers the newest unit. Both are pinned if
// one of them is.
func (w *budgetWalk) answer(i, count int) int {
	if i == w.preamble { // the preamble calls, and stays
		w.pins = true
		return pinFlag
	}
	for _, c := range w.counts[w.unit:i] {
		count |= c & pinFlag
	}
	w.counts[w.unit] |= callFlag | count&pinFlag
	w.bound = w.unit
	return count & pinFlag
}

// trim drops whole turns before the newest, and if that is not enough, units
// before the newest.
func (w *budgetWalk) trim(limit, trimTo int) {
	for w.total > trimTo && w.next < w.bound {
		w.drop()
		for w.next < w.bound && !w.isBound(w.next) {
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

// isBound reports whether whole turns are dropped up to message i: where a turn
// begins, or the calls that the first message of a turn answers.
func (w *budgetWalk) isBound(i int) bool {
	return w.counts[i]&callFlag != 0 || w.counts[i]&(turnFlag|mixFlag) == turnFlag
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
		if flags&callFlag != 0 {
			w.leaveOutResults(w.next)
		}
	}
	if w.counts[w.next]&turnFlag != 0 && !w.promptKept {
		w.total -= w.promptCost
	}
}

// leaveOutResults counts a prompt without the results of calls that are gone.
func (w *budgetWalk) leaveOutResults(i int) {
	n := max(w.counter([]Message{withoutResults(w.messages[i])}), 0)
	gone := w.counts[i]>>flagBits - n
	w.counts[i] -= gone << flagBits
	w.total -= gone
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
