package server

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint/resilience/adaptive"
)

// The gateway refuses a request over the limit at once, and admits the next one when
// there is room again.
func TestGatewaySheds(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	s := run(t, Config{
		Rules: rulesFile(t, orders), Gateway: "127.0.0.1:0", GatewayAdapt: &adaptive.AIMD{}, GatewayMax: 1,
		Upstreams: upstreamOf(t, func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				entered <- struct{}{}
				<-leave
			}
		}),
	})
	first := make(chan answer)
	go func() { first <- s.get("gateway", "/slow", "X-API-Key", "k") }()
	<-entered
	got := s.get("gateway", "/v1/orders", "X-API-Key", "k", "X-Request-Id", "its-own")
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "1" || got.header.Get("X-Request-Id") != "its-own" ||
		!strings.Contains(got.body, `"OVERLOADED"`) || !strings.Contains(got.body, `"its-own"`) || got.header.Get("X-RateLimit-Limit") != "2" {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
	s.wantMetric("stint_gateway_in_flight 1", true)
	s.wantMetric("stint_gateway_in_flight_limit 1", true)
	s.wantMetric("stint_gateway_shed_total 1", true)
	close(leave)
	if got := <-first; got.status != http.StatusOK {
		t.Errorf("the one in flight: %d", got.status)
	}
	for end := time.Now().Add(patience); s.get("gateway", "/", "X-API-Key", "k").status != http.StatusOK; {
		if time.Now().After(end) {
			t.Fatal("the place is not given back")
		}
	}
}

func TestGatewayWithoutLimitHasNoMetricsOfOne(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, orders), Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	s.wantMetric("stint_gateway_in_flight_limit", false)
}

// Server-sent events pass as they are written, and hold no place.
func TestGatewayThatShedsStreams(t *testing.T) {
	more := make(chan struct{})
	s := run(t, Config{
		Rules: rulesFile(t, orders), Gateway: "127.0.0.1:0", GatewayAdapt: &adaptive.Gradient{}, GatewayMax: 1,
		Upstreams: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/events" {
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, event := range []string{"data: 1\n\n", "data: 2\n\n"} {
				_, _ = w.Write([]byte(event))
				_ = http.NewResponseController(w).Flush()
				<-more
			}
		}),
	})
	resp, err := http.Get(s.url("gateway", "/events"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewScanner(resp.Body)
	for _, want := range []string{"data: 1", "", "data: 2"} {
		if !events.Scan() || events.Text() != want {
			t.Fatalf("%q, want %q, %v", events.Text(), want, events.Err())
		}
		if want == "" {
			if got := s.get("gateway", "/"); got.status != http.StatusOK {
				t.Errorf("beside a stream: %d", got.status)
			}
			more <- struct{}{}
		}
	}
	close(more)
}
