package replay

import (
	"strconv"
	"testing"
)

func TestKeyCounterCountsAsASet(t *testing.T) {
	c := newKeyCounter(&panics{})
	for round, keys := range []int{0, 1, hashBatch - 1, hashBatch, 20 * hashBatch, 50_000} {
		for range 2 {
			for i := range keys {
				c.add(strconv.Itoa(i))
			}
		}
		if want := []int{0, 1, hashBatch - 1, hashBatch, 20 * hashBatch, 20 * hashBatch}[round]; c.total() != want {
			t.Fatalf("%d keys, want %d", c.total(), want)
		}
	}
}
