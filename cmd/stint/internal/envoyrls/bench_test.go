package envoyrls

import (
	"fmt"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/stintdev/stint"
)

// benched answers requests under a limit that is never reached.
func benched(b *testing.B, options func(*Options), r *pb.RateLimitRequest) {
	b.Helper()
	s := serve(b, strings.ReplaceAll(messaging, "_unit: 2", "_unit: 1000000000"), func(o *Options) {
		o.Store = stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000})
		options(o)
	})
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ShouldRateLimit(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkShouldRateLimit(b *testing.B) {
	one, two := request("messaging", "to_number=12065550100"), request("messaging", "message_type=marketing,to_number=12065550100", "to_number=12065550100")
	many := &pb.RateLimitRequest{Domain: "messaging"}
	for i := range maxDescriptors {
		many.Descriptors = append(many.Descriptors, descriptor(fmt.Sprintf("to_number=%s%d", strings.Repeat("9", 500), i)))
	}
	for name, r := range map[string]*pb.RateLimitRequest{"one": one, "two": two, "thousand": many} {
		b.Run(name, func(b *testing.B) { benched(b, func(*Options) {}, r) })
	}
	b.Run("two/compat", func(b *testing.B) { benched(b, func(o *Options) { o.CountAll = true }, two) })
	b.Run("two/headers", func(b *testing.B) { benched(b, func(o *Options) { o.Headers = &HeaderNames{"a", "b", "c"} }, two) })
}
