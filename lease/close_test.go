package lease_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

// The answer to a check arrives after the store has begun to close. The extra tokens of that
// answer are refunded too.
func TestCloseWaitsForWhatIsInFlight(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		s.rest(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		s.take(l, 1)
		s.take(l, 1)
		var asking sync.WaitGroup
		asking.Go(func() { s.take(l, 1) })
		s.rest(s.far.way / 2)
		asking.Go(func() { s.take(l, 100) }) // waits for the call in flight, and then asks the store too
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		asking.Wait()
		if got := s.Stats(); got.Granted == 0 || got.Held != 0 {
			t.Fatalf("%+v; want something granted, and nothing held", got)
		}
		if used := s.used(l); used != 103 {
			t.Errorf("the store counts %d; want the 103 that were admitted", used)
		}
		granted := s.Stats().Granted
		for i := range int64(5) {
			if d := s.take(l, 1); !d.Allowed || d.Remaining != 10_000-104-i {
				t.Errorf("after it is closed: %+v", d)
			}
		}
		if got := s.Stats(); got.Granted != granted || got.Keys != 0 {
			t.Errorf("after it is closed: %+v", got)
		}
	})
}

// A store that never answers blocks neither the background calls nor Close.
func TestAStoreThatHangsDoesNotHoldUpTheEnd(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		s.makeHot(l, 100*time.Millisecond)
		s.far.become(hung{})
		s.rest(50 * time.Millisecond) // held tokens must be renewed or refunded
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

// hung is a store that answers only after its caller has given up.
type hung struct{}

func (hung) Take(ctx context.Context, _ stint.Claim) (stint.Decision, error) {
	<-ctx.Done()
	return stint.Decision{}, ctx.Err()
}

func (hung) TakeGroups(ctx context.Context, _ []stint.Group, _ []stint.Decision) error {
	<-ctx.Done()
	return ctx.Err()
}

// A check waits at most 5 ms for another check's call, however long leases are. It does not wait
// at all once its caller has gone.
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

// With short lease times a part lasts longer than an idle key is kept. The part is refunded
// before the key is forgotten.
func TestAKeyIsNotForgottenWithWhatItHolds(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		node, err := lease.New(s.far, lease.Options{Time: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		s.rest(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		for range 200 {
			if d, err := node.Take(context.Background(), partitionedClaim(l, 1)); err != nil || !d.Allowed {
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

// A key is not forgotten while a call for it is in flight, however long the call takes.
func TestAKeyIsNotForgottenWhileItIsAskedAbout(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		s.newMinute()
		s.makeHot(l, 200*time.Millisecond)
		before := s.Stats()
		s.far.way = 2 * time.Second
		s.take(l, before.Held+1)
		s.rest(15 * time.Second)
		if got := s.Stats(); got.Granted == before.Granted || got.Keys != 0 {
			t.Errorf("%+v after %+v; want more granted, and the key forgotten", got, before)
		}
		if used, want := s.used(l), 200+before.Held+1; used != want {
			t.Errorf("the store counts %d; want the %d that were admitted", used, want)
		}
	})
}

// Tokens are not refunded to the substitute that answers while the store fails.
func TestADegradedAnswerTakesNothingBack(t *testing.T) {
	play(t, func(s *scene) {
		s.makeHot(s.limit(perMinute(10_000)), 100*time.Millisecond)
		before := s.Stats()
		s.far.become(degraded{})
		s.rest(time.Second)
		if got := s.Stats(); before.Held == 0 || got.Returned != before.Returned || got.Stranded-before.Stranded < uint64(before.Held) {
			t.Errorf("%+v after %+v", got, before)
		}
	})
}

// A renewal of many keys is sent in several calls of a bounded size.
func TestACallIsOfSoManyKeys(t *testing.T) {
	play(t, func(s *scene) {
		l := s.limit(perMinute(10_000))
		for range 50 {
			s.takeMany(s.Store, l, 300)
			s.rest(time.Millisecond)
		}
		s.rest(time.Second)
		_ = s.Close()
		if s.far.most != 128 {
			t.Errorf("a call of %d keys; want 128 at most", s.far.most)
		}
	})
}

// takeMany takes from the given number of keys at once.
func (s *scene) takeMany(node *lease.Store, l stint.Limit, keys int) {
	s.t.Helper()
	var asking sync.WaitGroup
	for key := range keys {
		c := leased(l, 1)
		c.Key = strconv.Itoa(key)
		asking.Go(func() { _, _ = node.Take(context.Background(), c) })
	}
	asking.Wait()
}

// A flood of keys fills only the room of leased keys. The store decides all other keys.
func TestLeasedKeysAreBounded(t *testing.T) {
	play(t, func(s *scene) {
		node, err := lease.New(s.far, lease.Options{MaxKeys: 64})
		if err != nil {
			t.Fatal(err)
		}
		l := s.limit(perMinute(10_000))
		for range 100 {
			s.takeMany(node, l, 200)
		}
		if got := node.Stats(); got.Keys == 0 || got.Keys > 64 {
			t.Errorf("%d keys are tracked; want at most 64", got.Keys)
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
}
