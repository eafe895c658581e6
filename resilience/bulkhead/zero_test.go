package bulkhead

import (
	"context"
	"errors"
	"testing"
)

// There is no default number of places, so a zero value has none: it refuses every call.
func TestZeroValues(t *testing.T) {
	called := func(context.Context) error { t.Error("called"); return nil }
	var b Bulkhead
	if err := b.Do(t.Context(), called); !errors.Is(err, ErrFull) {
		t.Errorf("a bulkhead: %v", err)
	}
	if _, ok := b.TryAcquire(); ok || b.Usage().Limit != 0 {
		t.Errorf("a bulkhead: %v, %+v", ok, b.Usage())
	}
	var s Set
	if err := s.Do(t.Context(), "name", called); err == nil {
		t.Error("a set let a call through")
	}
	if len(s.Usage()) != 0 {
		t.Errorf("a set: %+v", s.Usage())
	}
	(&Slot{}).Release()
}
