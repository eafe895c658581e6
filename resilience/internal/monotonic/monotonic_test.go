package monotonic

import (
	"testing"
	"testing/synctest"
	"time"
)

// Both clocks begin at 0 and follow their source. A given clock does not fall below 0.
func TestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		own, given := New(nil), New(func() time.Time { return now })
		time.Sleep(time.Minute)
		now = now.Add(time.Hour)
		if own.Now() != time.Minute || given.Now() != time.Hour {
			t.Errorf("%v, %v", own.Now(), given.Now())
		}
		now = now.Add(-2 * time.Hour)
		if given.Now() != 0 || !given.Made() || !own.Made() || (&Clock{}).Made() {
			t.Errorf("%v, %v, %v, %v", given.Now(), given.Made(), own.Made(), (&Clock{}).Made())
		}
	})
}
