package resp

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// five returns the answer to CL.THROTTLE.
func five(limited, limit, remaining, retry, reset int) string {
	return fmt.Sprintf("*5\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", limited, limit, remaining, retry, reset)
}

// TestAnswersAsRedisCell uses one key with a burst of 5 and a rate of one a second:
// the table of redis-cell's own test, in seconds.
func TestAnswersAsRedisCell(t *testing.T) {
	s := run(t, Options{})
	c := s.dial()
	var passed time.Duration
	for i, step := range []struct {
		when     time.Duration
		quantity int
		want     string
	}{
		{0, 6, five(1, 5, 5, -1, 0)}, // the cost exceeds the limit: a retry never helps
		{0, 1, five(0, 5, 4, -1, 1)},
		{0, 1, five(0, 5, 3, -1, 2)},
		{0, 1, five(0, 5, 2, -1, 3)},
		{0, 1, five(0, 5, 1, -1, 4)},
		{0, 1, five(0, 5, 0, -1, 5)},
		{0, 1, five(1, 5, 0, 1, 5)},
		{3000 * time.Millisecond, 1, five(0, 5, 2, -1, 3)},
		{3100 * time.Millisecond, 1, five(0, 5, 1, -1, 4)},
		{4000 * time.Millisecond, 1, five(0, 5, 1, -1, 4)},
		{8000 * time.Millisecond, 1, five(0, 5, 4, -1, 1)},
		{9500 * time.Millisecond, 1, five(0, 5, 4, -1, 1)},
		{9500 * time.Millisecond, 0, five(0, 5, 4, -1, 1)},
		{9500 * time.Millisecond, 2, five(0, 5, 2, -1, 3)},
		{9500 * time.Millisecond, 5, five(1, 5, 2, 3, 3)},
		{9500 * time.Millisecond, -2, five(0, 5, 4, -1, 1)}, // refunds
		{9500 * time.Millisecond, -9, five(0, 5, 5, -1, 0)}, // never above the full allowance
	} {
		s.clock.add(step.when - passed)
		passed = step.when
		c.send(words(fmt.Sprintf("cl.throttle foo 4 1 1 %d", step.quantity)))
		t.Log(i)
		c.want(step.want)
	}
}

func TestSecondsAreRoundedAsRedisCellDoes(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0:                           0,
		time.Microsecond:            0,
		999 * time.Microsecond:      0,
		time.Millisecond:            1,
		time.Second:                 1,
		time.Second + 999_999:       1,
		time.Second + 1_000_000:     2,
		59*time.Second + 999_999999: 60,
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}

func TestMistakesAreErrors(t *testing.T) {
	c := run(t, Options{}).dial()
	long := strings.Repeat("k", stint.MaxKey+1)
	for sent, want := range map[string]string{
		"CL.THROTTLE":                              usage,
		"CL.THROTTLE k 1 1":                        usage,
		"CL.THROTTLE k 1 1 1 1 1":                  usage,
		"CL.THROTTLE k x 1 1":                      "Cell error: Couldn't parse as integer: x",
		"CL.THROTTLE k 1 1.5 1":                    "Cell error: Couldn't parse as integer: 1.5",
		"CL.THROTTLE k 1 1 9223372036854775808":    "Cell error: Couldn't parse as integer: 9223372036854775808",
		"CL.THROTTLE k 1 1 1 +":                    "Cell error: Couldn't parse as integer: +",
		"CL.THROTTLE k 1 0 1":                      zeroRate,
		"CL.THROTTLE k 1 1 0":                      zeroRate,
		"CL.THROTTLE k -1 1 1":                     "ERR max_burst: -1 is out of range (use a whole number from 0 to 999999999)",
		"CL.THROTTLE k 1000000000 1 1":             "ERR max_burst: 1000000000 is out of range (use a whole number from 0 to 999999999)",
		"CL.THROTTLE k 1 -1 1":                     "ERR count: -1 is out of range (use a whole number from 1 to 1000000000)",
		"CL.THROTTLE k 1 1 34560001":               "ERR period: 34560001 is out of range (use a whole number from 1 to 34560000)",
		"CL.THROTTLE k 1 1 -9223372036854775808":   "ERR period: -9223372036854775808 is out of range (use a whole number from 1 to 34560000)",
		"CL.THROTTLE k 1 1000000000 1":             "ERR count: 1000000000 in 1 seconds is out of range (use a rate from one in 400 days to 100000000 a second)",
		"CL.THROTTLE k 999999999 1 34560000":       "ERR max_burst: 999999999 is too great for 1 in 34560000 seconds (lower it, or raise the rate)",
		"CL.THROTTLE k 1 1 1 1000000001":           "ERR quantity: 1000000001 is out of range (use a whole number from -1000000000 to 1000000000)",
		"CL.THROTTLE k 1 1 1 -9223372036854775808": "ERR quantity: -9223372036854775808 is out of range (use a whole number from -1000000000 to 1000000000)",
		"CL.THROTTLE " + long + " 1 1 1":           "ERR key: is 4097 bytes long (use at most 4096 bytes; hash what is longer)",
		"CL.THROTTLE \xff 1 1 1":                   "ERR key: is not valid UTF-8 (encode it, for example as hexadecimal)",
		"CL.THROTTLE a\x01b 1 1 1":                 "ERR key: has the control character U+0001 at byte 1 (remove or encode it)",
	} {
		c.send(words(sent))
		c.want("-" + want + "\r\n")
	}
	c.send(encode("CL.THROTTLE", "", "1", "1", "1"))
	c.want("-ERR key: is empty (name whose use is counted, such as user:42)\r\n")
	c.send(words("CL.THROTTLE ключ +1 01 1"))
	c.want(five(0, 2, 1, -1, 1))
}

