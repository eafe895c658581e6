package envoyrls

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stintdev/stint"
)

// start is the time at which the stores of the tests begin: 40 s into a
// minute.
const start = int64(1_700_000_000_500_000)

type clock struct{ micros atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.micros.Store(start)
	return c
}

func (c *clock) time() time.Time     { return time.UnixMicro(c.micros.Load()) }
func (c *clock) add(d time.Duration) { c.micros.Add(d.Microseconds()) }

// serving is a service over a store whose clock the test moves.
type serving struct {
	*Service
	t     testing.TB
	clock *clock
	dir   string
}

func serve(t testing.TB, config string, options ...func(*Options)) *serving {
	t.Helper()
	s := &serving{t: t, clock: newClock(), dir: t.TempDir()}
	write(t, filepath.Join(s.dir, "config.yaml"), config)
	o := Options{Dir: s.dir, Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 10_000, Clock: s.clock.time})}
	for _, option := range options {
		option(&o)
	}
	var err error
	if s.Service, err = New(o); err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".next", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
}

// descriptor returns a descriptor of entries written as key=value,key=value.
func descriptor(entries string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for entry := range strings.SplitSeq(entries, ",") {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

func request(domain string, descriptors ...string) *pb.RateLimitRequest {
	r := &pb.RateLimitRequest{Domain: domain}
	for _, d := range descriptors {
		r.Descriptors = append(r.Descriptors, descriptor(d))
	}
	return r
}

// shown returns a response as short text: the overall code, then for each status its
// code, limit, remaining requests and the seconds until its reset.
func shown(r *pb.RateLimitResponse) string {
	text := r.GetOverallCode().String()
	for _, s := range r.GetStatuses() {
		text += " | " + s.GetCode().String()
		if l := s.GetCurrentLimit(); l != nil {
			text += fmt.Sprintf(" %d/", l.GetRequestsPerUnit())
			if l.GetUnitMultiplier() != nil {
				text += fmt.Sprint(l.GetUnitMultiplier().GetValue())
			}
			text += fmt.Sprintf("%s left %d reset %d", l.GetUnit(), s.GetLimitRemaining(), s.GetDurationUntilReset().GetSeconds())
		} else if s.GetLimitRemaining() > 0 {
			text += " unlimited"
		}
	}
	return text
}

func (s *serving) want(r *pb.RateLimitRequest, want string) {
	s.t.Helper()
	got, err := s.ShouldRateLimit(s.t.Context(), r)
	if err != nil {
		s.t.Fatalf("%v: %v", r, err)
	}
	if shown(got) != want {
		s.t.Errorf("%v\ngot  %s\nwant %s", r, shown(got), want)
	}
}

func (s *serving) wantRefused(r *pb.RateLimitRequest) {
	s.t.Helper()
	if _, err := s.ShouldRateLimit(s.t.Context(), r); status.Code(err) != codes.InvalidArgument {
		s.t.Errorf("%v\ngot %v, want %v", r, err, codes.InvalidArgument)
	}
}

const messaging = `
domain: messaging
descriptors:
  - key: message_type
    value: marketing
    descriptors:
      - key: to_number
        rate_limit: {unit: day, requests_per_unit: 5}
  - key: to_number
    rate_limit: {unit: minute, requests_per_unit: 2}
  - key: banned
    rate_limit: {unit: second, requests_per_unit: 0}
  - key: free
    rate_limit: {unlimited: true}
  - key: listed
`

func TestStatusesAreOneADescriptorInOrder(t *testing.T) {
	s := serve(t, messaging)
	r := request("messaging", "message_type=marketing,to_number=1", "to_number=1", "free=x", "listed=y", "unknown=z", "message_type=marketing")
	s.want(r, "OK | OK 5/DAY left 4 reset 6400 | OK 2/MINUTE left 1 reset 40 | OK unlimited | OK | OK | OK")
	s.want(request("elsewhere", "to_number=1"), "OK | OK")
	s.want(request("messaging", "to_number=1,more=2"), "OK | OK")
}

func TestADeniedRequestChargesNothing(t *testing.T) {
	s := serve(t, messaging)
	s.want(request("messaging", "to_number=1"), "OK | OK 2/MINUTE left 1 reset 40")
	s.want(request("messaging", "to_number=1"), "OK | OK 2/MINUTE left 0 reset 40")
	both := request("messaging", "to_number=1", "message_type=marketing,to_number=1")
	s.want(both, "OVER_LIMIT | OVER_LIMIT 2/MINUTE left 0 reset 40 | OK 5/DAY left 5 reset 6400")
	s.clock.add(39*time.Second + 500*time.Millisecond)
	s.want(both, "OK | OK 2/MINUTE left 1 reset 60 | OK 5/DAY left 4 reset 6360")
}

func TestEachValueOfAKeyHasItsOwnCounter(t *testing.T) {
	s := serve(t, messaging)
	for _, number := range []string{"1", "2", "", "#", "\x00", strings.Repeat("9", 5000), strings.Repeat("9", 4999)} {
		s.want(request("messaging", "to_number="+number), "OK | OK 2/MINUTE left 1 reset 40")
	}
}

func TestHitsAddend(t *testing.T) {
	s := serve(t, messaging)
	number := func(hits uint32, own *wrapperspb.UInt64Value, negative bool) *pb.RateLimitRequest {
		r := request("messaging", "message_type=marketing,to_number=1")
		r.HitsAddend, r.Descriptors[0].HitsAddend, r.Descriptors[0].IsNegativeHits = hits, own, negative
		return r
	}
	s.want(number(3, nil, false), "OK | OK 5/DAY left 2 reset 6400")
	s.want(number(3, nil, false), "OVER_LIMIT | OVER_LIMIT 5/DAY left 2 reset 6400")
	s.want(number(3, wrapperspb.UInt64(0), false), "OK | OK 5/DAY left 2 reset 6400")
	s.want(number(3, wrapperspb.UInt64(2), false), "OK | OK 5/DAY left 0 reset 6400")
	s.want(number(0, wrapperspb.UInt64(1<<63), false), "OVER_LIMIT | OVER_LIMIT 5/DAY left 0 reset 6400")
	s.want(number(4, nil, true), "OK | OK 5/DAY left 4 reset 6400")
}

func TestABanDeniesAllButAPeek(t *testing.T) {
	s := serve(t, messaging)
	s.want(request("messaging", "banned=x", "to_number=1"), "OVER_LIMIT | OVER_LIMIT 0/SECOND left 0 reset 1 | OK 2/MINUTE left 2 reset 40")
	peek := request("messaging", "banned=x")
	peek.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	s.want(peek, "OK | OK 0/SECOND left 0 reset 1")
}

func TestTheSameCounterTwiceInOneRequestIsAskedForTheSum(t *testing.T) {
	s := serve(t, messaging)
	s.want(request("messaging", "to_number=1", "to_number=1"), "OK | OK 2/MINUTE left 0 reset 40 | OK 2/MINUTE left 0 reset 40")
	s.want(request("messaging", "to_number=2", "to_number=2", "to_number=2"), "OVER_LIMIT | OVER_LIMIT 2/MINUTE left 2 reset 40 | OVER_LIMIT 2/MINUTE left 2 reset 40 | OVER_LIMIT 2/MINUTE left 2 reset 40")
}

func TestUnitsAreThoseOfEnvoy(t *testing.T) {
	s := serve(t, messaging)
	at := start / 1_000_000
	for name, length := range map[string]int64{"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800, "MONTH": 30 * 86400, "YEAR": 365 * 86400} {
		r := request("messaging", "anything=x")
		r.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typepb.RateLimitUnit(pb.RateLimitResponse_RateLimit_Unit_value[name])}
		s.want(r, fmt.Sprintf("OK | OK 7/%s left 6 reset %d", name, length-at%length))
	}
}

func TestALimitThatTheRequestBrings(t *testing.T) {
	s := serve(t, messaging)
	bring := func(requests uint32, unit int32, times *wrapperspb.UInt32Value) *pb.RateLimitRequest {
		r := request("messaging", "to_number=1")
		r.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: typepb.RateLimitUnit(unit), UnitMultiplier: times}
		return r
	}
	s.want(bring(3, 2, nil), "OK | OK 3/MINUTE left 2 reset 40")
	s.want(bring(3, 1, wrapperspb.UInt32(30)), "OK | OK 3/30SECOND left 2 reset 10")
	s.want(bring(0, 2, nil), "OVER_LIMIT | OVER_LIMIT 0/MINUTE left 0 reset 40")
	s.want(bring(4_000_000_000, 2, nil), "OK | OK 4000000000/MINUTE left 999999998 reset 40")
	for _, wrong := range []*pb.RateLimitRequest{bring(1, 0, nil), bring(1, 99, nil), bring(1, -1, nil), bring(1, 6, wrapperspb.UInt32(2)), bring(1, 1, wrapperspb.UInt32(0))} {
		s.wantRefused(wrong)
	}
}

