package storekit_test

import (
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// metered is a wrapper with a metric of its own.
type metered struct{ wrapper }

func (*metered) Metrics() []stint.Metric { return []stint.Metric{stint.Gauge("own", "A number.", 1)} }

func TestMetricsAreThoseOfAllLayers(t *testing.T) {
	memory := stint.NewMemory(stint.MemoryOptions{})
	got := storekit.Metrics(&wrapper{&metered{wrapper{memory}}})
	if own := memory.Metrics(); len(got) != 1+len(own) || got[0].Name != "own" || got[1].Name != own[0].Name {
		t.Errorf("%+v", got)
	}
	if got := storekit.Metrics(nil); len(got) != 0 {
		t.Errorf("a missing store has %+v", got)
	}
}
