package envoyrls

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/stintdev/stint"
)

// Most Envoys let a request pass when the service returns an error. A flood of keys
// under overrides must therefore not disable the overrides.
func TestOverridesWithoutRoomAreOverLimit(t *testing.T) {
	for name, c := range map[string]struct {
		set                    func(*Options)
		alone, beside, counted string
	}{
		"together": {func(*Options) {}, "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 60",
			"OVER_LIMIT | OK | OVER_LIMIT 1/MINUTE left 0 reset 60 | OK unlimited", "OK | OK 2/MINUTE left 1 reset 40"},
		"count all": {func(o *Options) { o.CountAll = true }, "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 60",
			"OVER_LIMIT | OK 2/MINUTE left 1 reset 40 | OVER_LIMIT 1/MINUTE left 0 reset 60 | OK unlimited", "OK | OK 2/MINUTE left 0 reset 40"},
		"count all, stop when over": {func(o *Options) { o.CountAll, o.StopWhenOver = true, true }, "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 60",
			"OVER_LIMIT | OK 2/MINUTE left 1 reset 40 | OVER_LIMIT 1/MINUTE left 0 reset 60 | OK unlimited", "OK | OK 2/MINUTE left 0 reset 40"},
		"quota": {func(o *Options) { o.Quota = true }, "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 60",
			"OK | OK 2/MINUTE left 1 reset 40 | OVER_LIMIT 1/MINUTE left 0 reset 60 | OK unlimited", "OK | OK 2/MINUTE left 0 reset 40"},
		"shadow": {func(o *Options) { o.Shadow = true }, "OK | OVER_LIMIT 1/MINUTE left 0 reset 60",
			"OK | OK | OVER_LIMIT 1/MINUTE left 0 reset 60 | OK unlimited", "OK | OK 2/MINUTE left 1 reset 40"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			s := serve(t, messaging, c.set, func(o *Options) {
				o.Store = stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000, CallerKeys: 64, Clock: newClock().time})
				o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			})
			for i := range 1000 { // each request exhausts its key
				flood := bringing(fmt.Sprintf("to_number=flood%d", i))
				if flood.HitsAddend = 1; strings.HasPrefix(name, "count all") {
					flood.HitsAddend = stint.MaxLimit // such a counter has no lower end
				}
				if _, err := s.ShouldRateLimit(t.Context(), flood); err != nil {
					t.Fatal(err)
				}
			}
			s.want(bringing("to_number=late"), c.alone)
			beside := bringing("to_number=late")
			beside.Descriptors = append([]*common.RateLimitDescriptor{descriptor("to_number=1")}, beside.GetDescriptors()[0], descriptor("free=x"))
			s.want(beside, c.beside)
			s.want(request("messaging", "to_number=1"), c.counted)
			if log.Len() > 0 {
				t.Errorf("the log says %s", log.String())
			}
		})
	}
}

// bringing returns a request with an override of one a minute.
func bringing(text string) *pb.RateLimitRequest {
	r := request("messaging", text)
	r.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: typepb.RateLimitUnit_MINUTE}
	return r
}
