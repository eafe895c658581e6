package metrics

import "github.com/prometheus/client_golang/prometheus"

// LeaseStats is what a store that leases hot keys has done: see the package
// lease, whose names these are.
type LeaseStats struct {
	Keys                        int
	Held                        int64
	Local, Denied               uint64
	Asked, Renewed              uint64
	Granted, Returned, Stranded uint64
}

// collectLeases tells of a store that leases.
func collectLeases(s *LeaseStats, to chan<- prometheus.Metric) {
	show := func(kind prometheus.ValueType, name, help string, value float64) {
		to <- prometheus.MustNewConstMetric(sharedMetric(name, help), kind, value)
	}
	show(prometheus.GaugeValue, "stint_lease_keys", "Hot keys that are leased.", float64(s.Keys))
	show(prometheus.GaugeValue, "stint_lease_tokens_held", "Tokens charged and not yet spent: how much of the bound is in use.", float64(s.Held))
	show(prometheus.CounterValue, "stint_lease_asked_total", "Leasable checks that asked the store.", float64(s.Asked))
	show(prometheus.CounterValue, "stint_lease_renewals_total", "Calls to the store in the background, each for many keys.", float64(s.Renewed))
	local := sharedMetric("stint_lease_local_total", "Checks decided without asking the store.", "decision")
	to <- prometheus.MustNewConstMetric(local, prometheus.CounterValue, float64(s.Local), "allow")
	to <- prometheus.MustNewConstMetric(local, prometheus.CounterValue, float64(s.Denied), "deny")
	tokens := sharedMetric("stint_lease_tokens_total", "Tokens that leases brought, that were given back, and that were neither spent nor given back.", "what")
	to <- prometheus.MustNewConstMetric(tokens, prometheus.CounterValue, float64(s.Granted), "granted")
	to <- prometheus.MustNewConstMetric(tokens, prometheus.CounterValue, float64(s.Returned), "returned")
	to <- prometheus.MustNewConstMetric(tokens, prometheus.CounterValue, float64(s.Stranded), "stranded")
}
