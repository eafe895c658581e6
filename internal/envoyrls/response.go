package envoyrls

import (
	"maps"
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stintdev/stint"
)

type descriptorStatus = pb.RateLimitResponse_DescriptorStatus

const (
	ok        = pb.RateLimitResponse_OK
	overLimit = pb.RateLimitResponse_OVER_LIMIT
)

// response is the answer to a decided plan.
func (p *plan) response() *pb.RateLimitResponse {
	r := &pb.RateLimitResponse{OverallCode: ok, Statuses: make([]*descriptorStatus, len(p.asked))}
	for i := range p.asked {
		s := p.status(&p.asked[i])
		if r.Statuses[i] = s; s.GetCode() == overLimit {
			r.OverallCode = overLimit
		}
	}
	return r
}

func (p *plan) status(a *asked) *descriptorStatus {
	switch {
	case a.limit == nil || a.limit.dropped:
		return &descriptorStatus{Code: ok}
	case a.limit.unlimited:
		return &descriptorStatus{Code: ok, LimitRemaining: math.MaxUint32}
	}
	d := &p.decisions[a.claim]
	s := &descriptorStatus{Code: ok, CurrentLimit: a.limit.info, LimitRemaining: a.limit.remaining(d), DurationUntilReset: durationpb.New(a.limit.reset(d))}
	if !d.Allowed && !a.limit.observed {
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

// headers tell the client of the limit that is nearest to its end.
func (n *HeaderNames) headers(statuses []*descriptorStatus) []*core.HeaderValue {
	var least *descriptorStatus
	for _, s := range statuses {
		if s.GetCurrentLimit() != nil && (least == nil || s.GetLimitRemaining() < least.GetLimitRemaining()) {
			least = s
		}
	}
	if least == nil {
		return nil
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []*core.HeaderValue{
		{Key: n.Limit, Value: number(int64(least.GetCurrentLimit().GetRequestsPerUnit()))},
		{Key: n.Remaining, Value: number(int64(least.GetLimitRemaining()))},
		{Key: n.Reset, Value: number(least.GetDurationUntilReset().GetSeconds())},
	}
}

// count counts the decisions by limit, and reports whether there was one.
func (p *plan) count() bool {
	admitted := true
	for i := range p.asked {
		a := &p.asked[i]
		admitted = admitted && (p.all || !a.applies() || a.limit.observed || p.decisions[a.claim].Allowed)
	}
	for i := range p.asked {
		if a := &p.asked[i]; a.applies() {
			a.limit.tally(&p.decisions[a.claim], admitted)
		}
	}
	return len(p.decisions) > 0
}

func (l *limit) tally(d *stint.Decision, admitted bool) {
	switch {
	case !d.Allowed && l.observed:
		l.counters.ShadowDeny.Inc()
	case !d.Allowed:
		l.counters.Deny.Inc()
	case admitted:
		l.counters.Allow.Inc()
	}
}

// metadata tells Envoy of the limits in quota mode, and what the configuration
// says of limits that are kept. Nil when there is nothing of either.
func (p *plan) metadata(request *pb.RateLimitRequest) *structpb.Struct {
	var violated []*structpb.Value
	quota, told := false, map[string]*structpb.Value{}
	for i := range p.asked {
		a := &p.asked[i]
		if !a.applies() {
			continue
		}
		if quota = quota || a.limit.quota; p.decisions[a.claim].Allowed {
			maps.Copy(told, a.limit.metadata.GetFields())
		} else if a.limit.quota {
			violated = append(violated, structpb.NewNumberValue(float64(i)))
		}
	}
	if quota {
		describeQuota(told, request, violated)
	}
	if len(told) == 0 {
		return nil
	}
	return &structpb.Struct{Fields: told}
}

// describeQuota adds what Envoy's service says of quota mode.
func describeQuota(told map[string]*structpb.Value, request *pb.RateLimitRequest, violated []*structpb.Value) {
	descriptors := make([]*structpb.Value, len(request.GetDescriptors()))
	for i, d := range request.GetDescriptors() {
		entries := make([]*structpb.Value, len(d.GetEntries()))
		for j, e := range d.GetEntries() {
			entries[j] = structpb.NewStringValue(e.GetKey() + "=" + e.GetValue())
		}
		descriptors[i] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"entries": list(entries)}})
	}
	told["domain"] = structpb.NewStringValue(request.GetDomain())
	told["descriptors"] = list(descriptors)
	told["quotaModeEnabled"] = structpb.NewBoolValue(true)
	if len(violated) > 0 {
		told["quotaModeViolations"] = list(violated)
	}
	if n := request.GetHitsAddend(); n > 0 {
		told["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
}

func list(values []*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}
