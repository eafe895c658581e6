package penalty

import (
	"context"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// settling is within what time a punishment is in force and its caller can know:
// until then denials earn no other, so that a burst of requests earns one.
// Strikes that are full for longer are left over from a node that failed before
// it punished, or from a rule that allowed more of them.
const settling = time.Second

// strike counts those who were denied, and punishes who had no strike left. It
// does so too for a caller that hung up: it was denied all the same.
func (t *evaluation) strike(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	struck := t.filter(func(c *caller) bool { return !c.blind && c.strike == nil && t.hit(c) })
	var groups []stint.Group
	for _, c := range struck {
		groups = append(groups, c.strikes()...)
	}
	if len(groups) > 0 {
		out := make([]stint.Decision, len(groups))
		if t.store.inner.TakeGroups(ctx, groups, out) != nil {
			return // it is counted where errors of the store are; the decision stands
		}
		shareOut(struck, out)
	}
	for _, c := range t.filter(func(c *caller) bool { return c.strike != nil }) {
		t.judge(ctx, c)
	}
}

// filter is the callers of whom something is so.
func (t *evaluation) filter(so func(*caller) bool) (list []*caller) {
	for i := range t.callers {
		if c := &t.callers[i]; so(c) {
			list = append(list, c)
		}
	}
	return list
}

// strikeGroups is how many groups strikes makes.
const strikeGroups = 3

// strikes asks for a strike, and for the gate and the levels as they are with it.
func (c *caller) strikes() []stint.Group {
	p := c.penalty
	return []stint.Group{{Claims: c.claim(p.Strikes, 1)}, {Claims: c.claim(p.Gate, 0)}, {Claims: c.claim(p.Levels, 0)}}
}

// shareOut gives each caller the answers to what strikes asked for.
func shareOut(struck []*caller, out []stint.Decision) {
	for i, c := range struck {
		c.strike = out[strikeGroups*i : strikeGroups*(i+1)]
	}
}

// hit reports whether a caller was denied by its punishment, or by a limit of
// the rule that it could have waited for. Of alternatives all must have denied.
func (t *evaluation) hit(c *caller) bool {
	switch {
	case c.peeks:
		return false
	case c.left > 0:
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

// judge says what comes of a strike. A caller has a last strike only once until
// it is punished: full strikes keep out those that come in between.
func (t *evaluation) judge(ctx context.Context, c *caller) {
	strike, left, levels := &c.strike[0], c.strike[1].ResetAfter, &c.strike[2]
	if slices.ContainsFunc(c.strike, func(d stint.Decision) bool { return d.Degraded }) {
		return
	}
	c.left = max(c.left, left)
	began := left > 0 && since(c.penalty.Levels, levels) < settling
	switch {
	case strike.Allowed && strike.Remaining > 0:
	case strike.Allowed && !began:
		t.punish(ctx, c, left)
	case strike.Allowed || since(c.penalty.Strikes, strike) > settling:
		// Where this fails they are stuck, and the next one tries again.
		_, _ = t.store.inner.Take(ctx, c.claim(c.penalty.Strikes, stint.Forget)[0])
	}
}

// since is how long ago the newest entry of a log was made.
func since(log stint.Limit, d *stint.Decision) time.Duration { return log.Window() - d.ResetAfter }

// punish begins the caller's next punishment; left is what is left of its last.
func (t *evaluation) punish(ctx context.Context, c *caller, left time.Duration) {
	p := c.penalty
	up, err := t.store.inner.Take(ctx, c.claim(p.Levels, 1)[0])
	if err != nil || up.Degraded {
		return
	}
	level := p.Levels.Max()
	if up.Allowed {
		level -= up.Remaining
	}
	d, ban := p.Of(level)
	units := max(0, int64((d-left)/rule.GateUnit)) // 0: what is left is longer
	groups := []stint.Group{{Claims: c.claim(p.Gate, units)}, {Claims: c.claim(p.Strikes, stint.Forget)}}
	if !up.Allowed { // as hard again for as long again
		groups = append(groups, stint.Group{Claims: c.claim(p.Levels, stint.Forget)}, stint.Group{Claims: c.claim(p.Levels, p.Levels.Max())})
	}
	out := make([]stint.Decision, len(groups))
	err = t.store.inner.TakeGroups(ctx, groups, out)
	if gate := &out[0]; err == nil && units > 0 && gate.Allowed && !gate.Degraded {
		c.left = gate.ResetAfter
		t.store.observer.Began(&Punishment{Rule: c.rule, Key: c.key, For: c.left, Ban: ban})
	}
}
