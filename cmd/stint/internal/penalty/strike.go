package penalty

import (
	"context"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// settling bounds the time until a punishment is in force and its caller can
// know of it. Denials in that time earn no second punishment, so that a burst
// of requests earns one. Strikes that have been full for longer are left over
// from a node that failed before it punished, or from a rule that allowed more
// strikes.
const settling = time.Second

// strike records a strike for each denied caller and punishes the callers that
// have no strike left. It ignores the cancellation of ctx, because a caller
// that hung up was denied all the same.
func (e *evaluation) strike(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	struck := e.filter(func(c *caller) bool { return !c.blind && c.strike == nil && e.hit(c) })
	var groups []stint.Group
	for _, c := range struck {
		groups = append(groups, c.strikes()...)
	}
	if len(groups) > 0 {
		out := make([]stint.Decision, len(groups))
		if e.store.inner.TakeGroups(ctx, groups, out) != nil {
			return // the store reports its own errors; the decision stands
		}
		shareOut(struck, out)
	}
	for _, c := range e.filter(func(c *caller) bool { return c.strike != nil }) {
		e.actOn(ctx, c)
	}
}

// filter returns the callers that match the predicate.
func (e *evaluation) filter(match func(*caller) bool) (list []*caller) {
	for i := range e.callers {
		if c := &e.callers[i]; match(c) {
			list = append(list, c)
		}
	}
	return list
}

// strikeGroups is the number of groups that strikes returns.
const strikeGroups = 3

// strikes returns the groups that record a strike, if the penalty counts denials, and read
// the gate and the levels.
func (c *caller) strikes() []stint.Group {
	p, cost := c.penalty, int64(1)
	if !p.Denials {
		cost = 0
	}
	return []stint.Group{{Claims: c.claim(p.Strikes, cost)}, {Claims: c.claim(p.Gate, 0)}, {Claims: c.claim(p.Levels, 0)}}
}

// shareOut assigns each caller the decisions on its strikes groups.
func shareOut(struck []*caller, out []stint.Decision) {
	for i, c := range struck {
		c.strike = out[strikeGroups*i : strikeGroups*(i+1)]
	}
}

// hit reports whether the caller was denied by its punishment or by a limit
// that would have admitted it later. A set of alternatives counts as denied if
// every limit of it denied.
func (e *evaluation) hit(c *caller) bool {
	switch {
	case c.peeks || !c.penalty.Denials:
		return false
	case c.left > 0:
		return true
	}
	admitted := false
	for j := range c.claims {
		d := &e.out[c.first+j]
		switch {
		case d.Degraded || d.RetryAfter == stint.Never:
			return false
		case d.Allowed:
			admitted = true
		case c.claims[j].AnyOf == 0:
			return true
		}
	}
	return !admitted
}

// actOn acts on the result of a strike. Between two punishments exactly one
// strike of a caller is the last one: full strikes reject all others.
func (e *evaluation) actOn(ctx context.Context, c *caller) {
	strike, left, levels := &c.strike[0], c.strike[1].ResetAfter, &c.strike[2]
	if slices.ContainsFunc(c.strike, func(d stint.Decision) bool { return d.Degraded }) {
		return
	}
	c.left = max(c.left, left)
	began := left > 0 && since(c.penalty.Levels, levels) < settling
	switch {
	case strike.Allowed && strike.Remaining > 0:
	case strike.Allowed && !began:
		e.punish(ctx, c, left)
	case strike.Allowed || since(c.penalty.Strikes, strike) > settling:
		// If this fails, the strikes stay full, and the next denial tries again.
		_, _ = e.store.inner.Take(ctx, c.claim(c.penalty.Strikes, stint.Forget)[0])
	}
}

// since returns the age of the newest entry of a log.
func since(log stint.Limit, d *stint.Decision) time.Duration { return log.Window() - d.ResetAfter }

// punish begins the caller's next punishment. left is the remaining time of the
// current one.
func (e *evaluation) punish(ctx context.Context, c *caller, left time.Duration) {
	p := c.penalty
	up, err := e.store.inner.Take(ctx, c.claim(p.Levels, 1)[0])
	if err != nil || up.Degraded {
		return
	}
	level := p.Levels.Max()
	if up.Allowed {
		level -= up.Remaining
	}
	d, ban := p.Of(level)
	units := max(0, int64((d-left)/rule.GateUnit)) // 0: the current punishment lasts longer
	groups := []stint.Group{{Claims: c.claim(p.Gate, units)}, {Claims: c.claim(p.Strikes, stint.Forget)}}
	if !up.Allowed { // keep the highest level for another window
		groups = append(groups, stint.Group{Claims: c.claim(p.Levels, stint.Forget)}, stint.Group{Claims: c.claim(p.Levels, p.Levels.Max())})
	}
	out := make([]stint.Decision, len(groups))
	err = e.store.inner.TakeGroups(ctx, groups, out)
	if gate := &out[0]; err == nil && units > 0 && gate.Allowed && !gate.Degraded {
		c.left, c.kind = gate.ResetAfter, stint.CoolDown
		if ban {
			c.kind = stint.Ban
		}
		e.store.observer.Began(&Punishment{Rule: c.rule, Key: c.key, For: c.left, Kind: c.kind})
	}
}

// banHotKeys bans the callers whose key is hot, unless they are being punished.
func (e *evaluation) banHotKeys(ctx context.Context) {
	for i := range e.callers {
		if c := &e.callers[i]; c.left <= 0 && !c.blind && e.store.isHot(c.penalty, &c.claims[0]) {
			e.banHotKey(ctx, c)
		}
	}
}

// banHotKey fills the caller's gate if it is empty. Many requests of a hot key come here at
// once, on several nodes: the gate accepts the claim of the first one, because any other
// would be delayed.
func (e *evaluation) banHotKey(ctx context.Context, c *caller) {
	claim := c.claim(c.penalty.Gate, int64(c.penalty.HotKey/rule.GateUnit))[0]
	claim.MaxDelay = -1
	gate, err := e.store.inner.Take(context.WithoutCancel(ctx), claim)
	if err != nil || gate.Degraded {
		return // the store reports its own errors
	}
	c.left, c.kind = gate.ResetAfter, stint.HotKey
	if gate.Allowed {
		e.store.observer.Began(&Punishment{Rule: c.rule, Key: c.key, For: c.left, Kind: c.kind})
	}
}
