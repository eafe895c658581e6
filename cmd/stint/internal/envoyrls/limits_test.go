package envoyrls

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const several = `
domain: d
descriptors:
  - key: user
    rate_limits:
      - {unit: second, requests_per_unit: 2}
      - {name: steady, unit: minute, requests_per_unit: 3}
  - key: mixed
    rate_limit: {unit: minute, requests_per_unit: 5}
    rate_limits:
      - {unit: minute, requests_per_unit: 60, algorithm: token_bucket, burst: 2}
  - key: other
    rate_limit: {unit: minute, requests_per_unit: 9, replaces: [{name: steady}]}
  - key: watched
    shadow_mode: true
    metadata: {kept: true}
    rate_limit: [{unit: second, requests_per_unit: 1}, {unit: minute, requests_per_unit: 1}]
`

func TestSeveralLimitsOfADescriptorAreOneGroup(t *testing.T) {
	s := serve(t, several)
	user := request("d", "user=1")
	s.want(user, "OK | OK 2/SECOND left 1 reset 1")
	s.want(user, "OK | OK 2/SECOND left 0 reset 1")
	s.want(user, "OVER_LIMIT | OVER_LIMIT 2/SECOND left 0 reset 1") // the minute is not charged
	s.clock.add(time.Second)
	s.want(user, "OK | OK 3/MINUTE left 0 reset 39")
	s.want(user, "OVER_LIMIT | OVER_LIMIT 3/MINUTE left 0 reset 39") // the longer wait decides
	s.want(request("d", "mixed=1"), "OK | OK 60/MINUTE left 1 reset 1")
	s.want(request("d", "mixed=1", "user=1"), "OVER_LIMIT | OK 60/MINUTE left 1 reset 1 | OVER_LIMIT 3/MINUTE left 0 reset 39")
}

func TestOneOfSeveralLimitsIsReplaced(t *testing.T) {
	s := serve(t, several)
	both := request("d", "user=1", "other=1")
	for left := range 4 {
		s.want(both, fmt.Sprintf("OK | OK 2/SECOND left 1 reset 1 | OK 9/MINUTE left %d reset %d", 8-left, 40-left))
		s.clock.add(time.Second)
	}
}

func TestSeveralLimitsThatOnlyWatchAreChargedTogether(t *testing.T) {
	s := serve(t, several)
	r := request("d", "watched=1")
	for i, want := range []string{"OK 1/SECOND left 0 reset 1", "OK 1/MINUTE left 0 reset 40", "OK 1/MINUTE left 0 reset 39"} {
		answer, err := s.ShouldRateLimit(t.Context(), r)
		if err != nil || shown(answer) != "OK | "+want || (answer.GetDynamicMetadata() != nil) != (i == 0) {
			t.Errorf("%d: %v %s", i, answer, err)
		}
		if i == 1 {
			s.clock.add(time.Second)
		}
	}
}

func TestCountingAllCountsEachOfSeveralLimits(t *testing.T) {
	s := serve(t, several, countAll)
	user := request("d", "user=1")
	for _, want := range []string{"OK | OK 2/SECOND left 1 reset 1", "OK | OK 2/SECOND left 0 reset 1", "OVER_LIMIT | OVER_LIMIT 2/SECOND left 0 reset 1"} {
		s.want(user, want)
	}
	s.clock.add(time.Second)
	s.want(user, "OVER_LIMIT | OVER_LIMIT 3/MINUTE left 0 reset 39") // the denied request was counted too
}

func TestEachOfSeveralLimitsIsCountedByItsName(t *testing.T) {
	s := serve(t, several)
	var got []string
	for _, l := range (*s.domains.Load())["d"].limits {
		got = append(got, l.path)
	}
	if want := "d.user:fixed_window:1s d.user:steady d.mixed:fixed_window:1m d.mixed:token_bucket:1m d.other d.watched:fixed_window:1s d.watched:fixed_window:1m"; strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A thousand descriptors of one counter are charged as their sum, like two descriptors of one
// counter.
func TestManyDescriptorsOfOneCounter(t *testing.T) {
	s := serve(t, strings.ReplaceAll(messaging, "_unit: 2", "_unit: 1500"))
	r := request("messaging", strings.Split(strings.TrimSuffix(strings.Repeat("to_number=1 ", maxDescriptors), " "), " ")...)
	status := " | OK 1500/MINUTE left 500 reset 40"
	s.want(r, "OK"+strings.Repeat(status, maxDescriptors))
	s.want(r, "OVER_LIMIT"+strings.Repeat(strings.ReplaceAll(status, "OK", "OVER_LIMIT"), maxDescriptors))
	s.want(request("messaging", "to_number=1"), "OK | OK 1500/MINUTE left 499 reset 40")
}

func TestHeadersAreThoseOfTheDenyingLimit(t *testing.T) {
	s := serve(t, messaging, func(o *Options) { o.Headers = &HeaderNames{"L", "R", "S"} })
	r := request("messaging", "to_number=1", "message_type=marketing,to_number=1", "to_number=2")
	r.HitsAddend = 2
	s.want(r, "OK | OK 2/MINUTE left 0 reset 40 | OK 5/DAY left 3 reset 6400 | OK 2/MINUTE left 0 reset 40")
	r.HitsAddend, r.Descriptors = 4, r.GetDescriptors()[1:2]
	r.Descriptors = append(r.GetDescriptors(), descriptor("banned=x"))
	r.Descriptors[1].HitsAddend = nil
	answer, err := s.ShouldRateLimit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.GetResponseHeadersToAdd()[0].GetValue() + " " + answer.GetResponseHeadersToAdd()[2].GetValue(); got != "0 1" {
		t.Errorf("the last one that denies is 0 a second, got %s of %s", got, shown(answer))
	}
	r.Descriptors[1] = descriptor("to_number=2")
	r.Descriptors[1].HitsAddend = r.GetDescriptors()[0].GetHitsAddend()
	r.HitsAddend = 4
	if answer, err = s.ShouldRateLimit(t.Context(), r); err != nil || answer.GetResponseHeadersToAdd()[0].GetValue() != "2" {
		t.Errorf("%v %v", answer, err)
	}
}
