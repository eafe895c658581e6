package gateway

import (
	"fmt"
	"net/url"
	"sync/atomic"
)

// upstream is one destination of requests.
type upstream struct {
	group        *group
	target       *url.URL // scheme http or https, host, path
	name         string   // for logs: scheme and host as configured
	http2        bool     // without TLS: the scheme h2c
	upstreamHost bool     // send the target's own host
	inFlight     atomic.Int64
	weight       int64
	turn         atomic.Int64 // virtual time of its next turn; see group.took
	health       health
	trials       atomic.Int64  // requests in flight that were sent although it is down
	checkDue     chan struct{} // requests an immediate check
}

// maxWeight bounds the weight of an upstream.
const maxWeight = 1000

// maxTrials bounds the requests that try an upstream that is down: an unanswered dial
// holds each of them for the dial timeout.
const maxTrials = 64

func newUpstream(gr *group, o *ServerOptions) (*upstream, error) {
	target := o.URL
	if err := validateUpstream(target); err != nil {
		return nil, err
	}
	if o.Weight < 0 || o.Weight > maxWeight {
		return nil, fmt.Errorf("gateway: upstream %q: weight %d is out of range (use 1 to %d)", target.Host, o.Weight, maxWeight)
	}
	u := &upstream{group: gr, weight: max(1, int64(o.Weight)), target: &url.URL{Scheme: target.Scheme, Host: target.Host, Path: target.Path, RawPath: target.RawPath}}
	u.checkDue = make(chan struct{}, 1)
	u.name = target.Scheme + "://" + target.Host
	host := gr.options.Host
	u.upstreamHost = host == HostUpstream || host == HostAuto && target.Scheme == "https"
	if target.Scheme == "h2c" {
		u.http2, u.target.Scheme = true, "http"
	}
	return u, nil
}

// validateUpstream shows only the host of the URL in errors, because the URL may hold a
// password.
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

// before prefers the upstream with fewer requests in flight per weight and, on a tie, the
// one whose turn is earlier.
func (u *upstream) before(other *upstream) bool {
	mine, others := u.inFlight.Load()*other.weight, other.inFlight.Load()*u.weight
	return mine < others || mine == others && u.turn.Load() < other.turn.Load()
}

// requestCheck requests a check without waiting for it.
func (u *upstream) requestCheck() {
	select {
	case u.checkDue <- struct{}{}:
	default: // a check is already requested
	}
}
