package envoyrls

import (
	"maps"
	"testing"

	"github.com/stintdev/stint"
)

const counted = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 20}
  - {key: plan, value: free, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
`

type hitsTally struct {
	of   map[string]int
	name string
}

func (h hitsTally) Add(hits float64) { h.of[h.name] += int(hits) }

// The figures are what envoyproxy/ratelimit sent to StatsD for the same steps, with a
// NEAR_LIMIT_RATIO of 0.8. A request that crosses a bound is divided. Package proxytest compares
// random requests with a running service.
func TestHitsAreThoseOfEnvoysService(t *testing.T) {
	tallied := map[string]int{}
	s := serve(t, counted, countAll, func(o *Options) {
		o.Counters = func(limit string, onFailure stint.OnFailure) Counters {
			c := noCounters(limit, onFailure)
			kind := func(kind string) hitsTally { return hitsTally{tallied, limit + " " + kind} }
			c.Hits = &Hits{kind("total"), kind("within"), kind("near"), kind("over"), kind("shadow")}
			return c
		}
	})
	for _, step := range []struct {
		when string
		key  string
		hits uint32
		want map[string]int // what the step adds
	}{
		{"below", "user=caller-1", 15, map[string]int{"shop.user total": 15, "shop.user within": 15}},
		{"crossesTheNearBound", "user=caller-1", 3, map[string]int{"shop.user total": 3, "shop.user within": 3, "shop.user near": 2}},
		{"near", "user=caller-1", 1, map[string]int{"shop.user total": 1, "shop.user within": 1, "shop.user near": 1}},
		{"crossesTheLimit", "user=caller-1", 4, map[string]int{"shop.user total": 4, "shop.user near": 1, "shop.user over": 3}},
		{"over", "user=caller-1", 5, map[string]int{"shop.user total": 5, "shop.user over": 5}},
		{"anotherCallerSharesTheName", "user=caller-2", 1, map[string]int{"shop.user total": 1, "shop.user within": 1}},
		{"aShadowWithin", "plan=free", 1, map[string]int{"shop.plan_free total": 1, "shop.plan_free within": 1}},
		{"aShadowOver", "plan=free", 3, map[string]int{"shop.plan_free total": 3, "shop.plan_free near": 1, "shop.plan_free over": 2, "shop.plan_free shadow": 2}},
		{"aShadowStaysOver", "plan=free", 1, map[string]int{"shop.plan_free total": 1, "shop.plan_free over": 1, "shop.plan_free shadow": 1}},
	} {
		clear(tallied)
		r := request("shop", step.key)
		r.HitsAddend = step.hits
		if _, err := s.ShouldRateLimit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(tallied, func(_ string, n int) bool { return n == 0 })
		if !maps.Equal(tallied, step.want) {
			t.Errorf("%s: got %v, want %v", step.when, tallied, step.want)
		}
	}
}
