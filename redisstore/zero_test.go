package redisstore

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stintdev/stint"
)

// A store that New did not make returns errors and does not panic: a zero value, or the nil
// that remains when New's error is ignored.
func TestZeroValues(t *testing.T) {
	limit, err := stint.ParseLimit("1/m")
	if err != nil {
		t.Fatal(err)
	}
	claim := stint.Claim{Key: "k", Limit: limit, Cost: 1}
	for name, s := range map[string]*Store{"nil": nil, "zero": {}} {
		if _, err := s.Take(t.Context(), claim); !errors.As(err, new(*stint.Error)) {
			t.Errorf("%s: Take: %v", name, err)
		}
		if err := s.TakeGroups(t.Context(), []stint.Group{{Claims: []stint.Claim{claim}}}, make([]stint.Decision, 1)); !errors.As(err, new(*stint.Error)) {
			t.Errorf("%s: TakeGroups: %v", name, err)
		}
		if s.String() == "" || s.GoString() == "" {
			t.Errorf("%s: has no name", name)
		}
		if s.Shards().Of(&claim) != "" || s.NodeCount() != 1 || !reflect.DeepEqual(s.Stats(), Stats{}) || s.Shards().Probe(t.Context(), "") == nil {
			t.Errorf("%s: it has servers", name)
		}
		s.Shards().Stop("")
		s.Shards().Start("")
		if err := s.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a store without an address was made")
	}
}
