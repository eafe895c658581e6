package callerbudget

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// simulated is the keys of one server, written by several nodes, and each node's account of
// them.
type simulated struct {
	now      int64 // time of the server, in milliseconds
	keys     map[string]*simulatedKey
	accounts []*Account
}

type simulatedKey struct {
	class          Class
	bytes, expires int64
}

// write writes a key on behalf of a node, as redisstore/take.lua would, with a slow answer.
func (s *simulated) write(node int, name string, class Class, bytes, life, out, back int64) {
	a := s.accounts[node]
	w := Wrote{Class: class, After: life, NewBytes: bytes, SentAt: a.Now()}
	s.now += out
	k := s.keys[name]
	if k != nil && k.expires > s.now && k.class == class {
		w.Before, w.OldBytes = k.expires-s.now, k.bytes
	}
	s.keys[name] = &simulatedKey{class, bytes, s.now + life}
	s.now += back
	w.AnsweredAt = a.Now()
	a.Note(&w)
}

// held returns the bytes of the keys of a class.
func (s *simulated) held(class Class) (bytes int64) {
	for name, k := range s.keys {
		if k.expires <= s.now {
			delete(s.keys, name)
		} else if k.class == class {
			w := Wrote{}
			bytes += w.cost(k.bytes)
		}
	}
	return bytes
}

// Nodes write, extend, shorten and grow keys at random. The sum of their accounts is never
// below the bytes of the keys, and is 0 when all keys have expired.
func TestAccountsAreAnUpperBound(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		s := &simulated{keys: map[string]*simulatedKey{}, now: r.Int64N(1e6)}
		for range 1 + r.IntN(3) {
			s.accounts = append(s.accounts, NewAccount(1<<18, func() int64 { return s.now }))
		}
		for i := range 2000 {
			class := Class(1 + r.IntN(Classes))
			longest := []int64{180e3, 3 * 3600e3, 72 * 3600e3, 400 * 24 * 3600e3}[class-1]
			s.write(r.IntN(len(s.accounts)), fmt.Sprint(r.IntN(40)), class, 10+r.Int64N(3000), 1+r.Int64N(longest), r.Int64N(50), r.Int64N(50))
			s.now += r.Int64N([]int64{10, 1000, longest / 20}[r.IntN(3)] + 1)
			s.compare(t, i)
		}
		s.now += 600 * 24 * 3600e3
		for _, a := range s.accounts {
			if left := a.Bytes(); left != 0 {
				t.Fatalf("%d bytes are left when every key has expired", left)
			}
		}
	}
}

func (s *simulated) compare(t *testing.T, step int) {
	t.Helper()
	for i := range Classes {
		class := Class(i + 1)
		var said int64
		for _, a := range s.accounts {
			said += a.Level(class)
		}
		if held := s.held(class); said < held {
			t.Fatalf("step %d, class %d: the accounts have %d bytes, the keys take %d", step, class, said, held)
		}
	}
}

// A key that is written repeatedly counts once.
func TestKeyThatIsWrittenAgainCountsOnce(t *testing.T) {
	s := &simulated{keys: map[string]*simulatedKey{}}
	s.accounts = []*Account{NewAccount(1<<18, func() int64 { return s.now })}
	for range 10_000 {
		s.write(0, "k", 1, 20, 60_000, 1, 1)
		s.now += 10
	}
	if said, held := s.accounts[0].Bytes(), s.held(1); said > 2*held {
		t.Errorf("the account has %d bytes for a key that takes %d", said, held)
	}
}

func TestClassIsThatOfTheLongestLifetime(t *testing.T) {
	for _, c := range []struct {
		spec stint.Spec
		want Class
	}{
		{stint.PerMinute(5), 1},
		{stint.PerHour(5), 2},
		{stint.PerDay(5), 3},
		{stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 5, Window: time.Minute}, 1},
		{stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 5, Window: 24 * time.Hour}, 3},
		{stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 5, Window: 3 * time.Hour}, 3},
		{stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 5, Window: stint.MaxWindow}, 4},
		{stint.Spec{Algorithm: stint.FixedWindow, Limit: 5, Window: time.Minute}, 1},
		{stint.Spec{Algorithm: stint.LeakyBucket, Limit: 5, Window: time.Minute, Queue: 100}, 2},
		{stint.Spec{Algorithm: stint.TokenBucket, Limit: 1, Window: time.Minute, Capacity: 1_000_000}, 4},
		{stint.Spec{Algorithm: stint.Quota, Limit: 5, Period: "day"}, 3},
		{stint.Spec{Algorithm: stint.Quota, Limit: 5, Period: "month"}, 4},
		{stint.Spec{Algorithm: stint.Quota, Limit: 5, Period: "12h", Anchor: "2026-01-01T00:00:00Z"}, 3},
	} {
		if got := ClassOf(limitOf(t, c.spec), 0); got != 0 {
			t.Errorf("%+v of a rule is of class %d", c.spec, got)
		}
		c.spec.FromCaller = true
		if got := ClassOf(limitOf(t, c.spec), 0); got != c.want {
			t.Errorf("%+v: class %d, want %d", c.spec, got, c.want)
		}
	}
}

func limitOf(tb testing.TB, s stint.Spec) stint.Limit {
	tb.Helper()
	l, err := s.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return l
}
