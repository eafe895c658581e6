package dynamoopen_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/dynamostore"
	"github.com/stintdev/stint/dynamostore/dynamoopen"
)

// TestMain keeps the SDK from asking the machine for a role.
func TestMain(m *testing.M) {
	if err := os.Setenv("AWS_EC2_METADATA_DISABLED", "true"); err != nil {
		panic(err)
	}
	m.Run()
}

// Programs that open the same table share their counts. In this example no server listens,
// so the guard answers: allowed, and degraded.
func ExampleOpen() {
	if err := run(context.Background(), "dynamodb://limits?region=eu-west-1&endpoint=http://localhost:1"); err != nil {
		fmt.Println(err)
	}
	// Output: true true
}

func run(ctx context.Context, url string) error {
	store, err := dynamoopen.Open(ctx, url, dynamoopen.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	limit, err := stint.ParseLimit("100/m")
	if err != nil {
		return err
	}
	limiter, err := stint.NewLimiter(store, "api", limit)
	if err != nil {
		return err
	}
	d, err := limiter.Allow(ctx, "user:42")
	if err != nil {
		return err
	}
	fmt.Println(d.Allowed, d.Degraded)
	return nil
}

// Options say more than a URL, such as a configuration of the SDK of the program's own.
func ExampleNew() {
	client, err := dynamostore.ParseURL("dynamodb://limits")
	if err != nil {
		fmt.Println(err)
		return
	}
	client.Config = &aws.Config{Region: "eu-west-1"}
	client.Prefix = "blue"
	store, err := dynamoopen.New(context.Background(), client, dynamoopen.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	fmt.Println(store.Base())
	// Output: dynamodb://limits
}
