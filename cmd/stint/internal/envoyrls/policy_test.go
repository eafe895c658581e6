package envoyrls

import (
	"context"
	"slices"
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
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/storekit"
)

const policies = `
domain: d
descriptors:
  - {key: none, rate_limit: {unit: minute, requests_per_unit: 4}}
  - {key: open, rate_limit: {unit: minute, requests_per_unit: 4, on_store_failure: open}}
  - {key: closed, rate_limit: {unit: minute, requests_per_unit: 4, on_store_failure: closed}}
  - {key: local, rate_limit: {unit: minute, requests_per_unit: 4, on_store_failure: local}}
  - {key: known, rate_limit: {unit: minute, requests_per_unit: 4, on_store_failure: last_known}}
  - {key: leased, rate_limit: {unit: minute, requests_per_unit: 4, consistency: leased}}
  - {key: seen, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 4, on_store_failure: closed}}
  - {key: watched, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 4, on_store_failure: open}}
  - {key: banned, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: banned, value: open, rate_limit: {unit: minute, requests_per_unit: 0, on_store_failure: open, consistency: leased}}
  - {key: quota, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 4, on_store_failure: closed}}
  - {key: tried, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 4}}
`

// down is a store that cannot be reached.
type down struct{ stint.Store }

func (d down) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, d, c)
}

func (down) TakeGroups(context.Context, []stint.Group, []stint.Decision) error {
	return &stint.Error{Code: stint.CodeUnavailable, Problem: "connection refused"}
}

func whileDown(o *Options) {
	clock := o.Store
	o.Store, _ = guard.New(down{clock}, guard.Options{Nodes: 2, Local: func() stint.Store { return clock }})
}

// Two nodes share the limit of 4, so each admits 2 by itself.
func TestFailurePoliciesDecideWhileTheStoreFails(t *testing.T) {
	for _, c := range []struct {
		descriptors []string
		want        []pb.RateLimitResponse_Code // 0: an error, so that Envoy decides
	}{
		{[]string{"none=1"}, []pb.RateLimitResponse_Code{0, 0}},
		{[]string{"open=1"}, []pb.RateLimitResponse_Code{ok, ok, ok, ok, ok}},
		{[]string{"closed=1"}, []pb.RateLimitResponse_Code{overLimit, overLimit}},
		{[]string{"local=1"}, []pb.RateLimitResponse_Code{ok, ok, overLimit}},
		{[]string{"known=1"}, []pb.RateLimitResponse_Code{ok, ok, overLimit}},
		{[]string{"known=1", "local=2", "open=1"}, []pb.RateLimitResponse_Code{ok, ok, overLimit}},
		{[]string{"leased=1"}, []pb.RateLimitResponse_Code{0, 0}},
		{[]string{"seen=1"}, []pb.RateLimitResponse_Code{ok, ok}},
		{[]string{"open=2", "none=2"}, []pb.RateLimitResponse_Code{0}},
		{[]string{"closed=2", "none=2"}, []pb.RateLimitResponse_Code{overLimit}},
		{[]string{"open=3", "local=3"}, []pb.RateLimitResponse_Code{ok, ok, overLimit}},
		{[]string{"local=3", "known=3"}, []pb.RateLimitResponse_Code{ok, ok, overLimit}},
		{[]string{"known=2", "none=3"}, []pb.RateLimitResponse_Code{0}},
		{[]string{"open=4", "seen=4"}, []pb.RateLimitResponse_Code{ok}},
		{[]string{"other=1", "open=5"}, []pb.RateLimitResponse_Code{ok}},
		{[]string{"banned=1"}, []pb.RateLimitResponse_Code{overLimit}},
		{[]string{"banned=open", "open=7"}, []pb.RateLimitResponse_Code{overLimit}},
		{[]string{"quota=1", "none=5"}, []pb.RateLimitResponse_Code{overLimit}},
		{[]string{"quota=2", "quota=3", "open=8"}, []pb.RateLimitResponse_Code{overLimit}},
		{[]string{"tried=1"}, []pb.RateLimitResponse_Code{ok, ok}},
		{[]string{"tried=2", "open=6"}, []pb.RateLimitResponse_Code{ok}},
		{[]string{"tried=3", "closed=3"}, []pb.RateLimitResponse_Code{overLimit}},
		{[]string{"tried=4", "none=4"}, []pb.RateLimitResponse_Code{0}},
	} {
		for name, options := range map[string][]func(*Options){
			"together":        {whileDown},
			"each":            {whileDown, countAll},
			"each, with peek": {whileDown, countAll, func(o *Options) { o.StopWhenOver = true }},
		} {
			var got []pb.RateLimitResponse_Code
			s := serve(t, policies, options...)
			for range c.want {
				response, err := s.ShouldRateLimit(t.Context(), request("d", c.descriptors...))
				if err != nil && status.Code(err) != codes.Unavailable {
					t.Fatal(err)
				}
				got = append(got, response.GetOverallCode())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, counted %s: %v, want %v", c.descriptors, name, got, c.want)
			}
		}
	}
}

