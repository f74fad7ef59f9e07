package redistest

import "strings"

// slots is how many a cluster has.
const slots = 16384

// Slot returns the slot of a key, 0 to 16383: the CRC16 of the key, or of what
// is between its first brace and the next closing one if that is not empty. See
// the Redis Cluster specification, "Hash tags" and appendix A.
func Slot(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(rest, "}"); found && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc % slots)
}
