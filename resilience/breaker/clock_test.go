package breaker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestCoarseClockStandsBetweenTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		clock := NewCoarseClock(10 * time.Millisecond)
		for range 100 {
			time.Sleep(3 * time.Millisecond)
			synctest.Wait()
			now, exact := clock.Now().Sub(began), time.Since(began)
			if now%(10*time.Millisecond) != 0 || exact-now < 0 || exact-now >= 10*time.Millisecond {
				t.Fatalf("%v at %v", now, exact)
			}
		}
		clock.Stop()
		clock.Stop()
		synctest.Wait()
		if now := clock.Now().Sub(began); now != 300*time.Millisecond {
			t.Errorf("the stopped clock returns %v", now)
		}
		time.Sleep(time.Millisecond)
		if now := clock.Now().Sub(began); now != 301*time.Millisecond {
			t.Errorf("the stopped clock returns %v", now)
		}
	})
}

func TestBreakerByACoarseClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewCoarseClock(0)
		defer clock.Stop()
		b := mustNew(t, Options{SlowRatio: 0.5, SlowAfter: 100 * time.Millisecond, WindowCalls: 4, SlowMinimumCalls: 2, OpenFor: time.Second, CoarseClock: clock})
		for _, takes := range []time.Duration{98 * time.Millisecond, 98 * time.Millisecond, 102 * time.Millisecond, 102 * time.Millisecond} {
			call, ok := b.Begin()
			if !ok {
				t.Fatal("refused")
			}
			time.Sleep(takes)
			synctest.Wait()
			call.Success()
		}
		if b.State() != Open {
			t.Fatalf("%v with %+v", b.State(), b.Counts())
		}
		time.Sleep(time.Second + time.Millisecond)
		if _, ok := b.Begin(); !ok {
			t.Error("no probe after its time")
		}
	})
}
