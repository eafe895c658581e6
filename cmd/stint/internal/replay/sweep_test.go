package replay

import (
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// A limit remembers its place in one memory store, so stores that share it are slow.
func TestJudgesOfASweepShareNoLimit(t *testing.T) {
	limit := stint.MustParseLimit("6/m")
	judges := newJudges([]Swept{{6, limit}, {6, limit}}, time.Now)
	if judges[0].Limit == judges[1].Limit || judges[0].Limit == limit {
		t.Error("two stores share a limit")
	}
	if judges[0].Limit.String() != limit.String() {
		t.Errorf("got %v, want %v", judges[0].Limit, limit)
	}
}
