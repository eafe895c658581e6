package envoyrls

import (
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stintdev/stint"
)

type descriptorStatus = pb.RateLimitResponse_DescriptorStatus

const (
	ok        = pb.RateLimitResponse_OK
	overLimit = pb.RateLimitResponse_OVER_LIMIT
)

// response is the answer to a decided plan.
func (p *plan) response() *pb.RateLimitResponse {
	last := p.asked[len(p.asked)-1].of
	r := &pb.RateLimitResponse{OverallCode: ok, Statuses: make([]*descriptorStatus, last+1)}
	for i := 0; i < len(p.asked); {
		of, face := p.asked[i].of, &p.asked[i]
		for i++; i < len(p.asked) && p.asked[i].of == of; i++ {
			if p.nearer(&p.asked[i], face) {
				face = &p.asked[i]
			}
		}
		s := p.status(face)
		if r.Statuses[of] = s; s.GetCode() == overLimit {
			r.OverallCode = overLimit
		}
	}
	return r
}

// nearer reports whether of two limits of one descriptor a is the one that
// decides, b coming first: it denies, and for longer; or both allow, and a has
// less left.
func (p *plan) nearer(a, b *asked) bool {
	if !a.applies() || !b.applies() { // one that another limit replaces
		return a.applies()
	}
	x, y := &p.decisions[a.claim], &p.decisions[b.claim]
	switch {
	case x.Allowed != y.Allowed:
		return !x.Allowed
	case x.Allowed:
		return a.limit.remaining(x) < b.limit.remaining(y)
	case x.RetryAfter != y.RetryAfter:
		return x.RetryAfter > y.RetryAfter
	}
	return a.limit.reset(x) > b.limit.reset(y)
}

func (p *plan) status(a *asked) *descriptorStatus {
	switch {
	case a.limit == nil:
		return &descriptorStatus{Code: ok}
	case a.limit.unlimited:
		return &descriptorStatus{Code: ok, LimitRemaining: math.MaxUint32}
	}
	d := &p.decisions[a.claim]
	s := &descriptorStatus{Code: ok, CurrentLimit: a.limit.info, LimitRemaining: a.limit.remaining(d), DurationUntilReset: durationpb.New(a.limit.reset(d))}
	if !d.Allowed && !p.observes(a.limit) {
		s.Code = overLimit
	}
	return s
}

func (l *limit) remaining(d *stint.Decision) uint32 {
	if l.banned {
		return 0
	}
	return uint32(max(0, min(d.Remaining, math.MaxUint32)))
}

// reset is when there will be more, in whole seconds, at least 1: what reads
// it drops fractions. A fixed window says when it ends, though nothing of it
// is used.
func (l *limit) reset(d *stint.Decision) time.Duration {
	wait := d.ResetAfter
	switch {
	case l.counted.Algorithm() == stint.FixedWindow:
		window := l.window.Microseconds()
		wait = time.Duration(window-d.At%window) * time.Microsecond
	case !d.Allowed && d.RetryAfter != stint.Never:
		wait = d.RetryAfter
	}
	return max(time.Second, (wait + time.Second - 1).Truncate(time.Second))
}

// headers tell the client of the limit that decides: the last one that denies,
// as Envoy's service says it, else the one with the least left.
func (n *HeaderNames) headers(statuses []*descriptorStatus) []*core.HeaderValue {
	var face *descriptorStatus
	for _, s := range statuses {
		switch {
		case s.GetCurrentLimit() == nil:
		case s.GetCode() == overLimit,
			face == nil,
			face.GetCode() != overLimit && s.GetLimitRemaining() < face.GetLimitRemaining():
			face = s
		}
	}
	if face == nil {
		return nil
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []*core.HeaderValue{
		{Key: n.Limit, Value: number(int64(face.GetCurrentLimit().GetRequestsPerUnit()))},
		{Key: n.Remaining, Value: number(int64(face.GetLimitRemaining()))},
		{Key: n.Reset, Value: number(face.GetDurationUntilReset().GetSeconds())},
	}
}

// count counts the decisions by limit, and reports whether there was one.
func (p *plan) count() bool {
	admitted := true
	for i := range p.asked {
		a := &p.asked[i]
		admitted = admitted && (p.all || !a.applies() || p.observes(a.limit) || p.decisions[a.claim].Allowed)
	}
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() {
			a.limit.counters.tally(p.decisions[a.claim].Allowed, p.observes(a.limit), admitted)
		}
	}
	return len(p.decisions) > 0
}

func (c *Counters) tally(allowed, observed, admitted bool) {
	switch {
	case !allowed && observed:
		c.ShadowDeny.Inc()
	case !allowed:
		c.Deny.Inc()
	case admitted:
		c.Allow.Inc()
	}
}
