package replay

import (
	"context"
	"slices"
	"testing"
)

// Batches are settled in their order, each by the worker that prepared it, however many there are.
func TestTurnsKeepTheOrder(t *testing.T) {
	for _, values := range []int{0, 1, 4, 5, 1000} {
		var settled []int
		var prepared [workers][]int
		turns := newTurns(4, &panics{}, func(worker int, batch []int) {
			prepared[worker] = append(prepared[worker][:0], batch...)
		}, func(worker int) { settled = append(settled, prepared[worker]...) })
		var want []int
		for round := range 2 { // turns may be used after finish
			for i := range values {
				value := round*values + i
				turns.add(&value)
				want = append(want, value)
			}
			turns.finish()
			if !slices.Equal(settled, want) {
				t.Fatalf("%d values: %v, want %v", values, settled, want)
			}
		}
	}
}

// While a worker settles a batch, another one prepares the next batch.
func TestTurnsPrepareWhileTheySettle(*testing.T) {
	both := make(chan struct{})
	turns := newTurns(1, &panics{}, func(worker int, _ []int) {
		if worker == 1 {
			close(both)
		}
	}, func(worker int) {
		if worker == 0 {
			<-both
		}
	})
	for i := range 2 {
		turns.add(&i)
	}
	third := 3
	turns.add(&third) // hands the second batch to its worker
	turns.batch = turns.batch[:0]
	turns.finish()
}

// After a panic in either step the rest is dropped, so that the sender never waits.
func TestTurnsDropWhatComesAfterAPanic(t *testing.T) {
	for _, step := range []string{"prepare", "settle"} {
		err := guarded(t.Context(), func(ctx context.Context, fails *panics) error {
			turns := newTurns(4, fails, func(int, []int) {
				if step == "prepare" {
					panic("defect")
				}
			}, func(int) { panic("defect") })
			for i := range 1000 {
				turns.add(&i)
			}
			turns.finish()
			return ctx.Err()
		})
		if !isPanic(err) {
			t.Errorf("%s: %v", step, err)
		}
	}
}
