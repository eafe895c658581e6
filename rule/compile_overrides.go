package rule

import (
	"fmt"
	"slices"

	"github.com/stintdev/stint"
)

// override holds the limits of the keys that replace the rule's limits.
type override struct {
	key    string
	byTier variants
}

func (c *compiler) compileOverrides(d *rawRule, r *Rule, tiers []*numbers) {
	for i := range d.override {
		if compiled, ok := c.compileOverride(d, r, tiers, &d.override[i]); ok {
			r.overriddenBy.add(compiled.key, int32(len(r.overrides)))
			r.overrides = append(r.overrides, compiled)
		}
	}
	seen := make(map[string]bool, len(d.temporary))
	for i := range d.temporary {
		o := &d.temporary[i]
		compiled, ok := c.compileOverride(d, r, tiers, o)
		switch {
		case !ok:
		case seen[o.key.text]:
			c.mistake(o.key.at, "temporary has an entry for this key already", "remove one")
		default:
			seen[o.key.text] = true
			r.temporarily.addUntil(o.key.text, o.until)
			r.temporaries = append(r.temporaries, compiled)
		}
	}
}

func (c *compiler) compileOverride(d *rawRule, r *Rule, tiers []*numbers, o *rawOverride) (compiled override, ok bool) {
	if c.stop {
		return compiled, false
	}
	c.checkNumbers(&o.numbers)
	if !c.checkEntry(o.key) {
		return compiled, false
	}
	if o.numbers.level == nil && len(o.numbers.limits) == 0 && !d.flawed {
		c.mistake(o.key.at, "an override sets no parameter", "set the parameters that differ, such as {capacity: 1000}, or remove it")
		return compiled, false
	}
	compiled.key = o.key.text
	for t, tier := range tiers {
		compiled.byTier = append(compiled.byTier, c.compilePlans(d, c.overridePlans(d, tier, o, r.byTier[t])))
	}
	return compiled, true
}

// overridePlans returns the rule's planned limits with the levels of the
// override in front.
func (c *compiler) overridePlans(d *rawRule, tier *numbers, o *rawOverride, base []stint.Limit) []plannedLimit {
	plans := c.plan(d, tier)
	if !d.numbers.namesLimits() && o.numbers.level != nil && o.numbers.level.namesRate() {
		plans = []plannedLimit{c.planOne(d, tier)} // the rule's own rate is nearer than a list of the tier or the defaults
	}
	if len(o.numbers.limits) > 0 {
		c.overrideNamed(o, plans, base)
		return plans
	}
	if len(plans) > 1 {
		c.flawed = true
		c.mistake(o.key.at, "an override does not name the limits of the rule that it changes", "name them: limits: [{name: …, limit: …}]")
		return nil
	}
	plans[0].override(o.numbers.level, o.key.at)
	return plans
}

// override puts a level in front. If the level sets an algorithm, it becomes
// the only near level: the parameters of the rule then apply only where the
// algorithm uses them.
func (p *plannedLimit) override(l *level, at position) {
	p.at = at
	if l.has(pAlgorithm) {
		p.near, p.far = nil, append(slices.Clone(p.near), p.far...)
	}
	p.near = append([]*level{l}, p.near...)
}

// overrideNamed applies each item of an override to the limit with the same
// name.
func (c *compiler) overrideNamed(o *rawOverride, plans []plannedLimit, base []stint.Limit) {
	if len(base) != len(plans) {
		return // a limit has a recorded mistake or does not apply
	}
	names := make([]string, len(base))
	for i := range base {
		names[i] = base[i].Name()
	}
	for i := range o.numbers.limits {
		item := &o.numbers.limits[i]
		name := item.name.text
		if name == "" {
			name = defaultName(item, plans[0].far)
		}
		at := slices.Index(names, name)
		if at < 0 {
			c.mistake(item.at, fmt.Sprintf("the rule has no limit named %.80q to override", name), nearestMend(name, names))
			continue
		}
		plans[at].override(item.level, item.at)
	}
}

// defaultName returns the name that an unnamed item gets.
func defaultName(item *rawLimit, shapes []*level) string {
	p := plannedLimit{near: []*level{item.level}, far: shapes}
	l, err := p.merged().spec.Compile()
	if err != nil {
		return ""
	}
	return l.Name()
}
