package rule

import (
	"errors"
	"fmt"

	"github.com/stintdev/stint"
)

// plannedLimit is one limit before it is compiled: the levels that provide its
// parameters, the nearest first. A parameter that the algorithm does not use is
// ignored in a far level and a mistake in a near one.
type plannedLimit struct {
	at   position
	name located
	near []*level
	far  []*level
	must bool // a rate is required
}

// variants holds the limits of a rule or of one of its overrides, by tier. If the limits do not
// depend on the request's tier, there is one entry. If they do, entry 0 is for requests without
// a tier, and one entry follows for each declared tier. An empty entry means that the rule does
// not apply.
type variants [][]stint.Limit

func (c *compiler) compileLimits(d *rawRule, r *Rule) {
	c.flawed = d.flawed
	c.checkNumbers(&d.numbers)
	if d.denyAll {
		// The decisions of a rule that denies everything name this limit. An invalid id,
		// which is already recorded, makes it fail to compile.
		l, err := stint.Spec{Rule: d.id.text, Name: "deny_all", Algorithm: stint.FixedWindow, Limit: 1, Window: stint.MinWindow}.Compile()
		if err == nil {
			r.byTier = variants{{l}}
		}
		return
	}
	own := d.numbers.namesLimits() || d.numbers.level.namesRate()
	r.perTier = !own && r.match.tier == noTier && len(c.raw.tiers) > 0
	tiers := []*numbers{nil}
	switch {
	case r.perTier:
		tiers = append(tiers, c.set.tiers.numbers...)
	case r.match.tier != noTier:
		tiers = c.set.tiers.numbers[r.match.tier : r.match.tier+1]
	}
	for _, t := range tiers {
		r.byTier = append(r.byTier, c.compilePlans(d, c.plan(d, t)))
		r.sources = append(r.sources, sourceOf(own, t))
	}
	if !c.flawed {
		c.checkApplies(d, r)
	}
	c.compileOverrides(d, r, tiers)
}

// sourceOf returns the place that provides the rate: the nearest that names one.
func sourceOf(own bool, tier *numbers) string {
	switch {
	case own:
		return "rule"
	case tier.namesLimits() || tier.parameters().namesRate():
		return "tier"
	}
	return "defaults"
}

// plan returns the limits of a rule for requests of a tier. tier may be nil.
func (c *compiler) plan(d *rawRule, tier *numbers) (plans []plannedLimit) {
	places := []*numbers{&d.numbers, tier, c.raw.defaults}
	for _, place := range places {
		if place.namesLimits() {
			return planList(place.limits, places)
		}
		if place.parameters().namesRate() {
			break
		}
	}
	return []plannedLimit{c.planOne(d, tier)}
}

// planOne returns the single limit that the levels define together.
func (c *compiler) planOne(d *rawRule, tier *numbers) plannedLimit {
	return plannedLimit{
		at: d.at, near: []*level{d.numbers.level},
		far: []*level{tier.parameters(), c.raw.defaults.parameters()},
	}
}

// planList plans the items of a list of limits. Each item is complete in
// itself, except that an item without an algorithm inherits the algorithm and
// bucket count of the nearest place that sets them.
func planList(items []rawLimit, places []*numbers) (plans []plannedLimit) {
	var shapes []*level
	for _, place := range places {
		if l := place.parameters(); l != nil {
			shapes = append(shapes, l.shape())
		}
	}
	for _, item := range items {
		plans = append(plans, plannedLimit{at: item.at, name: item.name, near: []*level{item.level}, far: shapes, must: true})
	}
	return plans
}

// compilePlans compiles the planned limits and skips those without a rate.
func (c *compiler) compilePlans(d *rawRule, plans []plannedLimit) (limits []stint.Limit) {
	for i := range plans {
		if c.tooMany(d) {
			return nil
		}
		l, ok := c.compileLimit(&plans[i], d.id.text)
		if !ok {
			continue
		}
		for _, other := range limits {
			if other.Name() == l.Name() {
				c.mistake(plans[i].at, fmt.Sprintf("rule %s has two limits named %s", d.id.text, l.Name()), "give one of them another name: {name: …}")
			}
		}
		limits = append(limits, l)
		c.checkHash(l, plans[i].at)
	}
	c.checkCost(d, limits)
	return limits
}