func TestWrongRequestsGetAnError(t *testing.T) {
	s := serve(t, messaging)
	s.wantRefused(request("", "a=b"))
	s.wantRefused(request("messaging"))
	s.wantRefused(nil)
	many := request("messaging", strings.Split(strings.Repeat("a=b;", maxDescriptors+1), ";")[:maxDescriptors+1]...)
	s.wantRefused(many)
	s.wantRefused(request("messaging", strings.Repeat("a=b,", maxEntries)+"a=b"))
	empty := &pb.RateLimitRequest{Domain: "messaging", Descriptors: []*common.RateLimitDescriptor{nil, {Entries: []*common.RateLimitDescriptor_Entry{nil}}}}
	s.want(empty, "OK | OK | OK")
}

func TestHeadersTellOfTheNearestLimit(t *testing.T) {
	s := serve(t, messaging, func(o *Options) {
		o.Headers = &HeaderNames{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}
	})
	r, err := s.ShouldRateLimit(t.Context(), request("messaging", "message_type=marketing,to_number=1", "to_number=1"))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, h := range r.GetResponseHeadersToAdd() {
		got += h.GetKey() + ": " + h.GetValue() + "; "
	}
	if want := "RateLimit-Limit: 2; RateLimit-Remaining: 1; RateLimit-Reset: 40; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if r, _ := s.ShouldRateLimit(t.Context(), request("messaging", "free=1")); len(r.GetResponseHeadersToAdd()) > 0 {
		t.Errorf("headers without a limit: %v", r)
	}
}

