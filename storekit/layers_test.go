package storekit_test

import (
	"slices"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

type wrapper struct{ stint.Store }

func (w *wrapper) Unwrap() stint.Store { return w.Store }

func TestLayers(t *testing.T) {
	memory := stint.NewMemory(stint.MemoryOptions{})
	inner := &wrapper{memory}
	outer := &wrapper{inner}
	if got := slices.Collect(storekit.Layers(outer)); !slices.Equal(got, []stint.Store{outer, inner, memory}) {
		t.Errorf("%v", got)
	}
	for name, store := range map[string]stint.Store{"nil": nil, "a nil pointer": (*wrapper)(nil)} {
		if got := slices.Collect(storekit.Layers(store)); len(got) != 0 || !storekit.Missing(store) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := slices.Collect(storekit.Layers(&wrapper{})); len(got) != 1 {
		t.Errorf("a wrapper of nothing: %v", got)
	}
	var loop wrapper
	loop.Store = &loop
	if got := slices.Collect(storekit.Layers(&loop)); len(got) == 0 {
		t.Error("a store that wraps itself counts as missing")
	}
}
