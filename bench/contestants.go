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
	// keepsKeys reports whether it holds on to the strings it is given, so
	// that their bytes are part of what a key costs.
	keepsKeys bool
	build     func(allowance) (take, error)
}

// The names that results are read by.
const (
	bareName      = "fetch and hash alone"
	stintName     = "stint"
	counterName   = "stint, processor clock"
	referenceName = "go-limiter"
)

// contestants is everyone, the floor first, then Stint, then the best rival.
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

// named returns the contestant of that name.
func named(name string) (contestant, error) {
	for _, c := range contestants() {
		if c.name == name {
			return c, nil
		}
	}
	return contestant{}, fmt.Errorf("no contestant is called %q", name)
}

// allowance is what every key gets: burst at once, and then one more each
// time of every. Limiters that count in windows get burst in the time that a
// bucket takes to fill.
type allowance struct {
	burst int64
	every time.Duration
}

func (a allowance) window() time.Duration { return time.Duration(a.burst) * a.every }

// ample is so much that nobody is ever denied, and so slow to come back that
// no key is idle, and may be forgotten, before a race is over.
func ample() allowance { return allowance{50_000_000, time.Minute} }

// heldLong is what one request holds for an hour.
func heldLong() allowance { return allowance{1000, time.Hour} }

// checkLimits refuses a contestant that does not limit, or limits too early:
// of more than limit requests it admits limit, for each of two keys.
func (c contestant) checkLimits() error {
	t, err := c.build(checked())
	if err != nil || c.name == bareName {
		return err
	}
	return checkTake(c.name, t)
}

// checked is the allowance by which contestants are checked.
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
