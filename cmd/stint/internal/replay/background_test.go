package replay

import (
	"slices"
	"testing"
)

// Values are worked on in their order, however many batches they fill.
func TestBackgroundKeepsTheOrder(t *testing.T) {
	for _, values := range []int{0, 1, 4, 5, 1000} {
		var worked []int
		b := newBackground(4, &panics{}, func(batch []int) { worked = append(worked, batch...) })
		var want []int
		for round := range 2 { // a background may be used after finish
			for i := range values {
				*b.next() = round*values + i
				want = append(want, round*values+i)
			}
			b.finish()
			if !slices.Equal(worked, want) {
				t.Fatalf("%d values: %v, want %v", values, worked, want)
			}
		}
	}
}

// A place that is used again still holds the memory of an earlier value.
func TestBackgroundUsesMemoryAgain(t *testing.T) {
	b := newBackground(4, &panics{}, func([][]byte) {})
	for range 1000 {
		place := b.next()
		*place = append((*place)[:0], "some text"...)
	}
	b.finish()
	allocations := testing.AllocsPerRun(100, func() {
		place := b.next()
		if *place = append((*place)[:0], "other text"[:9]...); len(b.batch) == cap(b.batch) {
			b.finish()
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations for each value", allocations)
	}
}
