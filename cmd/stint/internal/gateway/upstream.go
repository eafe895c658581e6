package gateway

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
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
	circuit      circuit
	trials       atomic.Int64  // requests in flight that were sent although it is down
	checkDue     chan struct{} // requests an immediate check
}

// maxWeight bounds the weight of an upstream.
const maxWeight = 1000

// maxTrials bounds the requests that try an upstream that is down: an unanswered dial
// holds each of them for the dial timeout.
const maxTrials = 64

// newUpstream makes an upstream of options that have been checked.
func newUpstream(gr *group, o *ServerOptions) *upstream {
	target := &url.URL{Scheme: o.URL.Scheme, Host: o.URL.Host, Path: o.URL.Path, RawPath: o.URL.RawPath}
	u := &upstream{group: gr, target: target, weight: max(1, int64(o.Weight)), checkDue: make(chan struct{}, 1)}
	u.name = target.Scheme + "://" + target.Host
	host := gr.options.Host
	u.upstreamHost = host == HostUpstream || host == HostAuto && target.Scheme == "https"
	if target.Scheme == "h2c" {
		u.http2, target.Scheme = true, "http"
	}
	return u
}

// Check returns an error for options that cannot be. It shows only the host of the URL,
// because the URL may hold a password.
func (o *ServerOptions) Check() error {
	target := o.URL
	if target == nil {
		return errors.New("an upstream has no URL (write it like http://127.0.0.1:9000)")
	}
	bad := func(problem, mend string) error {
		return fmt.Errorf("upstream %q: %s (%s)", target.Host, problem, mend)
	}
	switch {
	case target.Scheme != "http" && target.Scheme != "https" && target.Scheme != "h2c":
		return bad(fmt.Sprintf("the scheme %q is not known", target.Scheme), "use http, https or h2c")
	case target.Hostname() == "":
		return bad("the host is missing", "write it like http://127.0.0.1:9000")
	case target.Port() != "" && !isPort(target.Port()):
		return bad("the port is out of range", "use 1 to 65535")
	case target.User != nil:
		return bad("credentials in the URL are not sent", "leave them out")
	case target.RawQuery != "" || target.Fragment != "":
		return bad("a query or fragment has no meaning here", "keep scheme, host and path")
	case o.Weight < 0 || o.Weight > maxWeight:
		return bad(fmt.Sprintf("weight %d is out of range", o.Weight), fmt.Sprintf("use 1 to %d", maxWeight))
	}
	return nil
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

// before prefers the upstream with fewer requests in flight per weight and, on a tie, the
// one whose turn is earlier.
func (u *upstream) before(other *upstream) bool {
	mine, others := u.inFlight.Load()*other.weight, other.inFlight.Load()*u.weight
	return mine < others || mine == others && u.turn.Load() < other.turn.Load()
}

// claim asks the health and the circuit of the upstream for a request. In a panic, failed
// checks and ejections are not obeyed.
func (u *upstream) claim(now time.Time, panics bool) (p permit, ok bool) {
	if p, ok = u.circuit.claim(panics); !ok {
		return p, false
	}
	if p.failures, ok = u.health.claim(now, panics); !ok {
		p.end(breaker.Ignored)
	}
	return p, ok
}

// requestCheck requests a check without waiting for it.
func (u *upstream) requestCheck() {
	select {
	case u.checkDue <- struct{}{}:
	default: // a check is already requested
	}
}
