package redisstore

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// TestMemoryOfAKey measures the memory of token buckets of 13-character identities on a
// server. 125,000 keys suffice for the result of a million: the server's tables double,
// so they are equally full.
func TestMemoryOfAKey(t *testing.T) {
	const keys = 125_000
	server := redistest.Server(t)
	s := dialScripts(t, server.Addr())
	e := encodingOf(t, Options{})
	l := limitOf(t, stint.Spec{RefillRate: "1.67", Capacity: 1000})
	before := usedMemory(t, server)
	for _, cost := range []int64{900, 1} { // the second cost leaves fractions
		for first := 0; first < keys; first += 500 {
			b := e.newBatch()
			for i := range 500 {
				b.add([]stint.Claim{{Key: fmt.Sprintf("user:%08d", first+i), Limit: l, Cost: cost}}, 0)
			}
			s.run(b.invocation())
		}
	}
	if size := server.Must("DBSIZE"); size != strconv.Itoa(keys) {
		t.Fatalf("%s keys, want %d", size, keys)
	}
	perKey := float64(usedMemory(t, server)-before) / keys
	t.Logf("%.1f bytes a key", perKey)
	if perKey > 165 {
		t.Errorf("a token bucket takes %.1f bytes; want at most 165", perKey)
	}
}

func usedMemory(t *testing.T, server *redistest.Process) int {
	t.Helper()
	text, err := server.Info("used_memory")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
