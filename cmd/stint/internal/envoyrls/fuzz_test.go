package envoyrls

import (
	"path/filepath"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// FuzzShouldRateLimit checks that no message causes a panic, in any counting mode.
// Each gets a response with one valid status for each descriptor, or is refused as the
// caller's mistake.
func FuzzShouldRateLimit(f *testing.F) {
	override := request("model", "user=b")
	override.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1, Unit: 99, UnitMultiplier: wrapperspb.UInt32(1 << 31)}
	back := request("model", "user=1", "user=banned", "plan=gold,user=v")
	back.Descriptors[0].IsNegativeHits, back.Descriptors[1].HitsAddend = true, wrapperspb.UInt64(1<<64-1)
	for _, r := range []*pb.RateLimitRequest{override, back, request("model", "user=1", "user=1", "pool=1", "both=1"), request("d", "user=1", "watched=1", "other=1"), {}} {
		data, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	var services []*serving
	for mode := range 8 {
		services = append(services, serve(f, modelFile(modelConfig()), func(o *Options) {
			write(f, filepath.Join(o.Dir, "several.yaml"), several)
			o.Headers = &HeaderNames{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
			o.CountAll, o.StopWhenOver, o.Quota, o.Metadata = mode&1 > 0, mode&1 > 0 && mode&2 > 0, mode&2 > 0, mode&4 > 0
		}))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r pb.RateLimitRequest
		if proto.Unmarshal(data, &r) != nil {
			return
		}
		for _, s := range services {
			answer, err := s.ShouldRateLimit(t.Context(), &r)
			if err != nil {
				if status.Code(err) != codes.InvalidArgument {
					t.Fatalf("%v: %v", &r, err)
				}
				continue
			}
			if len(answer.GetStatuses()) != len(r.GetDescriptors()) {
				t.Fatalf("%v: %v", &r, answer)
			}
			if _, err := proto.Marshal(answer); err != nil {
				t.Fatal(err)
			}
			if _, err := protojson.Marshal(answer); err != nil {
				t.Fatal(err)
			}
		}
	})
}
