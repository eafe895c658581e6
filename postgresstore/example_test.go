package postgresstore_test

import (
	"context"
	"fmt"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/postgresstore"
)

// A store without a guard: while the server fails, a check is an error. In this example no
// server listens.
func ExampleNew() {
	options, err := postgresstore.ParseURL("postgres://stint@localhost:1/limits")
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := postgresstore.New(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	_, err = store.Take(context.Background(), stint.Claim{Key: "user:42", Limit: stint.MustParseLimit("100/m"), Cost: 1})
	fmt.Println(stint.CodeOf(err))
	// Output: unavailable
}

// The options of a URL can be changed, such as for credentials that expire.
func ExampleParseURL() {
	options, err := postgresstore.ParseURL("postgres://stint@db1,db2/limits?durable=true&schema=limits")
	if err != nil {
		fmt.Println(err)
		return
	}
	options.Credentials = func(context.Context) (username, password string, err error) { return "stint", "a token", nil }
	fmt.Println(options, options.Schema)
	// Output: postgres://stint:***@db1:5432,db2:5432/limits?durable=true limits
}