func TestShadowModeCountsAndNeverDenies(t *testing.T) {
	s := serve(t, `
domain: d
descriptors:
  - {key: watched, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: both, shadow_mode: true, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: hard, rate_limit: {unit: minute, requests_per_unit: 1}}
`)
	for range 3 {
		s.want(request("d", "watched=x", "both=x"), "OK | OK 1/MINUTE left 0 reset 40 | OK 1/MINUTE left 0 reset 40")
	}
	s.want(request("d", "hard=1"), "OK | OK 1/MINUTE left 0 reset 40")
	s.want(request("d", "hard=1", "watched=new"), "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 40 | OK 1/MINUTE left 1 reset 40")
}

// TestQuotaModeDeniesWhenAllQuotasAreOver uses two pools in quota mode, one of which
// suffices, and other limits.
func TestQuotaModeDeniesWhenAllQuotasAreOver(t *testing.T) {
	config := `
domain: d
descriptors:
  - {key: small, quota_mode: true, metadata: {pool: small}, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: large, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: hard, rate_limit: {unit: minute, requests_per_unit: 4}}
`
	for _, all := range []bool{false, true} {
		s := serve(t, config, func(o *Options) { o.CountAll = all })
		first, err := s.ShouldRateLimit(t.Context(), request("d", "small=x", "large=x"))
		if err != nil || first.GetDynamicMetadata().GetFields()["pool"].GetStringValue() != "small" || len(first.GetDynamicMetadata().GetFields()) != 1 {
			t.Errorf("%v %v", first, err)
		}
		s.want(request("d", "small=x", "large=x"), "OK | OVER_LIMIT 1/MINUTE left 0 reset 40 | OK 2/MINUTE left 0 reset 40")
		s.want(request("d", "small=x", "large=x"), "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 40 | OVER_LIMIT 2/MINUTE left 0 reset 40")
		s.want(request("d", "small=x", "large=x", "watched=new", "none=x"),
			"OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 40 | OVER_LIMIT 2/MINUTE left 0 reset 40 | OK 1/MINUTE left 0 reset 40 | OK")
		s.want(request("d", "small=x", "large=y"), "OK | OVER_LIMIT 1/MINUTE left 0 reset 40 | OK 2/MINUTE left 1 reset 40")
		s.want(request("d", "small=x"), "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 40")
	}
}

