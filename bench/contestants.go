package main

import (
	"fmt"
	"time"
)

// take charges one unit to a key and reports whether it was admitted. It is
// safe for use by many goroutines at once.
type take func(key string) bool

// contestant is a rate limiter in the race.
type contestant struct {
	name string
	// keepsKeys is true if it keeps the strings that it is given, so that their bytes are
	// part of the cost of a key.
	keepsKeys bool
	build     func(allowance) (take, error)
}

// The names of contestants in results.
const (
	bareName      = "fetch and hash alone"
	stintName     = "stint"
	counterName   = "stint, processor clock"
	referenceName = "go-limiter"
)

// contestants returns all contestants: the floor first, then Stint, then the best rival.
func contestants() []contestant {
	return []contestant{
		{bareName, false, newBare},
		{stintName, false, newStint},
		{counterName, false, newCounterStint},
		{referenceName, true, newGoLimiter},
		{"x/time/rate, sharded map", true, newXTimeRate},
		{"throttled", true, newThrottled},
		{"ulule/limiter", false, newUlule},
		{"httprate", false, newHTTPRate},
	}
}

// allowance is the limit of every key: burst at once, and then one more every so often.
// Limiters that count in windows get burst in the time in which a bucket fills.
type allowance struct {
	burst int64
	every time.Duration
}

func (a allowance) window() time.Duration { return time.Duration(a.burst) * a.every }

// ample returns an allowance that never denies. It refills so slowly that no key becomes
// idle, and could be dropped, before a race is over.
func ample() allowance { return allowance{50_000_000, time.Minute} }

// heldLong returns an allowance under which one request is remembered for an hour.
func heldLong() allowance { return allowance{1000, time.Hour} }

// checkLimits returns an error for a contestant that does not limit correctly: for each
// of two keys it must admit exactly the limit.
func (c contestant) checkLimits() error {
	t, err := c.build(checked())
	if err != nil || c.name == bareName {
		return err
	}
	return checkTake(c.name, t)
}

// checked returns the allowance under which checkLimits tests a limiter.
func checked() allowance { return allowance{100, time.Hour} }

func checkTake(name string, t take) error {
	limit := int(checked().burst)
	for _, key := range []string{"first", "second"} {
		admitted := 0
		for range 2 * limit {
			if t(key) {
				admitted++
			}
		}
		if admitted != limit {
			return fmt.Errorf("%s admits %d of a limit of %d", name, admitted, limit)
		}
	}
	return nil
}
