package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/rueidis"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/redisstore"
)

// A store without a guard returns an error while its servers fail. In this example no server
// listens. Package redisopen puts a guard around the store.
func ExampleNew() {
	store, err := redisstore.New(redisstore.Options{Addrs: []string{"localhost:1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	limit, err := stint.ParseLimit("100/m")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.Take(context.Background(), stint.Claim{Key: "user:42", Limit: limit, Cost: 1})
	var coded *stint.Error
	fmt.Println(errors.As(err, &coded) && coded.Code == stint.CodeUnavailable)
	// Output: true
}

func ExampleParseURL() {
	o, err := redisstore.ParseURL("rediss-sentinel://:s3cret@a,b:26380/orders?timeout=250ms")
	fmt.Println(o, o.Timeout, err)
	_, err = redisstore.ParseURL("redis://:s3cret@a,b")
	fmt.Println(err)
	// Output:
	// rediss-sentinel://:***@a:26379,b:26380/orders 250ms <nil>
	// store URL: several addresses (use redis-cluster:// or redis-sentinel://)
}

// A token of a cloud's IAM is the password of each new connection. The source keeps the token
// until it expires.
func ExampleOptions_credentials() {
	fetch := func(context.Context) (string, error) { return "a token", nil }
	o, err := redisstore.ParseURL("rediss-cluster://cache.example.com")
	if err != nil {
		fmt.Println(err)
		return
	}
	o.Credentials = func(ctx context.Context) (username, password string, err error) {
		token, err := fetch(ctx)
		return "shop", token, err
	}
	fmt.Println(o)
	// Output: rediss-cluster://:***@cache.example.com:6379
}

// The server listens on a Unix socket. The address is then only a name for logs and errors.
func ExampleOptions_dial() {
	o := redisstore.Options{
		Addrs: []string{"redis:6379"},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", "/run/redis.sock")
		},
	}
	fmt.Println(o)
	// Output: redis://redis:6379
}

// The store shares a client with the rest of the program, which closes it after the store.
// In this example no server listens, so there is no client.
func ExampleOptions_client() {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:1"}})
	if err != nil {
		fmt.Println("no server listens")
		return
	}
	defer client.Close()
	store, err := redisstore.New(redisstore.Options{Client: client, Prefix: "shop"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	// Output: no server listens
}
