package lease

import (
	"context"
	"fmt"
	"testing"

	"github.com/stintdev/stint"
)

// The buffers of a huge call are not kept. Buffers that are kept point to no claim.
func TestRoomIsKeptEmptyAndSmall(t *testing.T) {
	s, err := New(stint.NewMemory(stint.MemoryOptions{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	limit, err := stint.PerMinute(stint.MaxCost).Compile()
	if err != nil {
		t.Fatal(err)
	}
	call := func(n int) *groupCall {
		groups, claims := make([]stint.Group, n), 0
		for i := range groups {
			c := stint.Claim{Key: fmt.Sprint(i % 7), Limit: limit, Cost: 1, Policy: stint.Policy{Consistency: stint.Leased}}
			groups[i].Claims = []stint.Claim{c}
			if other := c; i%2 == 0 {
				other.Key += "'"
				groups[i].Claims = append(groups[i].Claims, other)
			}
			claims += len(groups[i].Claims)
		}
		if err := s.TakeGroups(context.Background(), groups, make([]stint.Decision, claims)); err != nil {
			t.Fatal(err)
		}
		r, _ := s.groupCalls.Get().(*groupCall) // the pool may be empty
		return r
	}
	if r := call(maxKept); r != nil {
		t.Fatal("the room of a huge call is kept")
	}
	for range 5 {
		if r := call(100); r != nil {
			checkEmpty(t, r)
			s.release(r)
		}
	}
}

func checkEmpty(t *testing.T, r *groupCall) {
	t.Helper()
	for _, was := range r.spent[:cap(r.spent)] {
		if was != (spent{}) {
			t.Error("it keeps what was spent")
		}
	}
	for _, c := range r.claims[:cap(r.claims)] {
		if c.Key != "" {
			t.Error("it keeps a claim")
		}
	}
	for _, g := range r.sub[:cap(r.sub)] {
		if g.Claims != nil {
			t.Error("it keeps a group")
		}
	}
	for _, a := range r.asks[:cap(r.asks)] {
		if a != (askedClaim{}) {
			t.Error("it keeps what was asked for")
		}
	}
	if r.errs.Err() != nil || len(r.singles) > 0 || r.groups != nil || r.out != nil {
		t.Errorf("it keeps %+v", r)
	}
}
