package envoyrls

import (
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

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
