package rule

import (
	"errors"
	"fmt"

	"github.com/stintdev/stint"
)

// plannedLimit is one limit before it is compiled: the levels that its
// parameters come from, the nearest first. Those of the far ones that its
// algorithm does not have are passed over; in a near one they are a mistake.
type plannedLimit struct {
	at   position
	name located
	near []*level
	far  []*level
	must bool // name a rate
}

// variants is the limits of a rule, or of one of its overrides: at 0 those of
// every request, or when the rule takes the numbers of the request's tier,
// those of a request without one; then one entry a declared tier. An empty
// entry says that the rule does not apply.
type variants [][]stint.Limit

func (c *compiler) compileLimits(d *ruleDraft, r *Rule) {
	c.flawed = d.flawed
	c.checkNumbers(&d.numbers)
	if d.denyAll {
		r.byTier = variants{c.denyingLimit(d)}
		return
	}
	own := d.numbers.namesLimits() || d.numbers.level.namesRate()
	r.perTier = !own && r.match.tier == noTier && len(c.draft.tiers) > 0
	tiers := []*numbers{nil}
	switch {
	case r.perTier:
		tiers = append(tiers, c.set.tiers.numbers...)
	case r.match.tier != noTier:
		tiers = c.set.tiers.numbers[r.match.tier : r.match.tier+1]
	}
	for _, t := range tiers {
		r.byTier = append(r.byTier, c.compilePlans(d, c.plan(d, t)))
	}
	if !c.flawed {
		c.checkApplies(d, r)
	}
	c.compileOverrides(d, r, tiers)
}

// denyingLimit names the decisions of a rule that denies everything.
func (c *compiler) denyingLimit(d *ruleDraft) []stint.Limit {
	l, err := stint.Spec{Rule: d.id.text, Name: "deny_all", Algorithm: stint.FixedWindow, Limit: 1, Window: stint.MinWindow}.Compile()
	if err != nil {
		return nil // the id is a mistake, listed already
	}
	return []stint.Limit{l}
}

// plan lists the limits of a rule for requests of a tier, which may be nil.
func (c *compiler) plan(d *ruleDraft, tier *numbers) (plans []plannedLimit) {
	places := []*numbers{&d.numbers, tier, c.draft.defaults}
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

// planOne is the one limit that the levels say together.
func (c *compiler) planOne(d *ruleDraft, tier *numbers) plannedLimit {
	return plannedLimit{
		at: d.at, near: []*level{d.numbers.level},
		far: []*level{tier.parameters(), c.draft.defaults.parameters()},
	}
}

// planList lists limits that are complete in themselves, but that an item
// without an algorithm counts as the nearest place says.
func planList(items []limitDraft, places []*numbers) (plans []plannedLimit) {
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

// compilePlans compiles the limits that have a rate.
func (c *compiler) compilePlans(d *ruleDraft, plans []plannedLimit) (limits []stint.Limit) {
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
				c.mistake(plans[i].at, fmt.Sprintf("rule %s has two limits named %s", d.id.text, l.Name()), "give one another name: {name: …}")
			}
		}
		limits = append(limits, l)
		c.checkHash(l, plans[i].at)
	}
	c.checkCost(d, limits)
	return limits
}

// tooMany counts the limits of the set, and ends at their bound.
func (c *compiler) tooMany(d *ruleDraft) bool {
	if c.limits++; c.limits > maxLimits && !c.stop {
		c.stop, c.flawed = true, true
		c.mistake(d.at, fmt.Sprintf("more than %d limits, counting each for every tier and override", maxLimits), "give rules a rate or a tier of their own")
	}
	return c.stop
}

// compileLimit compiles one limit; not ok when nothing names its rate, or it
// has a mistake.
func (c *compiler) compileLimit(p *plannedLimit, rule string) (l stint.Limit, ok bool) {
	m := p.merged()
	switch err := m.missing(); {
	case m.spoiled:
		c.flawed = true
		return stint.Limit{}, false
	case !m.namesRate():
		c.requireRate(p)
		return stint.Limit{}, false
	case err != nil:
		c.compileMistake(p, m, err)
		return stint.Limit{}, false
	}
	m.spec.Rule, m.spec.Name = rule, p.name.text
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

// requireRate lists a limit that names no rate, where it stands for itself.
func (c *compiler) requireRate(p *plannedLimit) {
	if p.must {
		c.flawed = true
		c.mistake(p.at, "a limit names no rate", "give it limit and window, or refill_rate")
	}
}

// compileMistakes lists what is wrong with a limit, and then what is wrong
// without the parameters that were listed.
func (c *compiler) compileMistakes(p *plannedLimit, m *level, err error) {
	c.compileMistake(p, m, err)
	for wrong, ok := m.fieldOf(err); ok; {
		m.drop(wrong)
		_, err = m.spec.Compile()
		if wrong, ok = m.fieldOf(err); ok {
			c.compileMistake(p, m, err)
		}
	}
}

// compileMistake lists what is wrong with a limit where that was given; what
// is missing, where the limit is.
func (c *compiler) compileMistake(p *plannedLimit, m *level, err error) {
	c.flawed = true
	at := m.place(err, p.at)
	switch wrong, _ := errors.AsType[*stint.LimitError](err); {
	case wrong == nil:
	case wrong.Field == "rule":
		return // the id, listed already
	case wrong.Field == "name" && p.name.text != "":
		at = p.name.at
	}
	c.limitMistake(at, err)
}

func (p *plannedLimit) merged() *level {
	levels := append(append([]*level(nil), p.near...), p.far...)
	algorithm := algorithmOf(levels...)
	for i := len(p.near); i < len(levels); i++ {
		levels[i] = levels[i].limited(algorithm)
	}
	return merge(levels...)
}

// checkApplies refuses a rule without numbers, and warns of a tier for which
// it has none.
func (c *compiler) checkApplies(d *ruleDraft, r *Rule) {
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
			c.warn(d.at, fmt.Sprintf("rule %s has no limit for tier %s and does not count it", d.id.text, c.set.tiers.names[i-1]), "give the tier, the rule or defaults one, if it is meant to")
		}
	}
}

// checkCost refuses a rule that denies everything without saying so.
func (c *compiler) checkCost(d *ruleDraft, limits []stint.Limit) {
	n, err := whole("cost", d.cost.text, 0, stint.MaxCost)
	if err != nil {
		return // none, an attribute, or a mistake that is listed already
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
		"raise the limit, lower the cost, or say deny_all: true")
}
