package redisstore

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
)

// Processes of several versions share these keys and values: see "Stored state" in
// docs/compatibility.md. Values of another form need other keys.
func TestKeysAndValuesStayTheSame(t *testing.T) {
	server := redistest.Server(t)
	now := time.Date(2026, time.March, 1, 12, 0, 0, 123_000, time.UTC)
	s := open(t, Options{Addrs: []string{server.Addr()}, Clock: func() time.Time { return now }, KeepFor: time.Hour, Heartbeat: -1})
	for _, c := range []struct {
		spec       stint.Spec
		key, value string
		remaining  int64
	}{
		{stint.Spec{Limit: 100, Window: time.Minute}, "stint:{user:42}5-R9k8Y", "064bf535afd3cb05ba1d8501", 96},
		{stint.Spec{Algorithm: stint.GCRA, Limit: 10, Window: time.Second, Capacity: 6}, "stint:{user:42}OSAJhBN", "064bf535afd3cb002625a0", 3},
		{stint.Spec{Algorithm: stint.FixedWindow, Limit: 100, Window: time.Minute}, "stint:{user:42}ObebqjJ", "064bf535af100000000004", 96},
		{stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 100, Window: time.Minute}, "stint:{user:42}kMysdnc", "00000001c2bc700000000400000000", 96},
		{stint.Spec{Algorithm: stint.SlidingWindowCounter, Limit: 100, Window: time.Minute, Buckets: 4}, "stint:{user:42}M8xXYQY", "000000070af1c00000000400000000000000000000000000000000", 96},
		{stint.Spec{Algorithm: stint.SlidingWindowLog, Limit: 100, Window: time.Minute}, "stint:{user:42}rLGPAN5", "0000064bf535af107b0003064bf535afd3cb0004", 96},
		{stint.Spec{Algorithm: stint.LeakyBucket, Limit: 10, Window: time.Second, Queue: 20}, "stint:{user:42}XCTPbFg", "064bf535afd3cb003567e0", 18},
		{stint.Spec{Algorithm: stint.Quota, Limit: 1000, Period: "month"}, "stint:{user:42}e4wgtBJ", "064beb26c3600000000004", 996},
	} {
		c.spec.Rule = "orders"
		limit, err := c.spec.Compile()
		if err != nil {
			t.Fatal(err)
		}
		take := func(cost int64) (d stint.Decision) {
			t.Helper()
			redistest.Await(t, func() (err error) {
				d, err = s.Take(t.Context(), stint.Claim{Key: "user:42", Limit: limit, Cost: cost})
				return err
			})
			return d
		}
		start := now
		for _, cost := range []int64{3, 1} {
			take(cost)
			now = now.Add(50 * time.Millisecond)
		}
		key := strings.TrimSpace(server.Must("KEYS", "*"))
		value := hex.EncodeToString([]byte(server.Must("GET", key)))
		if key != c.key || value != c.value {
			t.Errorf("%v: the state is %q: %s, not %q: %s", limit, key, value, c.key, c.value)
		}
		recorded, err := hex.DecodeString(c.value)
		if err != nil {
			t.Fatal(err)
		}
		server.Must("FLUSHALL")
		server.Must("SET", c.key, string(recorded))
		if d := take(0); d.Remaining != c.remaining {
			t.Errorf("%v: %d remain of the recorded state, not %d", limit, d.Remaining, c.remaining)
		}
		server.Must("FLUSHALL")
		now = start
	}
}
