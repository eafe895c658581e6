package gateway

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// group is a set of upstreams that serve the same requests. Its connections, its health
// checks and its choice of an upstream are independent of other groups.
type group struct {
	options   GroupOptions
	upstreams []*upstream
	wire      transports
	turns     atomic.Uint64 // number of upstream choices so far
}

func newGroup(o GroupOptions) (*group, error) {
	o = o.setDefaults()
	if err := validateHealthPath(o.HealthPath); err != nil {
		return nil, err
	}
	gr := &group{options: o, wire: newTransports(&o)}
	for i := range o.Servers {
		u, err := newUpstream(gr, &o.Servers[i])
		if err != nil {
			return nil, err
		}
		gr.upstreams = append(gr.upstreams, u)
	}
	if len(gr.upstreams) == 0 {
		return nil, fmt.Errorf("gateway: group %q has no upstream (give at least one URL such as http://127.0.0.1:9000)", o.Name)
	}
	return gr, nil
}

// choose returns the upstream with the fewest requests in flight among those that are up
// and not yet tried, or nil, and the count of its failures. Ties go round robin.
func (gr *group) choose(now time.Time, tried []*upstream) (*upstream, int) {
	for {
		best := gr.leastBusy(now, tried)
		if best == nil {
			return nil, 0
		}
		if failures, ok := best.health.claim(now); ok {
			return best, failures
		}
	}
}

func (gr *group) leastBusy(now time.Time, tried []*upstream) (best *upstream) {
	for _, u := range gr.upstreams {
		if slices.Contains(tried, u) || !u.health.usable(now) {
			continue
		}
		if best == nil || u.before(best) {
			best = u
		}
	}
	if best != nil {
		best.turn.Store(gr.turns.Add(1))
	}
	return best
}

// chooseDown returns the upstream with the fewest requests in flight among those not
// yet tried, up or down. It returns nil if that upstream has maxTrials trials. The caller
// ends the trial by subtracting it from trials.
//
// When every upstream is considered down, that information may be out of date. Trying one
// costs a dial; waiting for the next check would cost all requests until then.
func (gr *group) chooseDown(tried []*upstream) (best *upstream) {
	for _, u := range gr.upstreams {
		if !slices.Contains(tried, u) && (best == nil || u.before(best)) {
			best = u
		}
	}
	switch {
	case best == nil:
		return nil
	case best.trials.Add(1) > maxTrials:
		best.trials.Add(-1)
		return nil
	}
	best.turn.Store(gr.turns.Add(1))
	return best
}

// retryAfter returns the time until the first of the upstreams is tried again.
func (gr *group) retryAfter(now time.Time) time.Duration {
	least := maxBackOff
	for _, u := range gr.upstreams {
		least = min(least, u.health.retryAfter(now, gr.options.HealthInterval))
	}
	return least
}
