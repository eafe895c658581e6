package metrics

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newBuildInfo returns the metric that says which program this is.
func newBuildInfo() prometheus.Collector {
	version, revision := "(devel)", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "stint_build_info", Help: "Always 1: the program that is running.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}

// ReadReady shows whether the server is ready.
func (m *Metrics) ReadReady(ready func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_ready",
		Help: "1 while all listeners are open and the server is not draining."}, func() float64 { return asFloat(ready()) }))
}

// ReadCertificate shows when the certificate of a listener expires.
func (m *Metrics) ReadCertificate(listener string, expires func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_certificate_expiry_timestamp_seconds",
		ConstLabels: prometheus.Labels{"listener": listener},
		Help:        "When the certificate that a listener presents expires, in Unix seconds."}, func() float64 { return float64(expires().Unix()) }))
}

// authFailures describes the counter of one listener's requests without a valid token.
func authFailures(listener string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: "stint_auth_failures_total", ConstLabels: prometheus.Labels{"listener": listener},
		Help: "Requests that lack the required token, or have a wrong one."}
}

// AuthFailures returns the function that counts a request to a listener without a valid
// token. Call it once for each listener.
func (m *Metrics) AuthFailures(listener string) func() {
	c := prometheus.NewCounter(authFailures(listener))
	m.registry.MustRegister(c)
	return c.Inc
}

// ReadAdminTokens shows the number of requests to the admin listener without a valid
// token.
func (m *Metrics) ReadAdminTokens(refused func() uint64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(authFailures("admin"), func() float64 { return float64(refused()) }))
}

// ReadTokenKeys shows when the keys that verify tokens were last fetched, as Unix seconds.
func (m *Metrics) ReadTokenKeys(fetched func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_jwt_keys_last_success_timestamp_seconds",
		Help: "Unix time of the last successful fetch of the URL of --jwt-keys; 0 before the first. The last keys stay in force while the URL fails."},
		func() float64 { return float64(fetched()) }))
}

// ReadHotKeys shows the number of hot keys.
func (m *Metrics) ReadHotKeys(hot func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "stint_hot_keys",
		Help: "Keys that had at least --hot-key-rate requests in the last second, on this node."}, func() float64 { return float64(hot()) }))
}
