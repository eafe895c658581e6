package redisstore

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// A key ends when its state, left alone, is as good as new, or a little later:
// by whole milliseconds, and as long as the script ran.
func TestKeysEndWithTheirState(t *testing.T) {
	s := dialScripts(t, redistest.Server(t).Addr())
	for _, keep := range []time.Duration{0, time.Hour} {
		for i, l := range everyKind(t) {
			e := encodingOf(t, Options{KeepFor: keep})
			for _, cost := range []int64{1, 3, 6, -2, 0, 20, -1} {
				b := e.newBatch()
				b.add(&stint.Group{Claims: []stint.Claim{{Key: "key" + strconv.Itoa(i), Limit: l, Cost: cost}}}, false)
				out, errs := s.decide(b)
				if errs[0] != nil {
					t.Fatal(errs[0])
				}
				reset := time.UnixMicro(out[0].At).Add(out[0].ResetAfter)
				s.endsAt(l, b.names[0], reset.Add(keep))
			}
			s.must("FLUSHALL")
		}
	}
}

func (s *scripts) endsAt(l stint.Limit, key string, reset time.Time) {
	s.Helper()
	text, err := s.do("PEXPIRETIME", key).AsInt64()
	if err != nil { // before 7.0
		left, err := s.do("PTTL", key).AsInt64()
		if err != nil {
			s.Fatal(err)
		}
		text = time.Now().UnixMilli() + left
	}
	if late := time.UnixMilli(text).Sub(reset); late < 0 || late > time.Second {
		s.Errorf("%v: the key ends %v after its state", l, late)
	}
}

// What equals no state is not kept, and forgetting removes the key.
func TestStatesAsGoodAsNewAreNotKept(t *testing.T) {
	s := dialScripts(t, redistest.Server(t).Addr())
	for _, l := range everyKind(t) {
		for _, back := range []int64{-4, stint.Forget} {
			if back != stint.Forget && l.Algorithm() == stint.LeakyBucket {
				continue // it takes nothing back
			}
			e := encodingOf(t, Options{})
			b := e.newBatch()
			b.add(&stint.Group{Claims: []stint.Claim{{Key: "key", Limit: l, Cost: 4}}}, false)
			b.add(&stint.Group{Claims: []stint.Claim{{Key: "key", Limit: l, Cost: back}}}, false)
			if _, errs := s.decide(b); errs[0] != nil || errs[1] != nil {
				t.Fatal(errs)
			}
			if value, err := s.do("GET", b.names[0]).ToString(); !rueidis.IsRedisNil(err) {
				t.Errorf("%v: %q is kept (%v)", l, value, err)
			}
		}
	}
}

// A state comes back as it was until the very end of its time, and is gone
// then: the server itself decides, by its own clock.
func TestBucketIsWholeAgainWhenItsKeyIsGone(t *testing.T) {
	s := dialScripts(t, redistest.Server(t).Addr())
	l := limitOf(t, stint.Spec{RefillRate: "333.3", Capacity: 10})
	e := encodingOf(t, Options{})
	for range 20 {
		b := e.newBatch()
		b.add(&stint.Group{Claims: []stint.Claim{{Key: "key", Limit: l, Cost: 7}}}, false)
		out, _ := s.decide(b)
		end := out[0].At + out[0].ResetAfter.Microseconds()
		for {
			peek := e.newBatch()
			peek.add(&stint.Group{Claims: []stint.Claim{{Key: "key", Limit: l}}}, false)
			seen, errs := s.decide(peek)
			if errs[0] != nil {
				t.Fatal(errs[0])
			}
			if seen[0].Remaining == 10 && peek.sizeOf(0) == 0 && seen[0].At < end {
				t.Fatalf("the key was gone %d µs too early", end-seen[0].At)
			}
			if peek.sizeOf(0) == 0 {
				break
			}
		}
	}
}

// sizeOf is how long a state was that the last reply brought.
func (b *batch) sizeOf(at int) int { return int(b.data[answerHead+at]) }
