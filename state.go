package stint

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// State is the state of one key outside a memory store: a store reads it from
// its server, takes a step, and writes it back. The zero State means that the
// key has no state and is as if never used. A State belongs to the limits of one
// scope and one [Limit.Shape], whatever their other numbers. It is not safe for
// concurrent use.
type State struct {
	known  bool
	bucket bucket  // token bucket, GCRA, leaky bucket
	packed packed  // fixed window, quota, counter of one bucket
	wide   []int64 // sliding log (its runs), sliding counter of several buckets
}

// Step is the pure function (state, limit, now, claim) → (state, decision).
// now is in microseconds since the Unix epoch. With dry set it decides and
// changes nothing, and a claim of cost [Forget] is a peek. Step ignores the
// claim's limit and key. The claim must be valid.
func (l Limit) Step(s *State, now int64, c *Claim, dry bool) (d Decision) {
	if s.known && !dry && l.n.isBucket() && uint64(c.Cost) <= MaxCost && c.Extra == 0 {
		l.n.stepPlain(s, now, c.Cost, &d)
		return d
	}
	a := input{dry: dry}
	c.asInput(&a, now)
	var r result
	l.n.stepState(s, &a, &r)
	l.n.decide(&d, &r, &a)
	return d
}

func (n *compiledLimit) stepState(s *State, a *input, r *result) {
	switch {
	case a.cost == Forget:
		n.forgotten(a, r)
	case n.wide():
		n.stepWideState(s, a, r)
	case n.buckets == 0 && n.alg != Quota:
		if b := n.stepUnpacked(s.bucket, s.known, a, r); r.write {
			s.bucket = b
		}
	default:
		from := n
		if !s.known {
			from = nil
		}
		s.packed = n.step(s.packed, from, a, r)
	}
	s.known = s.known || r.write
	if r.forget {
		*s = State{wide: s.wide[:0]}
	}
}

// stepPlain is the fast path for nearly every check, like takePlain. In contrast
// to takePlain, it allows a state that was written under other numbers.
func (n *compiledLimit) stepPlain(s *State, now, cost int64, d *Decision) {
	b, allowed := n.refill(s.bucket, now).charge(cost)
	if allowed && cost > 0 {
		s.bucket = b
	}
	n.reportPlain(d, b, now, cost, allowed)
}

func (n *compiledLimit) stepWideState(s *State, a *input, r *result) {
	if room := n.wideRoom(len(s.wide), a); cap(s.wide) < room {
		s.wide = append(make([]int64, 0, room), s.wide...)
	}
	if w := n.stepWide(s.wide, a, r); r.write {
		s.wide = w
	}
}

// The encoding of a state is big-endian:
//
//   - A bucket has the time of its last change and its whole micro-units in
//     timeBytes each, then the fraction in as few bytes as it needs. If the
//     whole fits into countBytes and the fraction into one byte, it uses those
//     instead, so that most buckets take at most 12 bytes.
//   - A window or quota has its start, which may lie before the epoch, in
//     timeBytes, and the count in countBytes.
//   - A sliding counter has the number of its newest bucket in timeBytes, and
//     each count in countBytes, bucket b at b mod (buckets + 1).
//   - A log has the number of units admitted before its first run in totalBytes,
//     then its runs, oldest first. A run is its time in timeBytes and the number
//     of units admitted up to it in totalBytes. These totals are modulo 2^16.
//     Differences of totals are exact, because at most MaxLogLimit units count
//     at once.
const (
	timeBytes  = 7
	countBytes = 4
	totalBytes = 2
	runBytes   = timeBytes + totalBytes
)

// AppendState appends the encoding of a state to a slice and returns the slice.
// It appends nothing for the zero State.
func (l Limit) AppendState(to []byte, s *State) []byte {
	n := l.n
	switch {
	case !s.known:
		return to
	case n.alg == SlidingWindowLog:
		return appendRuns(to, s.wide)
	case n.alg == SlidingWindowCounter:
		return n.appendCounters(to, s)
	case n.buckets > 0 || n.alg == Quota:
		return binary.BigEndian.AppendUint32(appendTime(to, int64(s.packed.Hi)), uint32(s.packed.Lo))
	}
	return s.bucket.append(to)
}

func (b *bucket) append(to []byte) []byte {
	to = appendTime(to, b.last)
	if b.whole>>(8*countBytes) == 0 && b.frac < 1<<8 {
		to = binary.BigEndian.AppendUint32(to, uint32(b.whole))
	} else {
		to = appendTime(to, b.whole)
	}
	for i := (bits.Len64(uint64(b.frac)) + 7) / 8; i > 0; i-- {
		to = append(to, byte(b.frac>>(8*(i-1))))
	}
	return to
}

