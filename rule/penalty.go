package rule

import (
	"slices"
	"time"

	"github.com/stintdev/stint"
)

// Penalty punishes a caller that keeps exceeding the limits of a rule: first
// with growing cool-downs, then with a ban. It can also ban a key that is hot.
// Its state is three limits that are stored beside the rule's own limits under
// the same key. Every node that shares the store therefore sees it. State that
// the store evicts ends the punishment.
type Penalty struct {
	// Gate is a leaky bucket that is empty unless the caller is being punished.
	// Every request is denied until the bucket is empty again. One unit is
	// [GateUnit]. The capacity is the longest punishment, so that a store under
	// memory pressure sees a banned caller as exhausted rather than as idle.
	Gate stint.Limit
	// Strikes counts denials. A punishment begins when no capacity is left.
	Strikes stint.Limit
	// Levels counts punishments. Each one makes the next one longer.
	Levels stint.Limit

	// Denials is false if only hot keys are punished, and Strikes and Levels are unused.
	Denials bool
	// HotKey is how long a key is banned that is requested too often, by the measure of the
	// server; 0: it is not.
	HotKey time.Duration

	cooldowns []time.Duration
	ban       time.Duration // follows the cool-downs; 0: no ban, the last cool-down repeats
}

// GateUnit is the punishment time of one unit of a [Penalty]'s Gate.
const GateUnit = 10 * time.Millisecond

// maxPunishment is the longest punishment.
const maxPunishment = 100 * 24 * time.Hour

// Of returns the duration of the nth punishment in a row, counted from 1, and
// whether it is a ban.
func (p *Penalty) Of(n int64) (d time.Duration, ban bool) {
	if p.ban > 0 && n > int64(len(p.cooldowns)) {
		return p.ban, true
	}
	return p.cooldowns[min(max(n, 1), int64(len(p.cooldowns)))-1], false
}

// KindOf returns the kind of a punishment that has the given time left. levels is the
// decision of a peek at Levels.
//
// The gate says only when the punishment ends. The newest level says when the punishment
// began. A punishment longer than all cool-downs is a ban, and so is one at the highest
// level. A key that no level explains was banned because it was hot. So two kinds may be
// told wrong: the last part of a ban that outlives the levels counts as a cool-down, which
// is as short; and the ban of a hot key that has levels may count as one for denials.
func (p *Penalty) KindOf(left time.Duration, levels *stint.Decision) stint.PenaltyKind {
	const late = time.Second // bounds the time from the level to the gate
	lasts := p.Levels.Window() - levels.ResetAfter + left
	longest := p.cooldowns[len(p.cooldowns)-1]
	switch {
	case p.HotKey > 0 && (levels.ResetAfter == 0 || lasts > max(p.ban, longest)+late):
		return stint.HotKey
	case p.ban > 0 && (levels.Remaining == 0 || lasts > longest+late):
		return stint.Ban
	}
	return stint.CoolDown
}

// Limits returns the three limits of the penalty.
func (p *Penalty) Limits() []stint.Limit { return []stint.Limit{p.Gate, p.Strikes, p.Levels} }

// Has reports whether l is one of the penalty's limits. p may be nil.
func (p *Penalty) Has(l stint.Limit) bool {
	return p != nil && (l == p.Gate || l == p.Strikes || l == p.Levels)
}

// Penalties returns the penalties of the enforced rules, by each limit of such a
// rule. The key is the limit itself, because the id of a rule can also be the
// scope of limits that are no part of the rule set, and those are not punished.
func (s *Set) Penalties() map[stint.Limit]*Penalty {
	all := make(map[stint.Limit]*Penalty)
	for _, r := range s.Rules() {
		if r.Penalty == nil || r.Mode != Enforce {
			continue
		}
		for _, l := range r.everyLimit() {
			all[l] = r.Penalty
		}
	}
	return all
}

// everyLimit returns the limits of the rule for every tier and override.
func (r *Rule) everyLimit() []stint.Limit {
	limits := slices.Concat(r.byTier...)
	for _, o := range slices.Concat(r.overrides, r.temporaries) {
		limits = append(limits, slices.Concat(o.byTier...)...)
	}
	return limits
}

// The names of a penalty's limits. The rule's own limits must not use them.
const (
	gateName    = "penalty"
	strikesName = "penalty.strikes"
	levelsName  = "penalty.levels"
)

// longest returns the longest punishment.
func (p *Penalty) longest() time.Duration {
	return max(p.ban, p.HotKey, p.cooldowns[len(p.cooldowns)-1])
}
