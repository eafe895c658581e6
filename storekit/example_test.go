package storekit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// A store in memory: it loads, decides and saves under one lock. Package storetest has an
// example of a store over a database.
type mapStore struct {
	mu     sync.Mutex
	values map[string][]byte
}

func (s *mapStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	return storekit.TakeOne(ctx, s, c)
}

func (s *mapStore) TakeGroups(_ context.Context, groups []stint.Group, out []stint.Decision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes, err := storekit.Decide(groups, s.values, time.Now(), out)
	for _, c := range changes {
		if c.Value == nil {
			delete(s.values, c.Key)
		} else {
			s.values[c.Key] = c.Value
		}
	}
	return err
}

func ExampleTakeOne() {
	store := &mapStore{values: map[string][]byte{}}
	c := stint.Claim{Key: "user:42", Limit: stint.MustParseLimit("10/m"), Cost: 1}
	d, err := storekit.TakeOne(context.Background(), store, c)
	fmt.Println(d.Allowed, d.Remaining, err)
	// Output: true 9 <nil>
}

func ExampleDecide() {
	values := map[string][]byte{} // nothing is stored yet
	groups := []stint.Group{{Claims: []stint.Claim{{Key: "user:42", Limit: stint.MustParseLimit("10/m"), Cost: 1}}}}
	out := make([]stint.Decision, 1)
	changes, err := storekit.Decide(groups, values, time.Unix(1_800_000_000, 0), out)
	fmt.Println(out[0].Allowed, out[0].Remaining, err)
	for _, c := range changes {
		fmt.Println("save", c.Key, "until", c.Expires.Unix())
	}
	// Output:
	// true 9 <nil>
	// save user:42 until 1800000006
}

func ExampleJoinValue() {
	groups := []stint.Group{{Claims: []stint.Claim{
		{Key: "user:42", Limit: stint.MustParseLimit("10/m"), Cost: 1}, {Key: "user:42", Limit: stint.MustParseLimit("100/d"), Cost: 1},
	}}}
	now := time.Unix(1_800_000_000, 0)
	changes, err := storekit.Decide(groups, nil, now, make([]stint.Decision, 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	states, _ := storekit.SplitValue(changes[0].Value)
	states = slices.DeleteFunc(states, func(s storekit.StoredState) bool { return s.Expires.Before(now.Add(time.Minute)) })
	left, _ := storekit.SplitValue(storekit.JoinValue(states))
	fmt.Println(len(left), left[0].Expires.Unix())
	// Output: 1 1800000864
}

func ExampleKeys() {
	limit := stint.MustParseLimit("10/m")
	groups := []stint.Group{{Claims: []stint.Claim{{Key: "user:42", Limit: limit, Cost: 1}, {Key: "tenant:7", Limit: limit, Cost: 1}}}}
	fmt.Println(storekit.Keys(groups))
	// Output: [user:42 tenant:7]
}

func ExampleEachGroup() {
	limit := stint.MustParseLimit("10/m")
	groups := []stint.Group{
		{Claims: []stint.Claim{{Key: "user:42", Limit: limit, Cost: 1}}},
		{Claims: []stint.Claim{{Key: "user:43", Limit: limit, Cost: 1}}},
	}
	err := storekit.EachGroup(groups, make([]stint.Decision, 2), func(group []stint.Group, _ []stint.Decision) error {
		if group[0].Claims[0].Key == "user:43" {
			return errors.New("the second database is down")
		}
		return nil // decided
	})
	errs, _ := storekit.PartErrors(err, 2)
	fmt.Println(errs)
	// Output: [<nil> the second database is down]
}

func ExamplePartErrors() {
	store := &mapStore{values: map[string][]byte{}}
	limit := stint.MustParseLimit("10/m")
	groups := []stint.Group{{Claims: []stint.Claim{{Key: "user:42", Limit: limit, Cost: 1}}}, {Claims: []stint.Claim{{Limit: limit, Cost: 1}}}}
	claims, parts := stint.Sizes(groups)
	errs, whole := storekit.PartErrors(store.TakeGroups(context.Background(), groups, make([]stint.Decision, claims)), parts)
	fmt.Println(whole)
	fmt.Println(errs[0])
	fmt.Println(errs[1])
	// Output:
	// <nil>
	// <nil>
	// key: is empty (name whose use is counted, such as user:42)
}

func ExampleClaims() {
	limit := stint.MustParseLimit("10/m")
	group := stint.Group{Claims: []stint.Claim{{Key: "user:42", Limit: limit}}, Shadows: [][]stint.Claim{{{Key: "tenant:7", Limit: limit}}}}
	for c := range storekit.Claims([]stint.Group{group}) {
		fmt.Println(c.Key)
	}
	// Output:
	// user:42
	// tenant:7
}

// prefixed is a store that gives each key a prefix.
type prefixed struct {
	stint.Store

	prefix string
}

func (p prefixed) Unwrap() stint.Store { return p.Store }

func (p prefixed) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	c.Key = p.prefix + c.Key
	return p.Store.Take(ctx, c)
}

func (p prefixed) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	groups = storekit.MapClaims(groups, func(c *stint.Claim) { c.Key = p.prefix + c.Key })
	return p.Store.TakeGroups(ctx, groups, out)
}

