package stint

import (
	"math/bits"
	"time"
)

// maxMicros is the longest duration of a Decision, 2^53 − 1 µs or 285 years.
// Only a change of limits, or a clock that ran back that far, can reach it.
const maxMicros = 1<<53 - 1

func micros(us int64) time.Duration { return time.Duration(min(us, maxMicros)) * time.Microsecond }

// mulDiv returns ⌊(a·b + plus)/c⌋ and the remainder, exact in two words. It
// returns maxMicros for a quotient above maxMicros, so that a gap can be added
// to the quotient without overflow.
func mulDiv(a, b, plus, c int64) (quotient, remainder int64) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(plus), 0)
	hi += carry
	if hi >= uint64(c) {
		return maxMicros, 0
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	if q > maxMicros {
		return maxMicros, 0
	}
	return int64(q), int64(r)
}

// mulDivUp returns ⌈(a·b + plus)/c⌉, saturated like mulDiv. plus may be
// negative down to −a·b.
func mulDivUp(a, b, plus, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	var carry uint64
	if plus >= 0 {
		lo, carry = bits.Add64(lo, uint64(plus), 0)
		hi += carry
	} else {
		lo, carry = bits.Sub64(lo, uint64(-plus), 0)
		hi -= carry
	}
	lo, carry = bits.Add64(lo, uint64(c-1), 0)
	hi += carry
	if hi >= uint64(c) {
		return maxMicros
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, maxMicros))
}

// floorDiv is division rounded toward minus infinity; b is above 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

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
