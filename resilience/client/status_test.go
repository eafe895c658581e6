package client

import (
	"net/http"
	"testing"

	"github.com/stintdev/stint/resilience/breaker"
)

// The results are from a fixed set, whatever status a server sends.
func TestResultsAreOfAFixedSet(t *testing.T) {
	for status, want := range map[int]string{
		200: "2xx", 404: "4xx", 429: "429", 503: "5xx", 101: "1xx",
		600: "5xx", 999: "5xx", 99: "5xx", 0: "5xx", -200: "5xx", 123456789: "5xx",
	} {
		seen := &log{}
		resp, err := get(t, must(New(Options{Chain: Chain{Observer: seen}, Base: answers(status)})))
		if err != nil || resp.StatusCode != status {
			t.Errorf("%d: %v, %v", status, resp, err)
		}
		if got, want := seen.kinds(), " attempt="+want+" request="+want; got != want {
			t.Errorf("%d: got %s, want %s", status, got, want)
		}
		if failed := want == "5xx"; (OutcomeOf(&http.Response{StatusCode: status}, nil) == breaker.Failure) != failed {
			t.Errorf("%d: failed is not %v", status, failed)
		}
	}
}
