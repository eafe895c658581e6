package impact

// tally counts events within [Window], in slots of a tenth of the window. The
// zero value is empty.
type tally struct {
	slots [slots + 1]slot
}

// slot counts the events of one interval. The current interval is only partly
// past, so the tally has one slot more than the window.
type slot struct {
	number int64 // interval number since the epoch
	count  uint64
}

const slots = 10

func numberOf(now int64) int64 { return now / (Window.Microseconds() / slots) }

// add counts n events at now, in µs.
func (t *tally) add(now int64, n uint64) {
	number := numberOf(now)
	at := &t.slots[number%int64(len(t.slots))]
	if at.number != number {
		*at = slot{number: number}
	}
	at.count += n
}

// sum returns the number of events in the intervals of the window that ends at
// now.
func (t *tally) sum(now int64) (n uint64) {
	for _, s := range t.slots {
		if s.number >= numberOf(now)-slots && s.number <= numberOf(now) {
			n += s.count
		}
	}
	return n
}
