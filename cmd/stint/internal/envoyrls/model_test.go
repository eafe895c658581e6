package envoyrls

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// modelled is a descriptor of a configuration in the model of Envoy's service.
type modelled struct {
	key, value               string
	unit, requests           int // unit in seconds; 0: no limit
	unlimited, shadow, quota bool
	share                    bool
	name, replaces           string
	below                    []*modelled
}

// envoyModel is an independent, simple implementation of the documented behavior of
// Envoy's service: a counter for each key and window, which is increased whatever the
// outcome.
type envoyModel struct {
	top         []*modelled
	counters    map[string]int64
	stop, quota bool
}

func modelConfig() []*modelled {
	return []*modelled{
		{key: "user", unit: 60, requests: 3},
		{key: "user", value: "vip", unit: 60, requests: 6, name: "vip"},
		{key: "user", value: "root", unlimited: true},
		{key: "user", value: "banned", unit: 1, requests: 0},
		{key: "path", value: "/a*", unit: 60, requests: 4},
		{key: "path", value: "/a/b*", unit: 60, requests: 1}, // never used: the previous one matches first
		{key: "path", value: "/a/exact", unit: 3600, requests: 2},
		{key: "path", value: "/in*side", unit: 60, requests: 1},
		{key: "path", value: "*/mid*dle/*", unit: 60, requests: 5},
		{key: "file", value: "f*", share: true, unit: 60, requests: 3},
		{key: "seen", unit: 60, requests: 1, shadow: true},
		{key: "pool", unit: 60, requests: 2, quota: true, name: "pool"},
		{key: "both", unit: 60, requests: 1, quota: true, shadow: true},
		{key: "plan", value: "gold", unit: 60, requests: 9, replaces: "vip", below: []*modelled{
			{key: "user", unit: 1, requests: 1}, {key: "user", value: "v*", share: true, unit: 1, requests: 2, replaces: "pool"},
		}},
		{key: "plan", below: []*modelled{{key: "user", unit: 86400, requests: 5}}},
	}
}

func unitName(seconds int) string {
	return map[int]string{1: "SECOND", 60: "MINUTE", 3600: "HOUR", 86400: "DAY"}[seconds]
}

// yaml is the configuration as a file.
func (m *modelled) yaml(indent string) string {
	text := fmt.Sprintf("%s- key: %s\n", indent, m.key)
	put := func(name string, value any) { text += fmt.Sprintf("%s  %s: %v\n", indent, name, value) }
	if m.value != "" {
		put("value", fmt.Sprintf("%q", m.value))
	}
	put("shadow_mode", m.shadow)
	put("quota_mode", m.quota)
	put("share_threshold", m.share)
	limit := fmt.Sprintf("requests_per_unit: %d, unit: %s", m.requests, unitName(m.unit))
	if m.unlimited {
		limit = "unlimited: true"
	}
	if m.name != "" {
		limit += ", name: " + m.name
	}
	if m.replaces != "" {
		limit += ", replaces: [{name: " + m.replaces + "}]"
	}
	if m.unit > 0 || m.unlimited {
		put("rate_limit", "{"+limit+"}")
	}
	if len(m.below) > 0 {
		put("descriptors", "")
		for _, b := range m.below {
			text += b.yaml(indent + "    ")
		}
	}
	return text
}

func modelFile(top []*modelled) string {
	text := "domain: model\ndescriptors:\n"
	for _, m := range top {
		text += m.yaml("  ")
	}
	return text
}

