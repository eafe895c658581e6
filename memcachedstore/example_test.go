package memcachedstore_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/memcachedstore"
)

// A store without a guard: while a server fails, a check of its keys is an error. In this
// example no server listens.
func ExampleNew() {
	store, err := memcachedstore.New(memcachedstore.Options{Servers: []string{"localhost:1"}})
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
	options, err := memcachedstore.ParseURL("memcached://cache1,cache2:11212")
	if err != nil {
		fmt.Println(err)
		return
	}
	options.Prefix = "stint:blue"
	fmt.Println(options)
	// Output: memcached://cache1:11211,cache2:11212
}