// dying is a store that works until it is down.
type dying struct {
	stint.Store

	down atomic.Bool
}

func (d *dying) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, d, c)
}

func (d *dying) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if d.down.Load() {
		return down{}.TakeGroups(ctx, groups, out)
	}
	return d.Store.TakeGroups(ctx, groups, out)
}

// A key that had used up its limit stays over it when the store dies. One that had used a
// part of it continues with this node's part of the rest, and an unknown one has the share.
func TestLastKnownContinuesFromTheStore(t *testing.T) {
	for name, options := range map[string][]func(*Options){
		"together":        nil,
		"each":            {countAll},
		"each, with peek": {countAll, func(o *Options) { o.StopWhenOver = true }},
	} {
		now := time.Now()
		memory := stint.MemoryOptions{Clock: func() time.Time { return now }}
		store := &dying{Store: stint.NewMemory(memory)}
		s := serve(t, policies, append(options, func(o *Options) {
			o.Store, _ = guard.New(store, guard.Options{Nodes: 2, Local: func() stint.Store { return stint.NewMemory(memory) }})
		})...)
		s.admitted("known=used up", 4)
		s.admitted("known=half used", 2)
		store.down.Store(true)
		for value, want := range map[string]int{"used up": 0, "half used": 1, "unknown": 2} {
			if got := s.admitted("known="+value, 4); got != want {
				t.Errorf("%s: counted %s, %d requests were admitted, want %d", value, name, got, want)
			}
		}
	}
}

// admitted sends a number of requests, and returns how many of them are OK.
func (s *serving) admitted(descriptor string, requests int) (n int) {
	s.t.Helper()
	for range requests {
		response, err := s.ShouldRateLimit(s.t.Context(), request("d", descriptor))
		if err != nil {
			s.t.Fatal(err)
		}
		if response.GetOverallCode() == ok {
			n++
		}
	}
	return n
}