// tooMany counts a limit of the set and reports whether the bound is exceeded.
func (c *compiler) tooMany(d *rawRule) bool {
	if c.limits++; c.limits > maxLimits && !c.stop {
		c.stop, c.flawed = true, true
		c.mistake(d.at, fmt.Sprintf("more than %d limits, counting each for every tier and override", maxLimits), "give rules a rate or a tier of their own")
	}
	return c.stop
}

// compileLimit compiles one limit. It returns false if no level sets a rate or
// if the limit has a mistake.
func (c *compiler) compileLimit(p *plannedLimit, rule string) (l stint.Limit, ok bool) {
	m := p.merged()
	switch err := m.missing(); {
	case m.spoiled:
		c.flawed = true
		return stint.Limit{}, false
	case !m.namesRate():
		if p.must {
			c.flawed = true
			c.mistake(p.at, "a limit has no rate", "give it limit and window, or refill_rate")
		}
		return stint.Limit{}, false
	case err != nil:
		c.compileMistake(p, m, err)
		return stint.Limit{}, false
	}
	m.spec.Rule, m.spec.Name, m.spec.Store = rule, p.name.text, c.store
	l, err := m.spec.Compile()
	if err != nil {
		c.compileMistakes(p, m, err)
		return stint.Limit{}, false
	}
	if l.Rounded() {
		c.warn(m.place(&stint.LimitError{Field: "refill_rate"}, p.at), "the rate does not fit beside its capacity and is rounded down to "+l.Rate().RatString()+" a second", "")
	}
	return l, true
}

// compileMistakes records the mistake of a limit, then compiles again without
// the faulty parameter to find further mistakes.
func (c *compiler) compileMistakes(p *plannedLimit, m *level, err error) {
	c.compileMistake(p, m, err)
	for wrong, ok := m.fieldOf(err); ok; {
		wrong.copy(&m.spec, &stint.Spec{})
		m.given[wrong] = false
		_, err = m.spec.Compile()
		if wrong, ok = m.fieldOf(err); ok {
			c.compileMistake(p, m, err)
		}
	}
}

// compileMistake records a mistake at the position of the parameter, or at the
// position of the limit if the parameter is missing.
func (c *compiler) compileMistake(p *plannedLimit, m *level, err error) {
	c.flawed = true
	at := m.place(err, p.at)
	switch wrong, _ := errors.AsType[*stint.LimitError](err); {
	case wrong == nil:
	case wrong.Field == "rule":
		return // the problem of the id is already recorded
	case wrong.Field == "name" && p.name.text != "":
		at = p.name.at
	}
	c.limitMistake(at, err)
}

func (p *plannedLimit) merged() *level {
	levels := append(append([]*level(nil), p.near...), p.far...)
	nearest := &level{} // the default algorithm is the zero one
	nearest.takeNearest(pAlgorithm, levels)
	for i := len(p.near); i < len(levels); i++ {
		levels[i] = levels[i].limited(nearest.spec.Algorithm)
	}
	return merge(levels...)
}

// checkApplies rejects a rule without limits, and warns when the rule has no
// limits for a tier.
func (c *compiler) checkApplies(d *rawRule, r *Rule) {
	applies := false
	for _, limits := range r.byTier {
		applies = applies || len(limits) > 0
	}
	if !applies {
		c.mistake(d.at, "rule "+d.id.text+" has no limit", "give it limit and window, or refill_rate, or limits; or a tier or defaults that have them")
		return
	}
	for i, limits := range r.byTier {
		if r.perTier && i > 0 && len(limits) == 0 {
			c.warn(d.at, fmt.Sprintf("rule %s has no limit for tier %s and does not count it", d.id.text, c.set.tiers.names[i-1]), "give the tier, the rule or defaults a limit, unless this is intended")
		}
	}
}

// checkCost rejects a cost too large ever to be admitted. A rule that denies
// everything must say deny_all.
func (c *compiler) checkCost(d *rawRule, limits []stint.Limit) {
	n, err := whole("cost", d.cost.text, 0, stint.MaxCost)
	if err != nil {
		return // no cost, an attribute, or a mistake that is already recorded
	}
	var least stint.Limit
	fit := 0
	for _, l := range limits {
		if n <= l.Max() {
			fit++
		} else {
			least = l
		}
	}
	if len(limits) == 0 || fit == len(limits) || d.any && fit > 0 {
		return
	}
	c.mistake(d.cost.at, fmt.Sprintf("cost: %d is more than limit %s ever allows at once (%d): everything would be denied", n, least.Name(), least.Max()),
		"raise the limit, lower the cost, or write deny_all: true")
}
