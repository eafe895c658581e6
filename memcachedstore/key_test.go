package memcachedstore

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestKeysSuitMemcached(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{
		"=user:42", "=user 42", "=user\n42", "=user\x0042", "=\x7f", "=", "~user:42", "=Zürich", "=\xff\xfe", "=" + strings.Repeat("k", 199),
		"=" + strings.Repeat("k", 300), "!user", "@user",
	} {
		for _, prefix := range []string{"stint", strings.Repeat("p", maxPrefix)} {
			for lock, got := range [][]byte{appendKey(nil, prefix, key), appendLockKey(nil, prefix, key)} {
				if len(got) > maxKey || !clean(string(got)) || !bytes.HasPrefix(got, []byte(prefix+":")) {
					t.Errorf("%q becomes %q", key, got)
				}
				name := fmt.Sprintf("%q lock %d prefix %d", key, lock, len(prefix))
				if other, twice := seen[string(got)]; twice {
					t.Errorf("%s and %s are both %q", name, other, got)
				}
				seen[string(got)] = name
			}
		}
	}
}

// The hash of keys must stay the same in all versions: nodes of two versions share the
// servers.
func TestServerOfAKeyStaysTheSame(t *testing.T) {
	seeds := []uint64{seedOf("10.0.0.1:11211"), seedOf("10.0.0.2:11211"), seedOf("10.0.0.3:11211")}
	got := ""
	for i := range 20 {
		got += fmt.Sprint(shardOf(seeds, fmt.Sprintf("=user:%d", i)))
	}
	if want := "02120002220100110212"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestServerThatLeavesMovesItsKeysAlone(t *testing.T) {
	const keys = 30_000
	var seeds []uint64
	for i := range 6 {
		seeds = append(seeds, seedOf(fmt.Sprintf("10.0.0.%d:11211", i)))
	}
	counts := make([]int, len(seeds))
	for i := range keys {
		key := fmt.Sprintf("=user:%d", i)
		before, after := shardOf(seeds, key), shardOf(seeds[:5], key)
		if counts[before]++; before != 5 && after != before {
			t.Fatalf("%s moves from %d to %d", key, before, after)
		}
	}
	for i, n := range counts {
		if fair := keys / len(seeds); n < fair*9/10 || n > fair*11/10 {
			t.Errorf("server %d has %d keys of %d", i, n, keys)
		}
	}
}

func TestExpiry(t *testing.T) {
	const day = 24 * time.Hour
	const now = 1_800_000_000
	for _, c := range []struct {
		ttl  time.Duration
		now  int64
		want int64
	}{
		{0, now, 2},
		{time.Millisecond, now, 2},
		{1500 * time.Millisecond, now, 3},
		{30*day - 2*time.Second, now, 30 * 86400}, // the longest time from now
		{30*day - time.Second, now, now + 30*86400 + 1},
		{31 * day, now, now + 31*86400 + 2},
		{31 * day, math.MaxInt32 - 86400, 0}, // does not fit
		{100 * 365 * day, now, 0},
	} {
		if got := expiryOf(c.ttl, c.now); got != c.want {
			t.Errorf("%v at %d: %d, want %d", c.ttl, c.now, got, c.want)
		}
	}
}
