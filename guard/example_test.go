package guard_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
)

// unreachable stands for a store whose server is down.
type unreachable struct{}

func (unreachable) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, &stint.Error{Code: stint.CodeUnavailable, Problem: "no connection", Err: errors.New("connection refused")}
}

func (u unreachable) TakeGroups(ctx context.Context, _ []stint.Group, _ []stint.Decision) error {
	_, err := u.Take(ctx, stint.Claim{})
	return err
}

// The policy of each claim decides while the store fails.
func ExampleNew() {
	store, err := guard.New(unreachable{}, guard.Options{Nodes: 5})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limit, err := stint.ParseLimit("10/m")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, policy := range []stint.OnFailure{stint.FailOpen, stint.FailClosed, stint.FailLocal} {
		claim := stint.Claim{Key: "user:42", Limit: limit, Cost: 1, Policy: stint.Policy{OnFailure: policy}}
		for range 3 {
			d, err := store.Take(context.Background(), claim)
			fmt.Println(d.Allowed, d.Limit, d.Degraded, err)
		}
	}
	// Output:
	// true 10 true <nil>
	// true 10 true <nil>
	// true 10 true <nil>
	// false 10 true <nil>
	// false 10 true <nil>
	// false 10 true <nil>
	// true 2 true <nil>
	// true 2 true <nil>
	// false 2 true <nil>
}