func TestChangedNumbersKeepWhatWasUsed(t *testing.T) {
	c := run(t, Options{}).dial()
	c.send(words("CL.THROTTLE k 9 10 60 10") + words("CL.THROTTLE k 19 10 60") + words("CL.THROTTLE k 4 20 60 0"))
	c.want(five(0, 10, 0, -1, 60) + five(1, 20, 0, 6, 120) + five(0, 5, 0, -1, 15))
}

func TestLimitsAreKeptBounded(t *testing.T) {
	s := run(t, Options{})
	c := s.dial()
	for burst := range maxCached + 10 {
		c.send(words(fmt.Sprintf("CL.THROTTLE k %d 1 1 0", burst)))
		c.want(five(0, burst+1, burst+1, -1, 0))
	}
	if n := s.limits.Len(); n != maxCached {
		t.Errorf("%d limits are cached", n)
	}
}

func TestDegradedAnswerHasNothingRemaining(t *testing.T) {
	d := stint.Decision{Allowed: true, Degraded: true, Limit: 16, Remaining: 16}
	if got := string(appendDecision(nil, &d)); got != five(0, 16, -1, -1, 0) {
		t.Errorf("%q", got)
	}
}

func TestFailingStoreIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		want     string
		failures int64
	}{
		"kind":    {&stint.Error{Code: stint.CodeUnavailable, Kind: "readonly", Problem: "10.0.0.1 is read-only"}, "-ERR no decision could be made: the store fails (readonly)\r\n", 2},
		"budget":  {&stint.Error{Code: stint.CodeExhausted, Kind: stint.KindCallerBudget, Problem: "no room for new keys", Mend: "use fewer"}, "-ERR no room for new keys (use fewer)\r\n", 0},
		"no kind": {&stint.Error{Code: stint.CodeTimeout, Problem: "10.0.0.1 is slow"}, "-ERR no decision could be made: the store fails (timeout)\r\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			var failures atomic.Int64
			s := runOver(t, failing{c.err}, Options{Failed: func(error) { failures.Add(1) }})
			c1 := s.dial()
			c1.send(words("CL.THROTTLE a 1 1 1") + words("PING") + words("CL.THROTTLE b 1 1 1"))
			c1.want(c.want + "+PONG\r\n" + c.want)
			if s.decided.Load() != 0 || failures.Load() != c.failures {
				t.Errorf("%d decisions and %d failures were reported", s.decided.Load(), failures.Load())
			}
		})
	}
}

func TestErrorOfOneCommandIsItsOwn(t *testing.T) {
	s := run(t, Options{})
	c := s.dial()
	c.send(words("CL.THROTTLE a 1 1 1") + words("CL.THROTTLE b 1 1 1 2000000000") + words("CL.THROTTLE a 1 1 1") + words("CL.THROTTLE a 1 1 1"))
	c.want(five(0, 2, 1, -1, 1) + "-ERR quantity: 2000000000 is out of range (use a whole number from -1000000000 to 1000000000)\r\n" + five(0, 2, 0, -1, 2) + five(1, 2, 0, 1, 2))
}
