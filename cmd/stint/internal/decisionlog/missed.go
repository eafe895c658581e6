package decisionlog

import (
	"sync/atomic"
	"time"
)

// missed has the number of decisions that were dropped since the last line, and the minute of the
// first of them. The next line says both. It may be the first line of a new file, and a reader of
// that file does not know the time of the line before. Both are in one word, so that no drop waits
// for another one during a flood.
type missed struct{ word atomic.Uint64 }

// A word has the count in its lower bits and the minute in the others: 10^12 decisions, and 31
// years.
const (
	countBits  = 40
	mostCount  = 1<<countBits - 1
	mostMinute = 1<<(64-countBits) - 1
)

// add counts n dropped decisions, of this minute or later.
func (m *missed) add(n, minute uint64) {
	for {
		was := m.word.Load()
		count := was & mostCount
		if count > 0 {
			minute = min(minute, was>>countBits)
		}
		if m.word.CompareAndSwap(was, minute<<countBits|min(count+n, mostCount)) {
			return
		}
	}
}

// take returns the count and the minute, and begins anew.
func (m *missed) take() (n, minute uint64) {
	if m.word.Load() == 0 { // the usual case
		return 0, 0
	}
	was := m.word.Swap(0)
	return was & mostCount, was >> countBits
}

// minuteOf returns the minute of a time since the log began. A clock that went back counts as the
// first minute.
func (l *Log) minuteOf(now time.Time) uint64 {
	return uint64(min(max(0, now.Sub(l.began)/time.Minute), mostMinute))
}