// starred matches Envoy's * in a value, by an equivalent regular expression.
func starred(pattern string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

// find is Envoy's matching: the exact pair, the first value of the file with a
// * that matches, the key alone. A limit counts for descriptors that end at it.
func (e *envoyModel) find(entries []*common.RateLimitDescriptor_Entry) (found *modelled, counter string) {
	level := e.top
	for i, entry := range entries {
		at := slices.IndexFunc(level, func(m *modelled) bool { return m.key == entry.GetKey() && m.value == entry.GetValue() && m.value != "" })
		if at < 0 {
			at = slices.IndexFunc(level, func(m *modelled) bool {
				return strings.Contains(m.value, "*") && m.key == entry.GetKey() && starred(m.value).MatchString(entry.GetValue())
			})
		}
		if at < 0 {
			at = slices.IndexFunc(level, func(m *modelled) bool { return m.key == entry.GetKey() && m.value == "" })
		}
		if at < 0 {
			return nil, ""
		}
		value := entry.GetValue()
		if level[at].share {
			value = "\x00" + level[at].value // unlike the value that an override counts by
		}
		counter += fmt.Sprintf("%q=%q ", entry.GetKey(), value)
		if found, level = level[at], level[at].below; i < len(entries)-1 {
			continue
		}
		if found.unit > 0 || found.unlimited {
			return found, counter
		}
	}
	return nil, ""
}

// answer returns the response in the format of shown.
func (e *envoyModel) answer(r *pb.RateLimitRequest, now int64) (text string) {
	n := len(r.GetDescriptors())
	limits, counters, hits := make([]*modelled, n), make([]string, n), make([]int64, n)
	replaced := map[string]bool{"": false}
	for i, d := range r.GetDescriptors() {
		limits[i], counters[i] = e.find(d.GetEntries())
		if o := d.GetLimit(); o != nil {
			unit := map[typepb.RateLimitUnit]int{typepb.RateLimitUnit_MINUTE: 60, typepb.RateLimitUnit_HOUR: 3600}[o.GetUnit()]
			limits[i], counters[i] = &modelled{unit: unit, requests: int(o.GetRequestsPerUnit())}, "brought " // overrides count apart, unlike in Envoy's service
			for _, entry := range d.GetEntries() {
				counters[i] += fmt.Sprintf("%q=%q ", entry.GetKey(), entry.GetValue())
			}
		}
		hits[i] = int64(max(1, r.GetHitsAddend()))
		if d.GetHitsAddend() != nil {
			hits[i] = int64(d.GetHitsAddend().GetValue())
		}
		if d.GetIsNegativeHits() {
			hits[i] = -hits[i]
		}
		if l := limits[i]; l != nil {
			counters[i] += fmt.Sprint(l.unit, now/1_000_000/int64(max(1, l.unit)))
			replaced[l.replaces] = l.replaces != ""
		}
	}
	for i, l := range limits {
		if l != nil && !l.unlimited && replaced[l.name] {
			limits[i] = nil
		}
	}
	after := e.count(limits, counters, hits)
	overall, quotas, over := "OK", 0, 0
	for i, l := range limits {
		switch {
		case l == nil:
			text += " | OK"
		case l.unlimited:
			text += " | OK unlimited"
		default:
			code, left := "OK", int64(l.requests)-after[i]
			inQuota := (l.quota || e.quota) && !l.shadow
			if inQuota {
				quotas++
			}
			if left < 0 {
				switch left = 0; {
				case hits[i] < 0: // a refund is always allowed
				case l.shadow:
				case inQuota:
					code = "OVER_LIMIT"
					over++
				default:
					code, overall = "OVER_LIMIT", "OVER_LIMIT"
				}
			}
			text += fmt.Sprintf(" | %s %d/%s left %d reset %d", code, l.requests, unitName(l.unit), left, int64(l.unit)-now/1_000_000%int64(l.unit))
		}
	}
	if quotas > 0 && over == quotas {
		overall = "OVER_LIMIT"
	}
	return overall + text
}

// count increases the counters, and returns the value of each after its increase.
func (e *envoyModel) count(limits []*modelled, counters []string, hits []int64) []int64 {
	near, some := make([]bool, len(limits)), false
	for i, l := range limits {
		near[i] = l != nil && !l.unlimited && hits[i] >= 0 && e.counters[counters[i]]+hits[i] > int64(l.requests)
		some = some || near[i]
	}
	after := make([]int64, len(limits))
	for i, l := range limits {
		if l == nil || l.unlimited {
			continue
		}
		if !e.stop || !some || near[i] || hits[i] < 0 {
			e.counters[counters[i]] = max(0, e.counters[counters[i]]+hits[i])
		}
		after[i] = e.counters[counters[i]]
	}
	return after
}

// modelRequest returns a random request of one to four descriptors, some with
// overrides.
func modelRequest(random *rand.Rand) *pb.RateLimitRequest {
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	r := &pb.RateLimitRequest{Domain: "model"}
	for range 1 + random.IntN(4) {
		d := descriptor(pick("user=ann", "user=ben", "user=vip", "user=root", "user=banned", "user=", "path=/a/1", "path=/a/b2", "path=/a/exact",
			"path=/a*", "path=/inXside", "path=/in*side", "path=/x/mid/dle/y", "path=/mid*dle/", "path=/c", "file=f1", "file=f2", "file=f*", "file=g", "seen=x", "pool=x", "pool=y", "both=x", "plan=gold",
			"plan=gold,user=ann", "plan=gold,user=vip", "plan=gold,user=v2", "plan=iron,user=ann", "plan=iron", "plan=gold,user=ann,more=1", "none=x"))
		switch random.IntN(12) {
		case 0:
			d.HitsAddend = wrapperspb.UInt64(0)
		case 1:
			d.HitsAddend = wrapperspb.UInt64(uint64(random.IntN(6)))
		case 2:
			d.Limit = &common.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(random.IntN(4)), Unit: typepb.RateLimitUnit(2 + random.IntN(2))}
		case 3:
			d.IsNegativeHits = true
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	if random.IntN(4) == 0 {
		r.HitsAddend = uint32(random.IntN(5))
	}
	return r
}

// A random walk through requests and time has the statuses of the model, in each
// counting mode of Envoy's service.
func TestCountingAllIsThatOfEnvoysService(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 3
	}
	for _, stop := range []bool{false, true} {
		for _, quota := range []bool{false, true} {
			t.Run(fmt.Sprintf("stop=%t,quota=%t", stop, quota), func(t *testing.T) {
				for seed := range seeds {
					s := serve(t, modelFile(modelConfig()), func(o *Options) { o.CountAll, o.StopWhenOver, o.Quota = true, stop, quota })
					model := &envoyModel{top: modelConfig(), counters: map[string]int64{}, stop: stop, quota: quota}
					walk(s, model, rand.New(rand.NewPCG(seed, 1)))
					if t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				}
			})
		}
	}
}

func walk(s *serving, model *envoyModel, random *rand.Rand) {
	s.t.Helper()
	for range 300 {
		r := modelRequest(random)
		want := model.answer(r, s.clock.time().UnixMicro())
		got, err := s.ShouldRateLimit(s.t.Context(), r)
		if err != nil {
			s.t.Fatal(err)
		}
		if shown(got) != want || got.GetDynamicMetadata() != nil {
			s.t.Fatalf("%v\ngot  %s %v\nwant %s", r, shown(got), got.GetDynamicMetadata(), want)
		}
		s.clock.add(time.Duration(random.IntN(7000)) * time.Millisecond)
	}
}
