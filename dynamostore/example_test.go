package dynamostore_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/dynamostore"
)

// A store without a guard: while DynamoDB fails, a check is an error. In this example no
// server listens. Credentials come from the environment by default.
func ExampleNew() {
	options, err := dynamostore.ParseURL("dynamodb://limits?region=eu-west-1&endpoint=http://localhost:1")
	if err != nil {
		fmt.Println(err)
		return
	}
	options.Config = &aws.Config{Credentials: aws.AnonymousCredentials{}}
	store, err := dynamostore.New(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	_, err = store.Take(context.Background(), stint.Claim{Key: "user:42", Limit: stint.MustParseLimit("100/m"), Cost: 1})
	fmt.Println(stint.CodeOf(err))
	// Output: unavailable
}

// The options of a URL can be changed, such as for a prefix of the keys.
func ExampleParseURL() {
	options, err := dynamostore.ParseURL("dynamodb://limits?region=eu-west-1&transactions=false")
	if err != nil {
		fmt.Println(err)
		return
	}
	options.Prefix = "blue"
	fmt.Println(options, options.NoTransactions)
	// Output: dynamodb://limits?region=eu-west-1&transactions=false true
}