func (n *compiledLimit) appendCounters(to []byte, s *State) []byte {
	if n.buckets == 1 {
		return binary.BigEndian.AppendUint64(appendTime(to, int64(s.packed.Hi)), s.packed.Lo)
	}
	to = appendTime(to, s.wide[0])
	for _, count := range s.wide[1:] {
		to = binary.BigEndian.AppendUint32(to, uint32(count))
	}
	return to
}

func appendRuns(to []byte, w []int64) []byte {
	to = binary.BigEndian.AppendUint16(to, 0)
	for i := 0; i < len(w); i += runWords {
		to = binary.BigEndian.AppendUint16(appendTime(to, w[i]), uint16(w[i+1]))
	}
	return to
}

func appendTime(to []byte, t int64) []byte {
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], uint64(t))
	return append(to, word[8-timeBytes:]...)
}

// DecodeState decodes a state that [Limit.AppendState] encoded under a limit of
// the same shape. For bytes that are not such a state it returns an [*Error]
// with [CodeInternal].
func (l Limit) DecodeState(data []byte) (s State, err error) {
	err = l.n.decodeState(&s, data)
	return s, err
}

func (n *compiledLimit) decodeState(s *State, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	s.known = true
	var ok bool
	switch {
	case n.alg == SlidingWindowLog:
		ok = s.decodeRuns(data)
	case n.alg == SlidingWindowCounter:
		ok = n.decodeCounters(s, data)
	case n.buckets > 0 || n.alg == Quota:
		if ok = len(data) == timeBytes+countBytes; ok {
			s.packed = packed{uint64(readTime(data)), uint64(binary.BigEndian.Uint32(data[timeBytes:]))}
		}
	default:
		ok = s.bucket.decode(data)
	}
	if !ok {
		return &Error{Code: CodeInternal, Kind: KindCorrupt, Problem: fmt.Sprintf("state: %d bytes are not those of a %s", len(data), n.alg),
			Mend: "make sure that nothing else writes under the prefix of the store's keys, and reset the key"}
	}
	return nil
}

func (b *bucket) decode(data []byte) bool {
	fraction := 2 * timeBytes
	switch size := len(data); {
	case size == timeBytes+countBytes, size == timeBytes+countBytes+1:
		fraction = timeBytes + countBytes
		b.whole = int64(binary.BigEndian.Uint32(data[timeBytes:]))
	case size >= 2*timeBytes && size <= 3*timeBytes:
		b.whole = readTime(data[timeBytes:])
	default:
		return false
	}
	b.last, b.frac = readTime(data), 0
	for _, digit := range data[fraction:] {
		b.frac = b.frac<<8 | int64(digit)
	}
	return isTime(b.last) && isTime(b.whole) && isTime(b.frac)
}

func (n *compiledLimit) decodeCounters(s *State, data []byte) bool {
	if len(data) != timeBytes+countBytes*(n.buckets+1) || readTime(data) < 0 || readTime(data) > maxMicros/n.width {
		return false
	}
	if n.buckets == 1 {
		s.packed = packed{uint64(readTime(data)), binary.BigEndian.Uint64(data[timeBytes:])}
		return true
	}
	s.wide = append(make([]int64, 0, n.buckets+2), readTime(data))
	for rest := data[timeBytes:]; len(rest) > 0; rest = rest[countBytes:] {
		s.wide = append(s.wide, int64(binary.BigEndian.Uint32(rest)))
	}
	return true
}

func (s *State) decodeRuns(data []byte) bool {
	if len(data) < totalBytes+runBytes || (len(data)-totalBytes)%runBytes != 0 {
		return false
	}
	before, runs := binary.BigEndian.Uint16(data), data[totalBytes:]
	s.wide = make([]int64, 0, len(runs)/runBytes*runWords)
	last, total := int64(-1), int64(0)
	for ; len(runs) > 0; runs = runs[runBytes:] {
		t, after := readTime(runs), binary.BigEndian.Uint16(runs[timeBytes:])
		units := int64(after - before)
		if t <= last || !isTime(t) || units == 0 || units > MaxLogLimit {
			return false
		}
		before, last, total = after, t, total+units
		s.wide = append(s.wide, t, total)
	}
	return true
}

func isTime(t int64) bool { return t >= 0 && t <= maxMicros }

// readTime reads a signed integer of timeBytes.
func readTime(data []byte) int64 {
	high := uint64(binary.BigEndian.Uint32(data)) << 32
	low := uint64(binary.BigEndian.Uint32(data[timeBytes-4:])) << 8
	return int64(high|low) >> 8
}
