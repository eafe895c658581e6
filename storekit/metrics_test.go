package storekit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// metered is a wrapper with a metric of its own.
type metered struct{ wrapper }

func (*metered) Metrics() []storekit.Metric {
	return []storekit.Metric{storekit.Gauge("own", "A number.", 1)}
}

func TestMetricsAreThoseOfAllLayers(t *testing.T) {
	memory := stint.NewMemory(stint.MemoryOptions{})
	got := storekit.Metrics(&wrapper{&metered{wrapper{memory}}})
	if own := storekit.Metrics(memory); len(got) != 1+len(own) || got[0].Name != "own" || got[1].Name != own[0].Name {
		t.Errorf("%+v", got)
	}
	if got := storekit.Metrics(nil); len(got) != 0 {
		t.Errorf("a missing store has %+v", got)
	}
}

func TestMetricsOfAMemory(t *testing.T) {
	m := stint.NewMemory(stint.MemoryOptions{})
	_, _ = m.Take(t.Context(), stint.Claim{Key: "k", Limit: stint.MustParseLimit("3/h"), Cost: 1})
	var names []string
	for _, metric := range storekit.Metrics(m) {
		if metric.Help == "" || len(metric.Samples) != 1 {
			t.Errorf("%+v", metric)
		}
		names = append(names, fmt.Sprint(metric.Name, metric.Samples[0].Value))
	}
	if got := strings.Join(names, " "); got != "keys1 evictions0 unstored0 caller_keys0 caller_limits0 caller_evictions0 caller_refused0 once_bytes0 once_refused0" {
		t.Error(got)
	}
}

// around embeds the store that it wraps, and so has its methods.
type around struct{ *stint.Memory }

func (a around) Unwrap() stint.Store { return a.Memory }

// above has a metric that the store below it has too.
type above struct{ metered }

func TestEachMetricIsThereOnce(t *testing.T) {
	memory := stint.NewMemory(stint.MemoryOptions{})
	if got, own := storekit.Metrics(around{memory}), storekit.Metrics(memory); len(got) != len(own) {
		t.Errorf("%+v", got)
	}
	if got := storekit.Metrics(&above{metered{wrapper{&metered{wrapper{memory}}}}}); len(got) != 1+len(storekit.Metrics(memory)) {
		t.Errorf("%+v", got)
	}
}