// TestOneQuotaIsAllOrNone has a plain limit and a single quota. A request that the
// quota denies does not charge the plain limit.
func TestOneQuotaIsAllOrNone(t *testing.T) {
	s := serve(t, `
domain: d
descriptors:
  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: hard, rate_limit: {unit: minute, requests_per_unit: 3}}
`)
	s.want(request("d", "quota=x", "hard=x"), "OK | OK 1/MINUTE left 0 reset 40 | OK 3/MINUTE left 2 reset 40")
	s.want(request("d", "quota=x", "hard=x"), "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 40 | OK 3/MINUTE left 2 reset 40")
	s.want(request("d", "hard=x"), "OK | OK 3/MINUTE left 1 reset 40")
}

// TestQuotaForAll puts every limit in quota mode, as QUOTA_MODE does.
func TestQuotaForAll(t *testing.T) {
	for _, all := range []bool{false, true} {
		s := serve(t, `
domain: d
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: b, rate_limit: {unit: minute, requests_per_unit: 2}}
`, func(o *Options) { o.CountAll, o.Quota = all, true })
		s.want(request("d", "a=x", "b=x"), "OK | OK 1/MINUTE left 0 reset 40 | OK 2/MINUTE left 1 reset 40")
		s.want(request("d", "a=x", "b=x"), "OK | OVER_LIMIT 1/MINUTE left 0 reset 40 | OK 2/MINUTE left 0 reset 40")
		s.want(request("d", "a=x", "b=x"), "OVER_LIMIT | OVER_LIMIT 1/MINUTE left 0 reset 40 | OVER_LIMIT 2/MINUTE left 0 reset 40")
		s.want(request("d", "none=x"), "OK | OK")
	}
}

func TestReplacedLimitsDoNotCount(t *testing.T) {
	s := serve(t, `
domain: d
descriptors:
  - {key: user, rate_limit: {name: any, unit: minute, requests_per_unit: 1}}
  - {key: vip, rate_limit: {name: vip, replaces: [{name: any}], unit: minute, requests_per_unit: 9}}
`)
	for left := 8; left > 5; left-- {
		s.want(request("d", "user=1", "vip=1"), fmt.Sprintf("OK | OK | OK 9/MINUTE left %d reset 40", left))
	}
	s.want(request("d", "user=1"), "OK | OK 1/MINUTE left 0 reset 40")
}

func TestWildcards(t *testing.T) {
	for _, all := range []bool{false, true} {
		wildcards(t, all)
	}
}

