package session

import (
	"encoding/binary"
	"math/bits"
)

// historyHash is a running 128-bit hash of encoded messages. It recognises a
// history that extends the stored one. It is no cryptographic hash: it begins
// at the session's life, which is random and never shown, so that nobody can
// aim at two histories of one hash. Of 900-byte messages it runs at 5.7 GB/s
// (BenchmarkHistoryHash), where SHA-256 runs at 1.5 and would double the time of
// a Save.
type historyHash [2]uint64

func newHistoryHash(life uint64) historyHash {
	return historyHash{life ^ 0x243f6a8885a308d3, bits.RotateLeft64(life, 32) ^ 0x13198a2e03707344}
}

// add returns the hash with one more message.
func (h historyHash) add(line []byte) historyHash {
	n := uint64(len(line))
	a, b := h[0], h[1]
	for len(line) >= 16 {
		a, b = mix(a, b, binary.LittleEndian.Uint64(line), binary.LittleEndian.Uint64(line[8:]))
		line = line[16:]
	}
	var tail [16]byte
	copy(tail[:], line)
	a, b = mix(a, b, binary.LittleEndian.Uint64(tail[:]), binary.LittleEndian.Uint64(tail[8:]))
	a, b = mix(a, b, n, ^n)
	return historyHash{a, b}
}

// mix folds 128 bits into each half of the state by a full multiplication.
// Both halves see all of the input, each with a factor of its own; state and
// input are folded in once more so that a product of zero forgets nothing.
func mix(a, b, x, y uint64) (uint64, uint64) {
	hi0, lo0 := bits.Mul64(x^a, y^0xa4093822299f31d1)
	hi1, lo1 := bits.Mul64(y^b, x^0x082efa98ec4e6c89)
	return hi0 ^ lo0 ^ bits.RotateLeft64(a^x, 23), hi1 ^ lo1 ^ bits.RotateLeft64(b^y, 41)
}

func (h historyHash) addAll(lines [][]byte) historyHash {
	for _, l := range lines {
		h = h.add(l)
	}
	return h
}
