package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/resilience/bulkhead"
)

// group is a set of upstreams that serve the same requests. Its connections, its health
// checks and its choice of an upstream are independent of other groups.
type group struct {
	options   GroupOptions
	upstreams []*upstream
	wire      atomic.Pointer[transports]
	metrics   GroupMetrics
	handler   http.Handler       // serves the group's requests within their deadline
	turn      atomic.Int64       // virtual time: the turn that was taken last
	ejected   atomic.Int64       // upstreams whose ejection is in force
	retries   http.RoundTripper  // nil: none
	bulkhead  *bulkhead.Bulkhead // nil: none
	now       func() time.Time
	log       *slog.Logger
}

func newGroup(o GroupOptions, of *Options) (*group, error) {
	o = o.setDefaults()
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("gateway: group %q: %w", o.Name, err)
	}
	gr := &group{options: o, now: of.Clock, log: of.Logger}
	for i := range o.Servers {
		if err := o.Servers[i].Check(); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
		u := newUpstream(gr, &o.Servers[i])
		if err := gr.guard(u); err != nil {
			return nil, err
		}
		gr.upstreams = append(gr.upstreams, u)
	}
	gr.wire.Store(newTransports(&gr.options))
	o.Files.OnChange(gr.renewConnections)
	if o.Bulkhead != nil {
		var err error
		if gr.bulkhead, err = bulkhead.New(*o.Bulkhead); err != nil {
			return nil, err
		}
	}
	return gr, nil
}

// Check returns an error for options that cannot be. Servers are checked one by one.
func (o *GroupOptions) Check() error {
	if err := checkHealthPath(o.HealthPath); err != nil {
		return err
	}
	switch {
	case len(o.Name) > maxName:
		return fmt.Errorf("the name is longer than %d bytes (shorten it)", maxName)
	case len(o.Servers) == 0:
		return errors.New("there is no upstream (give at least one URL such as http://127.0.0.1:9000)")
	case (o.TLS != nil || o.Files != nil) && !slices.ContainsFunc(o.Servers, func(s ServerOptions) bool { return s.URL != nil && s.URL.Scheme == "https" }):
		return errors.New("tls: no server has an https URL (write https://, or remove tls)")
	}
	if err := inRange("health: interval", o.HealthInterval, time.Millisecond, maxInterval); err != nil {
		return err
	}
	return o.checkResilience()
}

// renewConnections has later requests dial new connections, with the certificates that are
// now in force. Connections in use serve their requests to the end.
func (gr *group) renewConnections() {
	old := gr.wire.Swap(newTransports(&gr.options))
	old.closeIdle()
}

// choose returns the upstream with the fewest requests in flight per weight among those
// that are up and not yet tried, or nil, and the permission to send a request to it. Ties
// go in turns.
func (gr *group) choose(now time.Time, tried []*upstream) (*upstream, permit) {
	for {
		best, panics := gr.leastBusy(now, tried)
		if best == nil {
			return nil, permit{}
		}
		if p, ok := best.claim(now, panics); ok {
			return best, p
		}
		tried = append(slices.Clip(tried), best) // another request has the only probe
	}
}

// chooseAnother is choose for a request that was sent to some upstreams before: it prefers
// those that were not used.
func (gr *group) chooseAnother(now time.Time, tried, used []*upstream) (*upstream, permit) {
	if len(used) > 0 {
		if u, p := gr.choose(now, slices.Concat(tried, used)); u != nil {
			return u, p
		}
	}
	return gr.choose(now, tried)
}

// leastBusy chooses among the upstreams that are usable. If fewer than PanicBelow of all
// are, it also chooses among those that are ejected or have failed a check: the few that
// are usable could not bear all requests and would fail next, and what ejected the others
// may be the requests themselves.
func (gr *group) leastBusy(now time.Time, tried []*upstream) (best *upstream, panics bool) {
	usable := 0
	for _, u := range gr.upstreams {
		if !u.health.usable(now) || !u.circuit.usable() {
			continue
		}
		usable++
		best = better(best, u, tried)
	}
	if float64(usable) < gr.options.PanicBelow*float64(len(gr.upstreams)) {
		panics = true
		gr.metrics.Panics.Inc()
		for _, u := range gr.upstreams {
			if !u.health.pausing(now) && !u.circuit.open() {
				best = better(best, u, tried)
			}
		}
	}
	if best != nil {
		gr.took(best)
	}
	return best, panics
}

// better returns the less busy of two upstreams, if u was not tried. best may be nil.
func better(best, u *upstream, tried []*upstream) *upstream {
	if slices.Contains(tried, u) || best != nil && !u.before(best) {
		return best
	}
	return u
}

// turnLength is the virtual time between two turns of an upstream of weight 1.
const turnLength = maxWeight * maxWeight

// took sets the next turn of an upstream that was chosen. Turns break ties, so that idle
// upstreams share requests by their weights: the greater the weight, the sooner the next
// turn. Turns in the past are forgotten: the turns of an upstream that is down are shared
// by the others, and it gets no more than its share when it is back. Concurrent choices
// may take the same turn, which the count of requests in flight corrects.
func (gr *group) took(u *upstream) {
	turn := max(u.turn.Load(), gr.turn.Load())
	gr.turn.Store(turn)
	u.turn.Store(turn + turnLength/u.weight)
}

// chooseDown returns the upstream with the fewest requests in flight per weight among
// those not yet tried, up or down. It returns nil if that upstream has maxTrials trials,
// or if its circuit breaker refuses. The caller ends the trial by subtracting it from
// trials.
//
// When every upstream is considered down, that information may be out of date. Trying one
// costs a dial; waiting for the next check would cost all requests until then.
func (gr *group) chooseDown(tried []*upstream) (best *upstream, p permit) {
	for _, u := range gr.upstreams {
		if !u.circuit.open() {
			best = better(best, u, tried)
		}
	}
	if best == nil {
		return nil, p
	}
	if best.trials.Add(1) <= maxTrials {
		if p, ok := best.circuit.claim(true); ok {
			gr.took(best)
			return best, p
		}
	}
	best.trials.Add(-1)
	return nil, p
}

// whyNone returns the error of a request for which chooseDown found no upstream.
func (gr *group) whyNone() error {
	if slices.ContainsFunc(gr.upstreams, func(u *upstream) bool { return !u.circuit.open() }) {
		return errAllDown
	}
	return errAllOpen
}

// retryAfter returns the time until the first of the upstreams is tried again.
func (gr *group) retryAfter(now time.Time) time.Duration {
	least := maxBackOff
	for _, u := range gr.upstreams {
		least = min(least, max(u.health.retryAfter(now, gr.options.HealthInterval), u.circuit.retryAfter()))
	}
	return least
}
