package redisstore

import (
	"fmt"
	"time"

	"github.com/stintdev/stint"
)

// drawLimits draws limits that share a state.
func (w *fuzzWorld) drawLimits(name string) (row []stint.Limit) {
	for len(row) == 0 {
		spec := w.drawSpec(name)
		first, err := spec.Compile()
		if err != nil {
			continue
		}
		row = append(row, first)
		for range w.rand.IntN(3) {
			if other, err := w.vary(first.Spec()).Compile(); err == nil && other.Shape() == first.Shape() {
				row = append(row, other)
			}
		}
	}
	return row
}

func (w *fuzzWorld) drawSpec(name string) stint.Spec {
	s := stint.Spec{Name: name, Algorithm: stint.Algorithm(w.rand.IntN(7))}
	if w.plain {
		s.Algorithm = stint.Algorithm(w.rand.IntN(1 + int(stint.SlidingWindowCounter)))
	} else {
		s.FromCaller = w.rand.IntN(3) == 0
	}
	switch s.Algorithm {
	case stint.TokenBucket:
		if s.Capacity = w.units(); w.rand.IntN(2) == 0 {
			s.RefillRate = w.rate()
			return s
		}
	case stint.GCRA:
		s.Capacity = w.units()
	case stint.SlidingWindowCounter:
		if s.Buckets = []int{1, 1, 2, 5, 10, 60}[w.rand.IntN(6)]; w.plain {
			s.Buckets = 1
		}
	case stint.LeakyBucket:
		s.Queue = w.units() - 1
		s.MaxWait = w.maxWait()
	case stint.Quota:
		s.Limit = w.units()
		w.drawPeriod(&s)
		return s
	}
	s.Limit, s.Window = w.units(), w.window()
	if s.Algorithm == stint.SlidingWindowLog {
		s.Limit = min(s.Limit, 300)
	}
	return s
}

// vary changes the numbers of a limit but not the meaning of its state.
func (w *fuzzWorld) vary(s stint.Spec) stint.Spec {
	switch {
	case s.RefillRate != "":
		s.RefillRate = w.rate()
	case s.Algorithm == stint.SlidingWindowLog:
		s.Limit = 1 + w.rand.Int64N(300)
	default:
		s.Limit = w.near(s.Limit)
	}
	if s.Capacity > 0 {
		s.Capacity = w.near(s.Capacity)
	}
	if s.Queue > 0 {
		s.Queue = w.near(s.Queue)
	}
	if s.Algorithm == stint.LeakyBucket {
		s.MaxWait = w.maxWait()
	}
	return s
}

func (w *fuzzWorld) maxWait() time.Duration {
	if w.rand.IntN(2) == 0 {
		return 0
	}
	return time.Duration(1+w.rand.Int64N(1<<(1+w.rand.IntN(44)))) * time.Microsecond
}

func (w *fuzzWorld) near(n int64) int64 {
	if w.rand.IntN(3) == 0 {
		return w.units()
	}
	return 1 + w.rand.Int64N(2*n)
}

// units draws a number of any size, small ones most often.
func (w *fuzzWorld) units() int64 {
	switch w.rand.IntN(4) {
	case 0:
		return 1 + w.rand.Int64N(1_000_000_000)
	case 1:
		return 1 + w.rand.Int64N(100_000)
	}
	return 1 + w.rand.Int64N(20)
}

func (w *fuzzWorld) rate() string {
	switch w.rand.IntN(4) {
	case 0:
		return fmt.Sprintf("%d.%02d", w.rand.IntN(100), 1+w.rand.IntN(99))
	case 1:
		return fmt.Sprintf("0.%06d", 1+w.rand.IntN(999_999))
	case 2:
		return fmt.Sprintf("%d.%07d", w.rand.IntN(1000), w.rand.IntN(10_000_000))
	}
	return fmt.Sprint(1 + w.rand.IntN(100_000_000))
}

func (w *fuzzWorld) window() time.Duration {
	switch w.rand.IntN(5) {
	case 0:
		return time.Duration(1+w.rand.IntN(400*24)) * time.Hour
	case 1:
		return time.Duration(60*(17+w.rand.IntN(1e6))) * time.Microsecond
	case 2:
		return time.Duration(1000+w.rand.IntN(1e9)) * time.Microsecond
	}
	return time.Duration(1+w.rand.IntN(600)) * time.Second
}

func (w *fuzzWorld) drawPeriod(s *stint.Spec) {
	s.Period = []string{"day", "week", "month", "month", "30d", "12h", "86399999ms"}[w.rand.IntN(7)]
	if w.rand.IntN(2) == 0 {
		s.UTCOffset = []string{"+02:00", "-11:30", "+14:00", "Z"}[w.rand.IntN(4)]
	}
	if s.Period[0] < 'a' || w.rand.IntN(2) == 0 {
		s.Anchor = fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d.%06d+%02d:00", 1+w.rand.IntN(3000), 1+w.rand.IntN(12), 1+w.rand.IntN(31),
			w.rand.IntN(24), w.rand.IntN(60), w.rand.IntN(60), w.rand.IntN(1e6), w.rand.IntN(14))
	}
}
