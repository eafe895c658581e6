package envoyrls

import (
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// FuzzShouldRateLimit says that no message stops the process: each is answered
// by a status a descriptor that can be sent, or refused as the caller's
// mistake.
func FuzzShouldRateLimit(f *testing.F) {
	override := request("messaging", "a=b")
	override.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: 99, UnitMultiplier: wrapperspb.UInt32(1 << 31)}
	back := request("messaging", "to_number=1", "banned=1")
	back.Descriptors[0].IsNegativeHits, back.Descriptors[1].HitsAddend = true, wrapperspb.UInt64(1<<64-1)
	for _, r := range []*pb.RateLimitRequest{override, back, request("messaging", "to_number=1", "to_number=1"), {}} {
		data, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r pb.RateLimitRequest
		if proto.Unmarshal(data, &r) != nil {
			return
		}
		s := serve(t, messaging, func(o *Options) {
			o.Headers = &HeaderNames{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
		})
		answer, err := s.ShouldRateLimit(t.Context(), &r)
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Fatalf("%v: %v", &r, err)
			}
			return
		}
		if len(answer.GetStatuses()) != len(r.GetDescriptors()) {
			t.Fatalf("%v: %v", &r, answer)
		}
		if _, err := proto.Marshal(answer); err != nil {
			t.Fatal(err)
		}
	})
}
