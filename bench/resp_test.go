package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestGoRedisAsksStint connects the other Go client of Redis to Stint's own listener,
// with default options. The test is in this module because the client is: users of Stint
// need not download it.
func TestGoRedisAsksStint(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := stintServer(t, "--http-token-file", token).addrs["resp"]
	for _, protocol := range []int{0, 2, 3} {
		client := redis.NewClient(&redis.Options{Addr: addr, Password: "s3cret", ClientName: "web", Protocol: protocol})
		defer client.Close()
		askByGoRedis(t, client, fmt.Sprintf("k%d", protocol))
	}
}

func askByGoRedis(t *testing.T, client *redis.Client, key string) {
	t.Helper()
	pipe := client.Pipeline()
	for range 3 {
		pipe.Do(t.Context(), "CL.THROTTLE", key, 1, 1, 86400)
	}
	answers, err := pipe.Exec(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"[0 2 1 -1 86400]", "[0 2 0 -1 172800]", "[1 2 0 86400 172800]"} {
		got, err := answers[i].(*redis.Cmd).Int64Slice()
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %d: %v, %v, want %s", key, i, got, err, want)
		}
	}
	if pong, err := client.Ping(t.Context()).Result(); err != nil || pong != "PONG" {
		t.Errorf("%q, %v", pong, err)
	}
	if name, err := client.ClientGetName(t.Context()).Result(); err != nil || name != "web" {
		t.Errorf("%q, %v", name, err)
	}
	err = client.Get(t.Context(), "x").Err()
	if err == nil || errors.Is(err, redis.Nil) || !strings.HasPrefix(err.Error(), "ERR unknown command 'get'") {
		t.Errorf("%v", err)
	}
}
