package decisionlog

import (
	"fmt"
	"testing"
	"time"
)

// However many rules there are, the rate bounds the lines of each second, and a rule that is
// denied something in every second waits for at most one round, while another is under attack.
func TestTheRateBoundsAllRulesAndHidesNone(t *testing.T) {
	for _, test := range []struct{ rate, rules, round int }{
		{1000, 5, 1}, {100, 48, 1}, {20, 200, 20}, {7, 100, 25}, {2, 9, 9}, {1, 30, 30},
	} {
		t.Run(fmt.Sprintf("%d lines of %d rules", test.rate, test.rules), func(t *testing.T) {
			var r rates
			r.divide(test.rate, test.rules)
			shares, last := make([]share, test.rules), make([]int, test.rules)
			for second := 1; second <= 4*test.round+4; second++ {
				now, lines := time.Unix(1_767_225_600+int64(second), 0), 0
				for i := range shares {
					tries := 3
					if i == 0 {
						tries = 2 * test.rate // the attack comes first in each second
					}
					for range tries {
						if r.admits(&shares[i], now) {
							lines++
							last[i] = second
						}
					}
					if second-last[i] >= test.round && second > last[i] {
						t.Fatalf("rule %d has no line in the %d seconds up to second %d", i, second-last[i], second)
					}
				}
				if lines > test.rate {
					t.Fatalf("%d lines in second %d", lines, second)
				}
			}
		})
	}
}

// A rule that has not been heard of gets its line at once, whatever the others had before.
func TestARuleThatHasWaitedIsNext(t *testing.T) {
	var r rates
	r.divide(2, 4) // one reserved line a second
	var attacked, quiet share
	at := func(second int64) time.Time { return time.Unix(1_767_225_600+second, 0) }
	for second := range int64(3) {
		for range 10 {
			r.admits(&attacked, at(second))
		}
	}
	for _, line := range []string{"reserved", "common"} {
		if !r.admits(&quiet, at(3)) {
			t.Errorf("the quiet rule has not had the %s line", line)
		}
	}
	if r.admits(&attacked, at(3)) {
		t.Error("the rate is exceeded")
	}
}
