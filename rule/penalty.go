package rule

import (
	"time"

	"github.com/stintdev/stint"
)

// Penalty is what happens to a caller that keeps hitting the limits of a rule:
// cool-downs, each longer than the one before, and then a ban. It is kept as the
// state of three limits beside those of the rule, under the same key, so that
// every node that shares a store knows of it, and what is forgotten of them is
// forgiven.
type Penalty struct {
	// Gate is a leaky bucket that is empty unless the caller is being punished:
	// as long as it needs to be empty again, everything is denied. A unit of it
	// is [GateUnit], and it holds the longest punishment, so that a store that
	// must give up something takes one who is banned for exhausted.
	Gate stint.Limit
	// Strikes counts denials. When it has no room left, a punishment begins.
	Strikes stint.Limit
	// Levels counts punishments, which make the next one harder.
	Levels stint.Limit

	cooldowns []time.Duration
	ban       time.Duration // after those; 0: none, and the last is repeated
}

// GateUnit is how long one unit of a [Penalty]'s Gate punishes.
const GateUnit = 10 * time.Millisecond

// maxPunishment is the longest that a gate can be shut.
const maxPunishment = 100 * 24 * time.Hour

// Of is the nth punishment in a row, n from 1, and whether it is a ban.
func (p *Penalty) Of(n int64) (d time.Duration, ban bool) {
	if p.ban > 0 && n > int64(len(p.cooldowns)) {
		return p.ban, true
	}
	return p.cooldowns[min(max(n, 1), int64(len(p.cooldowns)))-1], false
}

// Limits is the three limits of the penalty.
func (p *Penalty) Limits() []stint.Limit { return []stint.Limit{p.Gate, p.Strikes, p.Levels} }

// Has reports whether a limit is one of the penalty's, which may be nil.
func (p *Penalty) Has(l stint.Limit) bool {
	return p != nil && (l == p.Gate || l == p.Strikes || l == p.Levels)
}

// The names of a penalty's limits, which none of the rule's own may have.
const (
	gateName    = "penalty"
	strikesName = "penalty.strikes"
	levelsName  = "penalty.levels"
)

// longest is the longest punishment.
func (p *Penalty) longest() time.Duration { return max(p.ban, p.cooldowns[len(p.cooldowns)-1]) }

// penaltySpecs is the limits of a penalty of a rule.
func penaltySpecs(rule string, longest time.Duration, after, levels int64, window, forget time.Duration) [3]stint.Spec {
	return [3]stint.Spec{
		{Rule: rule, Name: gateName, Algorithm: stint.LeakyBucket, Limit: 1, Window: GateUnit, Queue: int64(longest / GateUnit)},
		{Rule: rule, Name: strikesName, Algorithm: stint.SlidingWindowLog, Limit: after, Window: window},
		{Rule: rule, Name: levelsName, Algorithm: stint.SlidingWindowLog, Limit: levels, Window: forget},
	}
}
