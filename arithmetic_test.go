package stint

import (
	"math/bits"
	"testing"
)

func TestDivisorDividesAtTheEdges(t *testing.T) {
	var numbers []uint64
	for i := range 63 {
		numbers = append(numbers, 1<<i-1, 1<<i, 1<<i+1, 1<<i/3, 1<<i/5*2+1)
	}
	for _, by := range numbers {
		if by == 0 || bits.Len64(by-1) > 52 {
			continue
		}
		d := divisorOf(int64(by))
		for _, x := range numbers {
			for _, x := range []uint64{x, x / by * by, x/by*by - 1, (1<<63 - 1) / by * by, (1<<63-1)/by*by - 1} {
				if got := d.quotient(x); x < 1<<63 && got != x/by {
					t.Fatalf("%d / %d = %d, want %d", x, by, got, x/by)
				}
			}
		}
	}
}

func FuzzDivisor(f *testing.F) {
	f.Add(uint64(9_999_999_999), uint64(7))
	f.Fuzz(func(t *testing.T, x, by uint64) {
		x, by = x>>1, by>>12+1
		d := divisorOf(int64(by))
		if got := d.quotient(x); got != x/by {
			t.Errorf("%d / %d = %d, want %d", x, by, got, x/by)
		}
	})
}
