package redisstore

import "strings"

// slots is how many hash slots a Cluster has.
const slots = 16384

// slotOf returns the hash slot of a key: CRC16/XMODEM of what stands between
// the first { and the next }, or of the whole key when nothing does.
func slotOf(key string) uint16 {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			key = tag
		}
	}
	return crc16(key) % slots
}

// crc16 goes through the bits four at a time, by a table of 16 remainders of
// the polynomial x¹⁶ + x¹² + x⁵ + 1.
func crc16(s string) (crc uint16) {
	table := [16]uint16{
		0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
		0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
	}
	for i := range len(s) {
		crc = crc<<4 ^ table[crc>>12^uint16(s[i]>>4)]
		crc = crc<<4 ^ table[crc>>12^uint16(s[i]&15)]
	}
	return crc
}
