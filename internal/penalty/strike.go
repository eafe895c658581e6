package penalty

import (
	"context"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// strike counts those who were denied, and punishes who had no strike left.
func (t *trial) strike(ctx context.Context) {
	var struck []*caller
	var groups []stint.Group
	for i := range t.callers {
		if c := &t.callers[i]; !c.blind && t.hit(c) {
			struck = append(struck, c)
			groups = append(groups, stint.Group{Claims: c.claim(c.penalty.Strikes, 1)})
		}
	}
	if len(struck) == 0 {
		return
	}
	strikes := make([]stint.Decision, len(groups))
	if t.store.inner.TakeGroups(ctx, groups, strikes) != nil {
		return // it is counted where errors of the store are; the decision stands
	}
	for i, c := range struck {
		if d := strikes[i]; d.Allowed && d.Remaining == 0 && !d.Degraded {
			t.punish(ctx, c)
		}
	}
}

// hit reports whether a caller was denied by its punishment, or by a limit of
// the rule that it could have waited for. Of alternatives all must have denied.
func (t *trial) hit(c *caller) bool {
	if c.left > 0 {
		return true
	}
	admitted := false
	for j := range c.claims {
		d := &t.out[c.first+j]
		switch {
		case d.Degraded || d.RetryAfter == stint.Never:
			return false
		case d.Allowed:
			admitted = true
		case c.claims[j].Any == 0:
			return true
		}
	}
	return !admitted
}

// punish begins the caller's next punishment. Whoever took the last strike does
// it, so that it is done once.
func (t *trial) punish(ctx context.Context, c *caller) {
	groups := []stint.Group{
		{Claims: c.claim(c.penalty.Levels, 1)},
		{Claims: c.claim(c.penalty.Strikes, stint.Forget)},
	}
	var out [2]stint.Decision
	if t.store.inner.TakeGroups(ctx, groups, out[:]) != nil {
		return
	}
	level := c.penalty.Levels.Max()
	if out[0].Allowed {
		level -= out[0].Remaining
	}
	d, ban := c.penalty.Of(level)
	units := int64((d - c.left + rule.GateUnit - 1) / rule.GateUnit)
	if units <= 0 {
		return // what is left of the last one is longer
	}
	gate, err := t.store.inner.Take(ctx, c.claim(c.penalty.Gate, units)[0])
	if err != nil || gate.Degraded || !gate.Allowed {
		return
	}
	c.left = gate.ResetAfter
	t.store.observer.Began(c.rule, ban)
}
