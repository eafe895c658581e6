package topkeys

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
)

// The counts of an interval would soon fill a table for an hour, and an old count would hide
// a new key. So a window is made of panes. Each pane is a summary of a quarter of the
// window: its 512 keys with the highest counts, and a floor, which no other key exceeds. The
// oldest pane is emptied when its turn comes again.
//
// An interval is merged into the current pane of each window as Space-Saving sketches are
// merged (Agarwal and others, Mergeable Summaries, 2012): a key that only one of them has is
// credited with the floor of the other one, as a count and as an error. Only the 512 highest
// counts stay, and the highest count that goes is the new floor. The floor of a pane is
// therefore at most one part in 512 of its claims, and so is the floor of a window: a key
// above it is listed, if the counts of the intervals have it (sketch.go says by what chance one
// does not). The memory does not depend on the keys.

const (
	paneKeys  = 512
	paneCount = 4
	// slotKey is how much of a shortened key is kept, in bytes.
	slotKey = 24
	// slack is how many more keys a summary takes before it is cut.
	slack = 256
)

// Window is a period that [Sketch.Top] covers.
type Window time.Duration

// The windows.
const (
	Minute = Window(time.Minute)
	Hour   = Window(time.Hour)
)

var windows = [...]Window{Minute, Hour}

// slot is a key of a summary.
type slot struct {
	id           uint64
	count, error int64
	rule         string
	key          [slotKey]byte // shortened; zeros fill it up
}

// summary holds the keys with the highest counts. No other key has more than floor.
type summary struct {
	slots []slot
	floor int64
}

// panes holds the summaries of all windows.
type panes struct {
	mu      sync.Mutex
	rings   [len(windows)][tableCount]ring
	current summary // of an interval
	merged  []slot
}

// ring is the panes of a window, for one table.
type ring struct {
	length time.Duration // of a pane
	panes  [paneCount]summary
	began  [paneCount]time.Time
	now    int // the current pane
}

func (p *panes) start(now time.Time) {
	p.current.slots = make([]slot, 0, paneKeys+slack)
	p.merged = make([]slot, 0, 2*paneKeys)
	for w := range p.rings {
		for t := range p.rings[w] {
			r := &p.rings[w][t]
			r.length, r.began[0] = time.Duration(windows[w])/paneCount, now
			for i := range r.panes {
				r.panes[i].slots = make([]slot, 0, paneKeys)
			}
		}
	}
}

// add moves the counts of an interval, which ends now, into the panes.
func (p *panes) add(buckets *[bucketCount]bucket, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := range tableCount {
		p.current.gather(buckets, t, true)
		for w := range p.rings {
			r := &p.rings[w][t]
			r.panes[r.now].merge(&p.current, p.merged)
			r.turn(now)
		}
	}
}

// turn begins a new pane if the current one is full, or several after a pause.
func (r *ring) turn(now time.Time) {
	for range paneCount {
		next := r.began[r.now].Add(r.length)
		if now.Before(next) {
			return
		}
		r.now = (r.now + 1) % paneCount
		s := &r.panes[r.now]
		s.slots, s.floor = s.slots[:0], 0
		r.began[r.now] = next
	}
	r.began[r.now] = now
}

// gather fills the summary with the counts of an interval, and resets them if it has ended.
func (s *summary) gather(buckets *[bucketCount]bucket, table int, ended bool) {
	s.slots, s.floor = s.slots[:0], 0
	for i := range buckets {
		b := &buckets[i]
		b.Lock()
		s.gatherTable(&b.tables[table])
		if ended {
			b.tables[table].reset()
		}
		b.Unlock()
		if len(s.slots) > paneKeys+slack-tableSize {
			s.cut()
		}
	}
	s.cut()
	slices.SortFunc(s.slots, byID)
}

func (s *summary) gatherTable(t *table) {
	for i, n := range t.counts {
		if n > 0 {
			s.slots = append(s.slots, t.slot(i))
		}
	}
	s.floor = max(s.floor, slices.Min(t.counts[:]))
}

// slot returns the i-th key of a table, shortened.
func (t *table) slot(i int) slot {
	s := slot{id: t.ids[i], count: t.counts[i], error: t.errors[i], rule: t.names[i].rule}
	n := copy(s.key[:], impact.Shorten(t.names[i].text()))
	for n > 0 && !utf8.Valid(s.key[:n]) { // the copy has ended within a character
		n--
		s.key[n] = 0
	}
	return s
}

// byID orders slots. It returns 0 for the slots of one key.
func byID(a, b slot) int {
	if a.id != b.id {
		return cmp.Compare(a.id, b.id)
	}
	return cmp.Or(cmp.Compare(a.rule, b.rule), bytes.Compare(a.key[:], b.key[:]))
}

// cut keeps the keys with the highest counts.
func (s *summary) cut() {
	if len(s.slots) <= paneKeys {
		return
	}
	slices.SortFunc(s.slots, func(a, b slot) int { return cmp.Compare(b.count, a.count) })
	s.floor = max(s.floor, s.slots[paneKeys].count)
	s.slots = s.slots[:paneKeys]
}

// merge adds another summary. The slots of both are in the order of ids. buffer has room for
// the slots of both.
func (s *summary) merge(other *summary, buffer []slot) {
	if len(other.slots) == 0 && other.floor == 0 {
		return
	}
	all := summary{slots: buffer[:0], floor: s.floor + other.floor}
	a, b := s.slots, other.slots
	for len(a) > 0 || len(b) > 0 {
		order := -1 // of the first slots of a and b
		switch {
		case len(a) == 0:
			order = 1
		case len(b) > 0:
			order = byID(a[0], b[0])
		}
		switch {
		case order < 0:
			all.slots = append(all.slots, a[0].plus(other.floor, other.floor))
			a = a[1:]
		case order > 0:
			all.slots = append(all.slots, b[0].plus(s.floor, s.floor))
			b = b[1:]
		default:
			all.slots = append(all.slots, a[0].plus(b[0].count, b[0].error))
			a, b = a[1:], b[1:]
		}
	}
	all.cut()
	slices.SortFunc(all.slots, byID)
	s.slots, s.floor = append(s.slots[:0], all.slots...), all.floor
}

// plus returns the slot with a higher count and error.
func (s slot) plus(count, err int64) slot {
	s.count += count
	s.error += err
	return s
}
