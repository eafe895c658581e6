package stint

import "fmt"

// Algorithm is the way in which a limit counts. The zero value is
// [TokenBucket].
type Algorithm uint8

// The algorithms. TokenBucket and GCRA are defined in bucket.go, each of the
// others in the file of its name.
const (
	TokenBucket          Algorithm = iota // a burst, which refills at a steady rate
	GCRA                                  // the same, given as limit, window and burst
	FixedWindow                           // counts the current window, such as a minute of the clock
	SlidingWindowCounter                  // estimates the last window from a few counters
	SlidingWindowLog                      // records every unit of the last window
	LeakyBucket                           // delays requests to a steady rate
	Quota                                 // counts a period of the calendar: a day, a week or a month
)

var algorithmNames = [...]string{
	"token_bucket", "gcra", "fixed_window", "sliding_window_counter",
	"sliding_window_log", "leaky_bucket", "quota",
}

// String returns the name that rule files use, such as "token_bucket".
func (a Algorithm) String() string {
	return nameOf("algorithm", algorithmNames[:], a)
}

// Algorithms returns the name of every algorithm, in order of their values.
func Algorithms() []string { return append([]string(nil), algorithmNames[:]...) }

// ParseAlgorithm returns the algorithm of a name that rule files use. The
// empty name is the default, [TokenBucket]. For any other text the error is a
// [*LimitError].
func ParseAlgorithm(name string) (Algorithm, error) {
	if name == "" {
		return TokenBucket, nil
	}
	for i, n := range algorithmNames {
		if n == name {
			return Algorithm(i), nil
		}
	}
	return 0, &LimitError{Field: "algorithm", Problem: fmt.Sprintf("%q is not known", name),
		Mend: fmt.Sprintf("use one of %v", algorithmNames)}
}
