package redisstore

import (
	"testing"

	"github.com/redis/rueidis"
)

func TestRedirectionsAreRead(t *testing.T) {
	for _, c := range []struct{ host, port, from, want string }{
		{"10.0.0.7", "6379", "10.0.0.1:6379", "10.0.0.7:6379"},
		{"node.example.com", "6379", "10.0.0.1:6379", "node.example.com:6379"},
		{"", "6380", "10.0.0.1:6379", "10.0.0.1:6380"},                      // the server does not know its host
		{"?", "6380", "[2001:db8::1]:6379", "[2001:db8::1]:6380"},           // the form of Redis 7
		{"127.0.0.1", "7001", "10.0.0.1:7000", "10.0.0.1:7001"},             // the loopback of another machine
		{"127.0.0.1", "7001", "localhost:7000", "127.0.0.1:7001"},           // the loopback of this machine
		{"2001:db8::2", "6379", "[2001:db8::1]:6379", "[2001:db8::2]:6379"}, // without brackets
	} {
		if got := reachable(c.host, c.port, c.from); got != c.want {
			t.Errorf("%q %s named by %s: %s; want %s", c.host, c.port, c.from, got, c.want)
		}
	}
}

func TestOtherErrorsAreNoRedirections(t *testing.T) {
	if r, ok := redirected(&rueidis.RedisError{}, "a:1"); ok {
		t.Errorf("an error without a word sends to %+v", r)
	}
}
