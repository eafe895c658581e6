package layered_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/layered"
)

// The base store is one of your own. Here its server is down, so the guard decides by the
// failure policy, which is open.
func ExampleNew() {
	base := &failing{}
	base.left.Store(1)
	store, err := layered.New(context.Background(), base, layered.Options{})
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
	limiter, err := stint.NewLimiter(store, "login", limit)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := limiter.Allow(context.Background(), "user:42")
	fmt.Println(d.Allowed, d.Degraded, err)
	// Output: true true <nil>
}
