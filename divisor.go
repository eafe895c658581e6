package stint

import "math/bits"

// divisor divides by a fixed number, by a multiplication and a shift. That is
// faster than the processor's division, most of all on older processors. See
// T. Granlund and P. Montgomery, "Division by invariant integers using
// multiplication", PLDI 1994, theorem 4.2.
type divisor struct {
	by      uint64
	inverse uint64 // ⌈2^(63+shift)/by⌉
	shift   uint8  // ⌈log2 by⌉
}

// divisorOf returns the divisor for a number from 1 to 2^52.
func divisorOf(by int64) divisor {
	shift := bits.Len64(uint64(by - 1))
	inverse, rest := bits.Div64(1<<shift>>1, 1<<shift<<63, uint64(by))
	if rest > 0 {
		inverse++
	}
	return divisor{uint64(by), inverse, uint8(shift)}
}

// quotient returns ⌊x/by⌋ for x below 2^63.
func (d *divisor) quotient(x uint64) uint64 {
	high, _ := bits.Mul64(x<<1, d.inverse)
	return high >> (d.shift & 63)
}