// Only a state that has the take can refund: the store's, or a node's own.
func TestARefundNeedsACountWhileTheStoreFails(t *testing.T) {
	s := serve(t, policies, whileDown)
	for name, want := range map[string]codes.Code{
		"none": codes.Unavailable, "open": codes.Unavailable, "closed": codes.Unavailable, "local": codes.OK, "known": codes.OK,
	} {
		r := request("d", name+"=1")
		r.Descriptors[0].IsNegativeHits = true
		if _, err := s.ShouldRateLimit(t.Context(), r); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// tallies are the counters of all limits, by the name of the limit and the outcome.
type tallies map[string]int

func (t tallies) of(limit string, onFailure stint.OnFailure) Counters {
	return Counters{tally{t, limit + " allow"}, tally{t, limit + " deny"}, tally{t, limit + " shadow"}, tally{t, limit + " failed " + onFailure.String()}, tally{t, limit + " failed open and admitted"}, nil}
}

type tally struct {
	all  tallies
	name string
}

func (t tally) Inc() { t.all[t.name]++ }

// A failure policy's decisions count as such, and as neither allowed nor denied.
func TestDecisionsOfFailurePoliciesAreCountedAsSuch(t *testing.T) {
	counted := tallies{}
	s := serve(t, policies, whileDown, func(o *Options) { o.Counters = counted.of })
	for _, d := range [][]string{{"none=1"}, {"open=1"}, {"closed=1", "open=2"}, {"local=1"}, {"local=1"}, {"local=1"}, {"seen=1"}, {"watched=1"}, {"tried=1"}, {"known=1"}} {
		_, _ = s.ShouldRateLimit(t.Context(), request("d", d...))
	}
	want := tallies{"d.none failed closed": 1, "d.open failed open": 1, "d.open failed open and admitted": 1, "d.watched failed open": 1, "d.closed failed closed": 1, "d.local failed local": 3, "d.seen failed closed": 1, "d.tried failed closed": 1, "d.known failed last_known": 1}
	for name := range want {
		if counted[name] != want[name] {
			t.Errorf("%s: %d, want %d", name, counted[name], want[name])
		}
	}
	if len(counted) != len(want) {
		t.Errorf("counted %v", counted)
	}
}

// A client is told to return when the store is tried again, not when its window ends.
func TestAClosedLimitNamesTheNextAttempt(t *testing.T) {
	s := serve(t, policies, whileDown)
	s.want(request("d", "closed=1"), "OVER_LIMIT | OVER_LIMIT 4/MINUTE left 0 reset 1")
}

// consistencies is a store that records the consistency of claims.
type consistencies struct {
	stint.Store

	seen map[string]stint.Consistency
}

func (c *consistencies) Take(ctx context.Context, claim stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, c, claim)
}

func (c *consistencies) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for i := range groups {
		for _, claim := range groups[i].Claims {
			c.seen[claim.Limit.Name()] = claim.Policy.Consistency
		}
	}
	return c.Store.TakeGroups(ctx, groups, out)
}

func TestTheConsistencyOfALimitIsItsOwnOrTheDefault(t *testing.T) {
	const config = `
domain: d
descriptors:
  - {key: a, rate_limit: {window: 1s, requests_per_unit: 4}}
  - {key: a, value: l, rate_limit: {window: 2s, requests_per_unit: 4, consistency: leased}}
  - {key: a, value: p, rate_limit: {window: 3s, requests_per_unit: 4, consistency: partitioned}}
  - {key: a, value: s, rate_limit: {window: 4s, requests_per_unit: 4, consistency: strict}}
`
	for byDefault, all := range map[stint.Consistency]bool{stint.Strict: false, stint.Leased: false, stint.Partitioned: true} {
		store := &consistencies{seen: map[string]stint.Consistency{}}
		s := serve(t, config, func(o *Options) {
			store.Store, o.Store = o.Store, store
			o.Consistency, o.CountAll = byDefault, all
		})
		own := request("d", "a=own")
		own.Descriptors[0].Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 4, Unit: typepb.RateLimitUnit_SECOND, UnitMultiplier: wrapperspb.UInt32(5)}
		for _, r := range []*pb.RateLimitRequest{request("d", "a=x"), request("d", "a=l"), request("d", "a=p"), request("d", "a=s"), own} {
			if _, err := s.ShouldRateLimit(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		strict := "fixed_window:4s"
		if all {
			strict = "all:4s" // counted past its end
		}
		for name, want := range map[string]stint.Consistency{
			"fixed_window:1s": byDefault, "fixed_window:2s": stint.Leased, "fixed_window:3s": stint.Partitioned,
			strict: stint.Strict, "fixed_window:5s": byDefault,
		} {
			if got, ok := store.seen[name]; !ok || got != want {
				t.Errorf("default %v: %s is %v (%t), want %v", byDefault, name, got, ok, want)
			}
		}
	}
}
