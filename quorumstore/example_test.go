package quorumstore_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/quorumstore"
)

// A store without a guard: while no majority of the servers answers, a check is an error. In
// this example no server listens.
func ExampleNew() {
	store, err := quorumstore.New(quorumstore.Options{Servers: []string{"localhost:1", "localhost:2", "localhost:3"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	_, err = store.Take(context.Background(), stint.Claim{Key: "user:42", Limit: stint.MustParseLimit("100/m"), Cost: 1})
	fmt.Println(stint.CodeOf(err))
	// Output: unavailable
}

// The options of a URL can be changed, such as for a prefix.
func ExampleParseURL() {
	options, err := quorumstore.ParseURL("redis-quorum://:secret@redis1,redis2,redis3:6380")
	if err != nil {
		fmt.Println(err)
		return
	}
	options.Prefix = "stint:blue"
	fmt.Println(options)
	// Output: redis-quorum://:***@redis1:6379,redis2:6379,redis3:6380
}