func ExampleMapClaims() {
	memory := stint.NewMemory(stint.MemoryOptions{})
	store := prefixed{memory, "eu/"}
	c := stint.Claim{Key: "user:42", Limit: stint.MustParseLimit("10/m"), Cost: 1}
	_ = store.TakeGroups(context.Background(), []stint.Group{{Claims: []stint.Claim{c}}}, make([]stint.Decision, 1))
	c.Key, c.Cost = "eu/user:42", 0
	d, err := memory.Take(context.Background(), c)
	fmt.Println(d.Remaining, err)
	// Output: 9 <nil>
}

func ExampleLayers() {
	store := prefixed{stint.NewMemory(stint.MemoryOptions{}), "eu/"}
	for layer := range storekit.Layers(store) {
		fmt.Println(strings.TrimPrefix(fmt.Sprintf("%T", layer), "*"))
	}
	// Output:
	// storekit_test.prefixed
	// stint.Memory
}

func ExampleMissing() {
	var store *mapStore // as a constructor returns it with an error
	fmt.Println(storekit.Missing(store))
	// Output: true
}

func ExampleScopeOf() {
	limit := stint.MustParseLimit("10/m")
	fmt.Println(storekit.ScopeOf(limit) == storekit.ScopeOf(stint.MustParseLimit("99/m")))
	fmt.Println(storekit.ScopeOf(limit) == storekit.ScopeOf(stint.MustParseLimit("10/h")))
	// Output:
	// true
	// false
}

func ExampleEnded() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(storekit.Ended(ctx, false))
	// Output: the caller's time ended before the check was sent: nothing was charged: context canceled
}

func ExampleCheckOut() {
	groups := []stint.Group{{Claims: []stint.Claim{{Key: "user:42", Limit: stint.MustParseLimit("10/m"), Cost: 1}}}}
	fmt.Println(storekit.CheckOut(groups, make([]stint.Decision, 1)))
	fmt.Println(storekit.CheckOut(groups, nil))
	// Output:
	// <nil>
	// out: has room for 0 decisions, and there are 1 claims (pass one for each claim)
}

func ExampleErrors() {
	groups := make([]stint.Group, 2)
	var errs storekit.Errors
	errs.Set(0, groups, nil)
	fmt.Println(errs.Err())
	errs.Set(1, groups, errors.New("the second database is down"))
	fmt.Println(errs.Err(), "| first:", errs.Of(0))
	// Output:
	// <nil>
	// the second database is down | first: <nil>
}
