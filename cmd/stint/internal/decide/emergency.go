package decide

import (
	"context"
	"slices"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
)

// takeInEmergency is TakeGroups of the store while an emergency is on: its claim joins each
// group. The callers of TakeGroups expect the decisions of their own claims, so the decision
// of the added claim is merged into these.
func (d *Decider) takeInEmergency(ctx context.Context, e *emergency.InForce, groups []stint.Group, out []stint.Decision, report *Report) error {
	joined := slices.Clone(groups)
	added := make([]bool, len(groups))
	for i := range joined {
		if c, ok := e.Join(groups[i].Claims); ok {
			joined[i].Claims, added[i] = append(withoutExtra(groups[i].Claims), c), true
		}
	}
	claims, _ := stint.Sizes(joined)
	decisions := make([]stint.Decision, claims)
	err := d.takeGroups(ctx, joined, decisions)
	for i := range joined {
		own := len(groups[i].Claims)
		copy(out, decisions[:own])
		if added[i] {
			merge(groups[i].Claims, out, &decisions[own])
			report.countEmergency(groups[i].Claims, out[:own], &decisions[own])
			decisions = decisions[1:]
		}
		all, _ := stint.Sizes(groups[i : i+1])
		copy(out[own:all], decisions[own:])
		out, decisions = out[all:], decisions[all:]
	}
	return err
}

// withoutExtra copies claims without their Extra: units for later requests would not count
// towards the emergency.
func withoutExtra(claims []stint.Claim) []stint.Claim {
	claims = append(make([]stint.Claim, 0, len(claims)+1), claims...)
	for i := range claims {
		claims[i].Extra = 0
	}
	return claims
}

// merge applies the decision of the emergency to the decisions of the other claims of its
// group. It leaves those of refunds as they are.
func merge(claims []stint.Claim, decisions []stint.Decision, e *stint.Decision) {
	for i := range claims {
		d := &decisions[i]
		if claims[i].Cost < 0 {
			continue
		}
		d.Remaining, d.ResetAfter = min(d.Remaining, e.Remaining), max(d.ResetAfter, e.ResetAfter)
		if e.Remaining == 0 {
			d.NextAfter = max(d.NextAfter, e.NextAfter)
		}
		if !e.Allowed {
			d.Allowed, d.RetryAfter = false, max(d.RetryAfter, e.RetryAfter)
			d.Delay, d.Granted = 0, 0
		}
	}
}

// joinEmergency adds the claim of the emergency to the claims of a take, the last ones of the
// batch from first on, and returns them.
func (b *Batch) joinEmergency(e *emergency.InForce, first int) []stint.Claim {
	if c, ok := e.Join(b.claims[first:]); ok {
		for i := first; i < len(b.claims); i++ {
			b.claims[i].Extra = 0
		}
		b.claims = append(b.claims, c)
	}
	return slices.Clip(b.claims[first:])
}

// DecidingRule returns the id of the rule that decided a take: that of the emergency if its
// limit is the binding one, and otherwise "".
func (a *Answer) DecidingRule() string {
	if last := len(a.Claims) - 1; last <= 0 || a.Claims[last].Limit.Rule() != emergency.Rule {
		return ""
	}
	binding, _ := stint.Combine(a.Claims, a.Decisions)
	return a.Claims[binding].Limit.Rule()
}

// countEmergency counts a group that the emergency joined.
func (r *Report) countEmergency(claims []stint.Claim, decisions []stint.Decision, e *stint.Decision) {
	if len(decisions) == 0 || e.At == 0 { // the group failed
		return
	}
	var room stint.Decision
	_, combined := combine(claims, decisions, &room)
	r.addEmergency(e, combined.Allowed)
}

func (r *Report) addEmergency(e *stint.Decision, allowed bool) {
	switch {
	case e.Degraded && (allowed || !e.Allowed):
		r.Emergency.Local++
	case !e.Allowed:
		r.Emergency.Denied++
	case allowed:
		r.Emergency.Allowed++
	}
}
