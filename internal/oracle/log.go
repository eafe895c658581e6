package oracle

import (
	"slices"
	"sort"
)

// entries is the state of a sliding window log: the time at which each unit was
// admitted, oldest first.
type entries []int64

// log is a sliding window log: a unit admitted at a counts until a + W.
type log struct {
	l *limit
	s entries
}

func (g log) newest() int64 {
	if len(g.s) == 0 {
		return 0
	}
	return g.s[len(g.s)-1]
}

func (g log) counted(t int64) int64 {
	gone := sort.Search(len(g.s), func(i int) bool { return g.s[i]+g.l.window > t })
	return int64(len(g.s) - gone)
}

func (g log) admits(t, cost int64) bool { return g.counted(t)+cost <= g.l.max }

func (g log) remaining(t int64) int64 { return max(0, g.l.max-g.counted(t)) }

func (g log) fresh(t int64) bool { return g.counted(t) == 0 }

func (g log) charge(t, cost int64) any {
	return append(g.live(t), slices.Repeat(entries{t}, int(cost))...)
}

// live returns the units that count at t. A write drops the others for good, so
// a later refund of the newest entry does not make them count again.
func (g log) live(t int64) entries { return slices.Clone(g.s[int64(len(g.s))-g.counted(t):]) }

// refund removes entries with exactly the time at.
func (g log) refund(t, cost, at int64) any {
	live := g.live(t)
	first, _ := slices.BinarySearch(live, at)
	after := first
	for after < len(live) && live[after] == at && int64(after-first) < cost {
		after++
	}
	if after == first {
		return nil
	}
	return slices.Delete(live, first, after)
}

func (log) delay(int64) func(int64) bool { return nil }
