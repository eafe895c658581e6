package cas_test

import (
	"strconv"
	"testing"

	"github.com/stintdev/stint/internal/cas"
	"github.com/stintdev/stint/internal/cas/casmem"
)

// The cost of a check beside that of the server, for distinct keys and for one hot key.
func BenchmarkTake(b *testing.B) {
	for _, hot := range []bool{false, true} {
		b.Run(map[bool]string{false: "distinct", true: "hot"}[hot], func(b *testing.B) {
			s := newStore(b, casmem.New(casmem.NewServer(nil)), cas.Options{})
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				c := claim("hot", "100000000/s", 1)
				for i := 0; pb.Next(); i++ {
					if !hot {
						c.Key = "k" + strconv.Itoa(i%10_000)
					}
					if _, err := s.Take(b.Context(), c); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkTakeAlone(b *testing.B) {
	s := newStore(b, casmem.New(casmem.NewServer(nil)), cas.Options{})
	c := claim("k", "100000000/s", 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Take(b.Context(), c); err != nil {
			b.Error(err)
		}
	}
}
