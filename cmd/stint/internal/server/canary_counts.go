package server

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// The counts of a canary decide whether its rules are promoted, so no caller may decide that
// alone. A client that floods the control with denied requests would otherwise hide that the
// canary denies too much, and one that floods the canary would end it.
//
// Requests are therefore counted in slots, by a hash of the caller. When the counts are read,
// each slot contributes at most [callerRate] requests a second, of which the same share is denied
// as of all its requests. A caller that sends more weighs no more. Callers of one slot share that
// weight, and a client that has many keys has many weights: neither can be told apart from many
// clients. A table of fixed size bounds the memory, whatever callers make up.

const (
	callerRate = 10   // requests a second
	slots      = 1024 // of each side
)

// canaryCounts are the counts of the newest canary. They outlive the versions that are made of
// one canary when an emergency begins or ends, and when the rules are read again.
type canaryCounts struct{ newest atomic.Pointer[twoCounts] }

type twoCounts struct {
	number          uint64
	control, canary sideCounts
}

// of returns the counts of a canary, which are new if it is another one than before. Calls must
// not be concurrent.
func (c *canaryCounts) of(v *ruleset.Version) *twoCounts {
	if now := c.newest.Load(); now != nil && now.number == v.Number {
		return now
	}
	now := &twoCounts{number: v.Number}
	for _, side := range []*sideCounts{&now.control, &now.canary} {
		side.by, side.seed, side.folded = v.Canary.By, maphash.MakeSeed(), time.Now()
	}
	c.newest.Store(now)
	return now
}

// announced returns the counts for the other nodes, or nil without a canary.
func (r *rules) announced() *ruleset.CanaryCounts {
	now := r.canaries.newest.Load()
	if _, v := r.manager.Current(); now == nil || v.Canary == nil || v.Number != now.number {
		return nil
	}
	t := time.Now()
	return &ruleset.CanaryCounts{Version: now.number, Control: now.control.read(t), Canary: now.canary.read(t)}
}

// sideCounts are the counts of the requests of one side.
type sideCounts struct {
	by    string // see [rule.Set.SplitBy]
	seed  maphash.Seed
	slots [slots]slotCounts // since folded

	mu     sync.Mutex
	folded time.Time                          // guarded by mu
	total  struct{ all, denied, err float64 } // guarded by mu; until folded
}

type slotCounts struct{ all, denied, err atomic.Uint32 }

func (c *sideCounts) of(caller string) *slotCounts {
	return &c.slots[maphash.String(c.seed, caller)%slots]
}

// add counts an outcome. A peek is no request. A decision without the store is an error,
// whatever it says.
func (c *sideCounts) add(caller string, cost int64, o *rule.Outcome) {
	if cost == 0 {
		return
	}
	slot := c.of(caller)
	slot.all.Add(1)
	switch {
	case o.Decision.Degraded:
		slot.err.Add(1)
	case !o.Allowed():
		slot.denied.Add(1)
	}
}

func (c *sideCounts) addError(caller string) {
	slot := c.of(caller)
	slot.all.Add(1)
	slot.err.Add(1)
}

// read returns the counts, which it brings up to date at most once a second.
func (c *sideCounts) read(now time.Time) ruleset.Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since := now.Sub(c.folded); since >= time.Second {
		c.foldLocked(callerRate * since.Seconds())
		c.folded = now
	}
	whole := func(n float64) uint64 { return uint64(math.Round(n)) }
	denied, err := whole(c.total.denied), whole(c.total.err)
	return ruleset.Counts{Requests: max(whole(c.total.all), denied+err), Denied: denied, Errors: err}
}

// foldLocked moves the counts of the slots to the total, at most the given number of requests of
// each slot.
func (c *sideCounts) foldLocked(most float64) {
	for i := range c.slots {
		slot := &c.slots[i]
		denied, err := float64(slot.denied.Swap(0)), float64(slot.err.Swap(0))
		all := max(float64(slot.all.Swap(0)), denied+err) // a request may be counted halfway
		if all == 0 {
			continue
		}
		weight := min(1, most/all)
		c.total.all += all * weight
		c.total.denied += denied * weight
		c.total.err += err * weight
	}
}
