package envoyrls

import (
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stintdev/stint"
)

// limit is the rate_limit of a descriptor, or the override that a request has in its
// place.
type limit struct {
	path      string           // "domain.key_value.key", as Envoy's service names it
	name      string           // may be empty
	replaces  []string         // names of limits that this one replaces in a request
	unlimited bool             // if true, it is the only one of its descriptor
	shadow    bool             // shadow_mode: counted, never denied
	quota     bool             // quota_mode: denies only when all quota-mode descriptors of the request are over
	metadata  *structpb.Struct // sent to Envoy while the limit allows; may be nil

	counted  stint.Limit
	policy   policy
	kind     string // equal for limits that share the state of a key
	window   time.Duration
	banned   bool        // limit 0: counted allows 1, so claims ask for 2
	all      stint.Limit // for CountAll: a fixed window that counts past every limit; zero for a limit that decides by itself
	info     *limitInfo  // shared by all answers, never changed
	counters Counters
}

// numbers is the configuration of a limit's count.
type numbers struct {
	requests   uint32
	window     time.Duration
	algorithm  stint.Algorithm
	burst      int64 // 0: the algorithm's own
	fromCaller bool  // the limit came with a request, not from a file
	policy     policy
}

// policy is the consistency of a limit and what happens to it while the store fails.
type policy struct {
	stint.Policy

	// asksEnvoy says that the configuration names no failure policy. The claim is then
	// closed, and the response is an error, so that Envoy's failure_mode_deny decides.
	asksEnvoy bool
}

// defaultPolicy returns the policy of a limit that names none.
func defaultPolicy(c stint.Consistency) policy {
	return policy{stint.Policy{Consistency: c, OnFailure: stint.FailClosed}, true}
}

// decidesItself reports whether the claims of a limit must be claims on that limit, so that
// CountAll cannot count it past its end: a lease has a part of the limit, and the local
// state a share of it.
func (p *policy) decidesItself() bool {
	return p.Consistency != stint.Strict || p.OnFailure == stint.FailLocal || p.OnFailure == stint.FailLastKnown
}

// namespace separates these counters from those of rules and of /v1/take.
const namespace = "envoy"

// compile returns the limit that counts. Its name has only the algorithm and the
// window. So, as in Envoy's service, a key keeps its count when the configuration
// moves it from one descriptor to another.
func (n numbers) compile() (counted stint.Limit, banned bool, err error) {
	requests := min(int64(n.requests), stint.MaxLimit)
	if banned = requests == 0; banned {
		n, requests = numbers{window: n.window, algorithm: stint.FixedWindow, fromCaller: n.fromCaller}, 1
	}
	spec := stint.Spec{Namespace: namespace, Algorithm: n.algorithm, Limit: requests, Window: n.window, Capacity: n.burst, FromCaller: n.fromCaller}
	counted, err = spec.Compile()
	return counted, banned, err
}

// count sets the limit to count by n.
func (l *limit) count(n numbers) (err error) {
	l.window, l.info, l.policy = n.window, describe(l.name, n.requests, n.window), n.policy
	if l.counted, l.banned, err = n.compile(); err != nil {
		return err
	}
	if l.banned { // needs no count to deny
		l.policy = policy{Policy: stint.Policy{OnFailure: stint.FailClosed}}
	}
	l.kind = l.counted.Name() + " " + l.counted.Shape()
	if n.fromCaller {
		l.kind += " brought"
	}
	if l.counted.Algorithm() == stint.FixedWindow && !l.policy.decidesItself() {
		l.all, err = endless(n.window, n.fromCaller)
	}
	return err
}

// endless returns a fixed window that counts past every limit.
func endless(window time.Duration, brought bool) (stint.Limit, error) {
	return stint.Spec{
		Namespace: namespace, Name: "all:" + window.String(),
		Algorithm: stint.FixedWindow, Limit: stint.MaxLimit, Window: window, FromCaller: brought,
	}.Compile()
}

type (
	unit      = pb.RateLimitResponse_RateLimit_Unit
	limitInfo = pb.RateLimitResponse_RateLimit
)

const day = 24 * time.Hour

// lengths returns the durations of the units, the longest first. A month has 30 days
// and a year 365, as in Envoy's service.
func lengths() []struct {
	unit   unit
	length time.Duration
} {
	return []struct {
		unit   unit
		length time.Duration
	}{
		{pb.RateLimitResponse_RateLimit_YEAR, 365 * day},
		{pb.RateLimitResponse_RateLimit_MONTH, 30 * day},
		{pb.RateLimitResponse_RateLimit_WEEK, 7 * day},
		{pb.RateLimitResponse_RateLimit_DAY, day},
		{pb.RateLimitResponse_RateLimit_HOUR, time.Hour},
		{pb.RateLimitResponse_RateLimit_MINUTE, time.Minute},
		{pb.RateLimitResponse_RateLimit_SECOND, time.Second},
	}
}

// lengthOf returns the duration of a unit, 0 for an unknown unit.
func lengthOf(u unit) time.Duration {
	for _, l := range lengths() {
		if l.unit == u {
			return l.length
		}
	}
	return 0
}

// parseUnit returns the unit with a name, in any case, and false if there is none.
func parseUnit(name string) (unit, bool) {
	u := unit(pb.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(name)])
	return u, lengthOf(u) > 0
}

// describe returns a limit in Envoy's form: requests for each unit, or for a number of
// units. The window must be whole seconds.
func describe(name string, requests uint32, window time.Duration) *limitInfo {
	info := &limitInfo{Name: name, RequestsPerUnit: requests}
	for _, l := range lengths() {
		if window%l.length == 0 {
			info.Unit = l.unit
			if n := window / l.length; n > 1 {
				info.UnitMultiplier = wrapperspb.UInt32(uint32(n))
			}
			break
		}
	}
	return info
}
