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
	// build makes one that allows a burst of limit to every key, and then
	// limit in each time of per.
	build func(limit int64, per time.Duration) (take, error)
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

// allowance is what every key gets in a race: so much that nobody is denied,
// at a rate that is not a whole number of anything.
const (
	allowance    = 1_000_000_000
	allowancePer = time.Hour
)

// checkLimits refuses a contestant that does not limit, or limits too early:
// of more than limit requests it admits limit, for each of two keys.
func (c contestant) checkLimits() error {
	const limit = 100
	t, err := c.build(limit, time.Hour)
	if err != nil || c.name == bareName {
		return err
	}
	for _, key := range []string{"first", "second"} {
		admitted := 0
		for range 2 * limit {
			if t(key) {
				admitted++
			}
		}
		if admitted != limit {
			return fmt.Errorf("%s admits %d of a limit of %d", c.name, admitted, limit)
		}
	}
	return nil
}
