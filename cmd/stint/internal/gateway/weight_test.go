package gateway

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

func weighted(t *testing.T, weights ...int) *group {
	t.Helper()
	var all []ServerOptions
	for i, weight := range weights {
		all = append(all, ServerOptions{URL: &url.URL{Scheme: "http", Host: string(rune('a' + i))}, Weight: weight})
	}
	return newGateway(t, Options{Groups: []GroupOptions{{Servers: all}}}).groups[0]
}

func chosen(gr *group, n int, finish bool) (counts []int64) {
	counts = make([]int64, len(gr.upstreams))
	for range n {
		u, _ := gr.choose(time.Now(), nil)
		for i := range gr.upstreams {
			if gr.upstreams[i] == u {
				counts[i]++
			}
		}
		if !finish {
			u.inFlight.Add(1)
		}
	}
	return counts
}

func TestRequestsAreSharedByWeight(t *testing.T) {
	for name, finish := range map[string]bool{"inFlight": false, "idle": true} {
		t.Run(name, func(t *testing.T) {
			counts := chosen(weighted(t, 3, 0, 6), 1000, finish) // 0: 1
			for i, want := range []int64{300, 100, 600} {
				if counts[i] < want-2 || counts[i] > want+2 {
					t.Errorf("shared %v, want 300, 100 and 600", counts)
				}
			}
		})
	}
}

func TestAnUpstreamThatIsBackGetsNoMoreThanItsShare(t *testing.T) {
	gr := weighted(t, 1, 1)
	gr.upstreams[0].health.checked(false)
	if counts := chosen(gr, 100, true); counts[1] != 100 {
		t.Fatalf("shared %v while one is down", counts)
	}
	gr.upstreams[0].health.checked(true)
	if counts := chosen(gr, 10, true); counts[0] > 6 {
		t.Errorf("shared %v, want the turns that it missed to be forgotten", counts)
	}
}

func TestAWeightIsBounded(t *testing.T) {
	for _, weight := range []int{-1, maxWeight + 1} {
		server := ServerOptions{URL: &url.URL{Scheme: "http", Host: "a"}, Weight: weight}
		if _, err := New(Options{Groups: []GroupOptions{{Servers: []ServerOptions{server}}}}); err == nil || !strings.Contains(err.Error(), "use 1 to 1000") {
			t.Errorf("%d: %v", weight, err)
		}
	}
}
