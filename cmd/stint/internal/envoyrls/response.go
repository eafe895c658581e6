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

// statusRoom is the memory of one descriptor status and its duration.
type statusRoom struct {
	status descriptorStatus
	reset  durationpb.Duration
}

// singleStatus is the memory of a response with one status, the usual case, in one
// allocation.
type singleStatus struct {
	response pb.RateLimitResponse
	list     [1]*descriptorStatus
	room     [1]statusRoom
}

// room returns a response with n empty statuses.
func room(n int) (*pb.RateLimitResponse, []statusRoom) {
	if n == 1 {
		one := &singleStatus{}
		one.response.Statuses = one.list[:]
		return &one.response, one.room[:]
	}
	return &pb.RateLimitResponse{Statuses: make([]*descriptorStatus, n)}, make([]statusRoom, n)
}

// response returns the response to a decided plan. The status of a descriptor is that
// of its nearest limit.
func (p *plan) response() *pb.RateLimitResponse {
	r, all := room(p.matches[len(p.matches)-1].of + 1)
	if r.OverallCode = ok; p.denied() {
		r.OverallCode = overLimit
	}
	for i := 0; i < len(p.matches); {
		of, binding := p.matches[i].of, &p.matches[i]
		for i++; i < len(p.matches) && p.matches[i].of == of; i++ {
			if p.nearer(&p.matches[i], binding) {
				binding = &p.matches[i]
			}
		}
		p.setStatus(&all[of], binding)
		r.Statuses[of] = &all[of].status
	}
	return r
}

// denied reports whether the request is over limit. It is if an enforced limit denies,
// or if there are descriptors in quota mode and all of them are over.
func (p *plan) denied() bool {
	quotas, over, of := p.quotas(), 0, -1
	for i := range p.matches {
		m := &p.matches[i]
		switch {
		case !m.applies() || m.limit.shadow || p.decisions[m.claim].Allowed:
		case !p.inQuota(m.limit):
			return true
		case m.of != of:
			of = m.of
			over++
		}
	}
	return over > 0 && over == quotas
}

// nearer reports whether match m, rather than the earlier match b of the same
// descriptor, decides the status. A denial decides before an allowance, a longer wait
// before a shorter one, and less remaining before more.
func (p *plan) nearer(m, b *match) bool {
	if !m.applies() || !b.applies() { // one that another limit replaces
		return m.applies()
	}
	x, y := &p.decisions[m.claim], &p.decisions[b.claim]
	switch {
	case x.Allowed != y.Allowed:
		return !x.Allowed
	case x.Allowed:
		return m.limit.remaining(x) < b.limit.remaining(y)
	}
	return x.RetryAfter > y.RetryAfter
}

// setStatus sets the status of a descriptor, from its binding limit.
func (p *plan) setStatus(s *statusRoom, m *match) {
	s.status.Code = ok
	switch {
	case m.limit == nil:
		return
	case m.limit.unlimited:
		s.status.LimitRemaining = math.MaxUint32
		return
	}
	d := &p.decisions[m.claim]
	s.reset.Seconds = int64(m.limit.reset(d) / time.Second)
	s.status.CurrentLimit, s.status.LimitRemaining, s.status.DurationUntilReset = m.limit.info, m.limit.remaining(d), &s.reset
	if !d.Allowed && !m.limit.shadow {
		s.status.Code = overLimit
	}
}

func (l *limit) remaining(d *stint.Decision) uint32 {
	if l.banned {
		return 0
	}
	return uint32(max(0, min(d.Remaining, math.MaxUint32)))
}

// reset returns the time until more requests are allowed, in whole seconds, at least
// 1, because readers drop fractions. For a fixed window it is the end of the window,
// even if nothing is used. While the store fails, it is the time until the next attempt.
func (l *limit) reset(d *stint.Decision) time.Duration {
	wait := d.ResetAfter
	switch {
	case d.Unavailable: // the key may not be over its limit
		wait = d.RetryAfter
	case l.counted.Algorithm() == stint.FixedWindow:
		window := l.window.Microseconds()
		wait = time.Duration(window-d.At%window) * time.Microsecond
	case !d.Allowed && d.RetryAfter != stint.Never:
		wait = d.RetryAfter
	}
	return max(time.Second, (wait + time.Second - 1).Truncate(time.Second))
}

// headers returns the headers of the deciding limit: the last one that denies, as in Envoy's
// service, or, if no limit denies, the one with the least remaining.
func (n *HeaderNames) headers(statuses []*descriptorStatus) []*core.HeaderValue {
	var binding *descriptorStatus
	for _, s := range statuses {
		switch {
		case s.GetCurrentLimit() == nil:
		case s.GetCode() == overLimit,
			binding == nil,
			binding.GetCode() != overLimit && s.GetLimitRemaining() < binding.GetLimitRemaining():
			binding = s
		}
	}
	if binding == nil {
		return nil
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []*core.HeaderValue{
		{Key: n.Limit, Value: number(int64(binding.GetCurrentLimit().GetRequestsPerUnit()))},
		{Key: n.Remaining, Value: number(int64(binding.GetLimitRemaining()))},
		{Key: n.Reset, Value: number(binding.GetDurationUntilReset().GetSeconds())},
	}
}

// count updates the counters of each limit, and reports whether any limit applied.
func (p *plan) count() bool {
	denied := p.denied()
	for i := range p.matches {
		if m := &p.matches[i]; m.applies() {
			observed := p.onlyObserves(m.limit, denied)
			d := &p.decisions[m.claim]
			switch {
			case !d.Degraded:
				m.limit.counters.tally(d.Allowed, observed, p.all || !denied)
			case !d.Allowed || p.all || !denied:
				m.limit.counters.Failed.Inc()
				if m.limit.policy.OnFailure == stint.FailOpen && !m.limit.shadow && !denied {
					m.limit.counters.FailedOpen.Inc()
				}
			}
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
