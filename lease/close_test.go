package lease_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

// The answer to a check arrives after the store has begun to close: what it
// brings beside goes back too.
func TestCloseWaitsForWhatIsInFlight(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		s.rest(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		s.take(l, 1)
		s.take(l, 1)
		var asking sync.WaitGroup
		asking.Go(func() { s.take(l, 1) })
		s.rest(s.far.way / 2)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		asking.Wait()
		if got := s.Stats(); got.Granted == 0 || got.Held != 0 {
			t.Fatalf("%+v; want something granted, and nothing held", got)
		}
		if used := s.used(l); used != 3 {
			t.Errorf("the store counts %d; want the 3 that were admitted", used)
		}
		if d := s.take(l, 1); !d.Allowed || d.Remaining != 10_000-4 {
			t.Errorf("after it is closed: %+v", d)
		}
	})
}

// A store that never answers holds up neither the background nor the end.
func TestAStoreThatHangsDoesNotHoldUpTheEnd(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		s.warm(l, 100*time.Millisecond)
		s.far.Store = hung{}
		s.rest(50 * time.Millisecond) // what is held is to be renewed, or goes back
		began := time.Now()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		if got := s.Stats(); got.Stranded == 0 {
			t.Errorf("%+v; want that it was held", got)
		}
	})
}

// hung is a store that answers when its caller has gone.
type hung struct{}

func (hung) Take(ctx context.Context, _ stint.Claim) (stint.Decision, error) {
	<-ctx.Done()
	return stint.Decision{}, ctx.Err()
}

func (hung) TakeGroups(ctx context.Context, _ []stint.Group, _ []stint.Decision) error {
	<-ctx.Done()
	return ctx.Err()
}

// A check waits for another's call no longer than 5 ms, however long leases are,
// and not at all for a caller that has gone.
func TestAChecksPatience(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(100_000))
		node, err := lease.New(s.far, lease.Options{Time: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := node.Take(context.Background(), leased(l, 1)); err != nil {
				t.Fatal(err)
			}
		}
		s.far.way = time.Second
		held := node.Stats().Held
		var asking sync.WaitGroup
		expect := func(ctx context.Context, patience time.Duration) {
			asking.Go(func() {
				began := time.Now()
				if _, _ = node.Take(ctx, leased(l, held+1)); time.Since(began) != patience+2*s.far.way {
					t.Errorf("it took %v; want %v for another's call and %v for its own", time.Since(began), patience, 2*s.far.way)
				}
			})
		}
		expect(context.Background(), 0)
		s.rest(time.Millisecond)
		gone, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		expect(context.Background(), 5*time.Millisecond)
		expect(gone, time.Millisecond)
		asking.Wait()
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A part lasts longer than a key is remembered under short lease times: it goes
// back first.
func TestAKeyIsNotForgottenWithWhatItHolds(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		node, err := lease.New(s.far, lease.Options{Time: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		s.rest(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		for range 200 {
			if d, err := node.Take(context.Background(), parted(l, 1)); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			s.rest(time.Millisecond)
		}
		s.rest(10 * time.Second)
		if got := node.Stats(); got.Keys != 0 || got.Granted == 0 {
			t.Fatalf("%+v; want that it was held, and is forgotten", got)
		}
		if used := s.used(l); used != 200 {
			t.Errorf("the store counts %d; want the 200 that were admitted", used)
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
}
