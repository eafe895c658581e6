package redisstore

import (
	"testing"

	"github.com/redis/rueidis"
)

func TestRedirectionsAreRead(t *testing.T) {
	for _, c := range []struct{ host, port, from, want string }{
		{"10.0.0.7", "6379", "10.0.0.1:6379", "10.0.0.7:6379"},
		{"node.example.com", "6379", "10.0.0.1:6379", "node.example.com:6379"},
		{"", "6380", "10.0.0.1:6379", "10.0.0.1:6380"},                      // it does not know its name
		{"?", "6380", "[2001:db8::1]:6379", "[2001:db8::1]:6380"},           // Redis 7's way to say so
		{"127.0.0.1", "7001", "10.0.0.1:7000", "10.0.0.1:7001"},             // its loopback is not ours
		{"127.0.0.1", "7001", "localhost:7000", "127.0.0.1:7001"},           // it is ours
		{"2001:db8::2", "6379", "[2001:db8::1]:6379", "[2001:db8::2]:6379"}, // without brackets
	} {
		if got := reachable(c.host, c.port, c.from); got != c.want {
			t.Errorf("%q %s named by %s: %s; want %s", c.host, c.port, c.from, got, c.want)
		}
	}
}

func TestAnswersThatAreNoRedirectionAreNone(t *testing.T) {
	if r, ok := redirected(&rueidis.RedisError{}, "a:1"); ok {
		t.Errorf("an error without a word sends to %+v", r)
	}
}
