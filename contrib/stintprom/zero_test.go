package stintprom

import (
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/resilience/retrybudget"
)

func TestZeroMetrics(t *testing.T) {
	for name, use := range map[string]func(m *Metrics){
		"shown first": func(*Metrics) {},
		"observed": func(m *Metrics) {
			m.Observe(t.Context(), stint.Event{Kind: stint.EventAttempt, Name: "orders", Result: "2xx"})
		},
		"watching zero values": func(m *Metrics) {
			check(t, m.WatchClient(client.Chain{Name: "orders", Breaker: &breaker.Breaker{}, Bulkhead: &bulkhead.Bulkhead{}}, &retrybudget.Budget{}))
		},
	} {
		m := &Metrics{}
		use(m)
		if got := page(t, m); strings.Contains(got, `"orders"`) != (name != "shown first") {
			t.Errorf("%s: %s", name, got)
		}
	}
}