// wildcards checks wildcards, which behave alike in all counting modes.
func wildcards(t *testing.T, all bool) {
	t.Helper()
	s := serve(t, `
domain: d
descriptors:
  - {key: path, value: /exact*, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: path, value: /exact/one, rate_limit: {unit: minute, requests_per_unit: 20}}
  - {key: path, value: /users/*/orders, rate_limit: {unit: minute, requests_per_unit: 30}}
  - {key: path, value: "/*", rate_limit: {unit: minute, requests_per_unit: 40}}
  - {key: path, rate_limit: {unit: minute, requests_per_unit: 50}}
  - {key: file, value: "f*", share_threshold: true, descriptors: [{key: op, rate_limit: {unit: minute, requests_per_unit: 2}}]}
  - {key: "x-*", rate_limit: {unit: minute, requests_per_unit: 60}}
  - {key: host, value: "*.example", rate_limit: {unit: minute, requests_per_unit: 70}}
`, func(o *Options) { o.CountAll = all })
	for value, limit := range map[string]int{"path=/exact/two": 10, "path=/exact/one": 20, "path=/users/7/orders": 30, "path=/users/7/orders/1": 40, "path=other": 50, "x-plan=gold": 60, "host=a.b.example": 70} {
		s.want(request("d", value), fmt.Sprintf("OK | OK %d/MINUTE left %d reset 40", limit, limit-1))
	}
	s.want(request("d", "file=f1,op=get"), "OK | OK 2/MINUTE left 1 reset 40")
	s.want(request("d", "file=f2,op=get"), "OK | OK 2/MINUTE left 0 reset 40")
	s.want(request("d", "file=f2,op=put"), "OK | OK 2/MINUTE left 1 reset 40")
}

func TestAnOverrideOfASharedPatternHasACounterOfItsOwn(t *testing.T) {
	s := serve(t, "domain: d\ndescriptors:\n  - {key: file, value: \"f*\", share_threshold: true, rate_limit: {unit: minute, requests_per_unit: 5}}\n")
	brings := request("d", "file=f*")
	brings.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 3, Unit: typepb.RateLimitUnit_MINUTE}
	s.want(brings, "OK | OK 3/MINUTE left 2 reset 40")
	s.want(request("d", "file=f1"), "OK | OK 5/MINUTE left 4 reset 40")
	s.want(request("d", "file=f*"), "OK | OK 5/MINUTE left 3 reset 40")
	s.want(brings, "OK | OK 3/MINUTE left 1 reset 40")
}

func TestOtherAlgorithmsAndWindows(t *testing.T) {
	s := serve(t, `
domain: d
descriptors:
  - {key: burst, rate_limit: {unit: minute, requests_per_unit: 60, algorithm: token_bucket, burst: 2}}
  - {key: window, rate_limit: {window: 30s, requests_per_unit: 5}}
`)
	s.want(request("d", "burst=1"), "OK | OK 60/MINUTE left 1 reset 1")
	s.want(request("d", "burst=1"), "OK | OK 60/MINUTE left 0 reset 2")
	s.want(request("d", "burst=1"), "OVER_LIMIT | OVER_LIMIT 60/MINUTE left 0 reset 1")
	s.want(request("d", "window=1"), "OK | OK 5/30SECOND left 4 reset 10")
}

// Plans are pooled, so one caller must never see another's data.
func TestManyAskAtOnce(t *testing.T) {
	s := serve(t, messaging)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				number := fmt.Sprintf("%d-%d", i, n)
				r := request("messaging", strings.Split(strings.Repeat("free=x ", n%5)+"to_number="+number, " ")...)
				answer, err := s.ShouldRateLimit(t.Context(), r)
				if err != nil || len(answer.GetStatuses()) != len(r.GetDescriptors()) || answer.GetStatuses()[n%5].GetLimitRemaining() != 1 {
					t.Errorf("%v: %v %v", r, answer, err)
				}
			}
		})
	}
	all.Wait()
}
