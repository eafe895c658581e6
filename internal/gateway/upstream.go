package gateway

import (
	"fmt"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// upstream is one place where requests go.
type upstream struct {
	target       *url.URL // scheme http or https, host, path
	name         string   // for logs: scheme and host as configured
	http2        bool     // without TLS: the scheme h2c
	upstreamHost bool     // ask for the target's own host
	inFlight     atomic.Int64
	turn         atomic.Uint64 // when it was chosen last, by the gateway's turns
	health       health
	trials       atomic.Int64  // requests in flight to it although it is not up
	look         chan struct{} // asks for a check now
}

// maxTrials bounds the requests that wait for an upstream which is not up: a
// dial that is not answered holds each of them for the dial timeout.
const maxTrials = 64

func newUpstream(target *url.URL, o *Options) (*upstream, error) {
	if err := validateUpstream(target); err != nil {
		return nil, err
	}
	u := &upstream{target: &url.URL{Scheme: target.Scheme, Host: target.Host, Path: target.Path, RawPath: target.RawPath}}
	u.look = make(chan struct{}, 1)
	u.name = target.Scheme + "://" + target.Host
	u.upstreamHost = o.Host == HostUpstream || o.Host == HostAuto && target.Scheme == "https"
	if target.Scheme == "h2c" {
		u.http2, u.target.Scheme = true, "http"
	}
	return u, nil
}

// validateUpstream shows the host alone of a URL that may hold a password.
func validateUpstream(target *url.URL) error {
	bad := func(problem, mend string) error {
		return fmt.Errorf("gateway: upstream %q: %s (%s)", target.Host, problem, mend)
	}
	switch {
	case target.Scheme != "http" && target.Scheme != "https" && target.Scheme != "h2c":
		return bad(fmt.Sprintf("the scheme %q is not known", target.Scheme), "use http, https or h2c")
	case target.Hostname() == "":
		return bad("the host is missing", "write it like http://127.0.0.1:9000")
	case target.User != nil:
		return bad("credentials in the URL are not sent", "leave them out")
	case target.RawQuery != "" || target.Fragment != "":
		return bad("a query or fragment has no meaning here", "keep scheme, host and path")
	}
	return nil
}

// choose returns the upstream with the fewest requests in flight among those
// that are up and were not tried yet, nil if there is none, and how often it
// had failed. Of equals, each has its turn.
func (g *Gateway) choose(now time.Time, tried []*upstream) (*upstream, int) {
	for {
		best := g.leastBusy(now, tried)
		if best == nil {
			return nil, 0
		}
		if failures, ok := best.health.claim(now); ok {
			return best, failures
		}
	}
}

func (g *Gateway) leastBusy(now time.Time, tried []*upstream) (best *upstream) {
	for _, u := range g.upstreams {
		if slices.Contains(tried, u) || !u.health.usable(now) {
			continue
		}
		if best == nil || u.before(best) {
			best = u
		}
	}
	if best != nil {
		best.turn.Store(g.turns.Add(1))
	}
	return best
}

// chooseAnyhow returns the upstream with the fewest requests in flight among
// those that were not tried yet, up or not, and nil if it may have no other
// trial. The caller ends the trial by subtracting it from trials.
//
// When no upstream is believed to be up, that belief may be older than the
// upstream's return: to ask one costs a dial, and to wait for the next check
// costs all requests until then.
func (g *Gateway) chooseAnyhow(tried []*upstream) (best *upstream) {
	for _, u := range g.upstreams {
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
	best.turn.Store(g.turns.Add(1))
	return best
}

// lookNow asks for a check without waiting for it.
func (u *upstream) lookNow() {
	select {
	case u.look <- struct{}{}:
	default: // somebody has asked
	}
}

// before prefers who has fewer requests in flight and, of equals, who had its
// turn longer ago: the turns of one that is down fall to all others alike.
func (u *upstream) before(other *upstream) bool {
	mine, others := u.inFlight.Load(), other.inFlight.Load()
	return mine < others || mine == others && u.turn.Load() < other.turn.Load()
}

// retryAfter is how long until the first of the upstreams is tried again.
func (g *Gateway) retryAfter(now time.Time) time.Duration {
	least := maxBackOff
	for _, u := range g.upstreams {
		least = min(least, u.health.retryAfter(now, g.options.HealthInterval))
	}
	return least
}
