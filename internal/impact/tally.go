package impact

// tally counts what came within [Window], in slots of a tenth of it. The zero
// value is empty.
type tally struct {
	slots [slots + 1]slot
}

// slot is one part of the time: the window and what is left of its first part
// need one more than the window has.
type slot struct {
	number int64 // of slots since the epoch
	count  uint64
}

const slots = 10

func numberOf(now int64) int64 { return now / (Window.Microseconds() / slots) }

// add counts n more now, in µs.
func (t *tally) add(now int64, n uint64) {
	number := numberOf(now)
	at := &t.slots[number%int64(len(t.slots))]
	if at.number != number {
		*at = slot{number: number}
	}
	at.count += n
}

// sum is what came in the slots of the window that ends now.
func (t *tally) sum(now int64) (n uint64) {
	for _, s := range t.slots {
		if s.number >= numberOf(now)-slots && s.number <= numberOf(now) {
			n += s.count
		}
	}
	return n
}
