package stint_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
)

// A caller that gets no answer repeats the group with the same Once.
func ExampleOnce() {
	store := stint.NewMemory(stint.MemoryOptions{})
	group := stint.Group{
		Claims: []stint.Claim{{Key: "user:42", Limit: stint.MustParseLimit("10/h"), Cost: 3}},
		Once:   &stint.Once{ID: "7f0c2a9e"},
	}
	for range 3 {
		out := make([]stint.Decision, len(group.Claims))
		if err := store.TakeGroups(context.Background(), []stint.Group{group}, out); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("allowed:", out[0].Allowed, "remaining:", out[0].Remaining, "repeated:", out[0].Repeated)
	}
	// Output:
	// allowed: true remaining: 7 repeated: false
	// allowed: true remaining: 7 repeated: true
	// allowed: true remaining: 7 repeated: true
}
