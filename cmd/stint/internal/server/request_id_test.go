package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
)

// withStores runs a test over the memory store, over Redis and over a Cluster of Redis.
func withStores(t *testing.T, test func(t *testing.T, s *running)) {
	t.Helper()
	rules := rulesFile(t, "rules:\n  - {id: orders, match: {path_prefix: /orders}, by: [api_key], limit: 10, window: 60, algorithm: fixed_window}\n")
	t.Run("memory", func(t *testing.T) { test(t, run(t, Config{Rules: rules})) })
	for name, options := range map[string]redisstore.Options{
		"Redis":   {Addrs: []string{redistest.Server(t).Addr()}},
		"Cluster": {Topology: redisstore.Cluster, Addrs: redistest.Cluster(t, 3, 0).Addrs()},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock() // which stands still
			options.Clock, options.KeepFor = clock.time, time.Hour
			store, err := redisstore.New(options)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			s := run(t, Config{Rules: rules, Store: store})
			s.clock = clock
			test(t, s)
		})
	}
}

const hourly = `{"algorithm":"fixed_window","limit":10,"window":"1h"}`

// left returns what remains of a key of /v1/take under the hourly limit.
func (r *running) left(key string) (n int) {
	r.t.Helper()
	got := r.post("http", "/v1/peek", `{"key":"`+key+`","limit":`+hourly+`}`)
	_, rest, _ := strings.Cut(got.body, `"remaining":`)
	if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
		r.t.Fatal(got.body)
	}
	return n
}

func TestARequestIDIsChargedOnce(t *testing.T) {
	withStores(t, func(t *testing.T, s *running) {
		for name, c := range map[string]struct{ path, body, other string }{
			"check": {"/v1/check", `{"attributes":{"api_key":"c","path":"/orders"},"request_id":"check"}`,
				`{"attributes":{"api_key":"c","path":"/orders/2"},"request_id":"check"}`},
			"take":  {"/v1/take", `{"key":"t","limit":` + hourly + `,"request_id":"take"}`, `{"key":"t","limit":` + hourly + `,"cost":2,"request_id":"take"}`},
			"group": {"/v1/take", `{"key":"g","limits":["5/s",` + hourly + `],"request_id":"group"}`, `{"key":"other","limits":["5/s",` + hourly + `],"request_id":"group"}`},
			"any":   {"/v1/take", `{"key":"a","limits":["5/s",` + hourly + `],"combine":"any","request_id":"any"}`, `{"key":"a","limits":["5/s",` + hourly + `],"request_id":"any"}`},
		} {
			first, again := s.post("http", c.path, c.body), s.post("http", c.path, c.body)
			if first.status != http.StatusOK || !strings.HasPrefix(first.body, `{"allowed":true`) || again.status != http.StatusOK || again.body != first.body {
				t.Errorf("%s: %d %sand then %d %s", name, first.status, first.body, again.status, again.body)
			}
			if got := s.post("http", c.path, c.other); got.status != http.StatusConflict || !strings.Contains(got.body, `"code":"REQUEST_ID_REUSED"`) {
				t.Errorf("%s with another body: %d %s", name, got.status, got.body)
			}
		}
		for _, key := range []string{"t", "g", "a"} {
			if n := s.left(key); n != 9 {
				t.Errorf("%s: %d of 10 are left after one charge", key, n)
			}
		}
		if got := s.post("http", "/v1/peek", `{"attributes":{"api_key":"c","path":"/orders"}}`); !strings.Contains(got.body, `"remaining":9`) {
			t.Errorf("the rule's key: %s", got.body)
		}
	})
}

func TestARepeatedRefundRefundsOnce(t *testing.T) {
	withStores(t, func(t *testing.T, s *running) {
		s.post("http", "/v1/take", `{"key":"k","limit":`+hourly+`,"cost":6}`)
		for range 3 {
			if got := s.post("http", "/v1/refund", `{"key":"k","limit":`+hourly+`,"cost":2,"request_id":"back"}`); got.status != http.StatusOK {
				t.Fatal(got.body)
			}
		}
		if n := s.left("k"); n != 6 {
			t.Errorf("%d of 10 are left after 6 and −2", n)
		}
	})
}

func TestDenialsOfARequestIDAreDecidedAfresh(t *testing.T) {
	withStores(t, func(t *testing.T, s *running) {
		body := `{"key":"k","limit":` + hourly + `,"cost":10,"request_id":"all"}`
		s.post("http", "/v1/take", `{"key":"k","limit":`+hourly+`}`)
		if got := s.post("http", "/v1/take", body); !strings.HasPrefix(got.body, `{"allowed":false`) {
			t.Fatal(got.body)
		}
		s.clock.add(time.Hour)
		first := s.post("http", "/v1/take", body)
		if again := s.post("http", "/v1/take", body); !strings.HasPrefix(first.body, `{"allowed":true`) || again.body != first.body {
			t.Errorf("%sand then %s", first.body, again.body)
		}
		s.clock.add(stint.RememberFor)
		if got := s.post("http", "/v1/take", body); !strings.HasPrefix(got.body, `{"allowed":false`) {
			t.Errorf("after a minute: %s", got.body)
		}
	})
}

func TestIdempotencyKeyNamesTheWholePOST(t *testing.T) {
	withStores(t, func(t *testing.T, s *running) {
		take := `{"key":"k","limit":` + hourly + `}`
		batch := batchOf(`{"attributes":{"api_key":"b","path":"/orders"}}`, take, take, `{"key":"k","limti":1}`)
		for _, c := range []struct{ path, body, key, same, other string }{
			{"/v1/take", take, `"take-1"`, `take-1`, `{"key":"k","limit":` + hourly + `,"cost":2}`},
			{"/v1/check", `{"attributes":{"api_key":"b","path":"/orders"}}`, `check"1`, ` "check\"1" `, `{"attributes":{"api_key":"b","path":"/orders"},"cost":2}`},
			{"/v1/batch", batch, `batch-1`, `"batch-1"`, batchOf(take, take, take)},
		} {
			first := s.do("POST", "http", c.path, c.body, []string{"Idempotency-Key", c.key})
			again := s.do("POST", "http", c.path, c.body, []string{"Idempotency-Key", c.same})
			if first.status != http.StatusOK || again.status != http.StatusOK || again.body != first.body {
				t.Errorf("%s: %d %sand then %d %s", c.path, first.status, first.body, again.status, again.body)
			}
			if got := s.do("POST", "http", c.path, c.other, []string{"Idempotency-Key", c.key}); got.status != http.StatusConflict {
				t.Errorf("%s with another body: %d %s", c.path, got.status, got.body)
			}
		}
		if n := s.left("k"); n != 7 {
			t.Errorf("%d of 10 are left after a take and a batch of two", n)
		}
	})
}

func TestItemsOfABatchHaveIDsOfTheirOwn(t *testing.T) {
	withStores(t, func(t *testing.T, s *running) {
		var items []string
		for i := range 100 {
			items = append(items, fmt.Sprintf(`{"key":"k%d","limit":%s,"request_id":"item-%d"}`, i%2, hourly, i%10))
		}
		first := s.post("http", "/v1/batch", batchOf(items...))
		if again := s.post("http", "/v1/batch", batchOf(items...)); first.status != http.StatusOK || again.body != first.body {
			t.Errorf("%sand then %s", first.body, again.body)
		}
		if a, b := s.left("k0"), s.left("k1"); a != 5 || b != 5 {
			t.Errorf("%d and %d of 10 are left after five ids each", a, b)
		}
		mixed := answersOf(t, s.post("http", "/v1/batch", batchOf(items[0], `{"key":"k0","limit":`+hourly+`,"cost":2,"request_id":"item-1"}`)))
		if !strings.HasPrefix(mixed[0], `{"allowed":true`) || !strings.Contains(mixed[1], "REQUEST_ID_REUSED") {
			t.Errorf("%v", mixed)
		}
	})
}

func TestWrongRequestIDsAreRefused(t *testing.T) {
	s := run(t, Config{})
	take := `{"key":"k","limit":` + hourly + `}`
	with := func(id string) string { return `{"key":"k","limit":` + hourly + `,"request_id":` + id + `}` }
	for body, want := range map[string]string{
		with(`""`): "has 0 characters", with(`"` + strings.Repeat("x", 129) + `"`): "has 129 characters", with(`"a b"`): "visible ASCII",
		with(`"ä"`): "visible ASCII", with(`"\u0000"`): "visible ASCII", with("7"): "must be a string",
	} {
		if got := s.post("http", "/v1/take", body); got.status != http.StatusBadRequest || !strings.HasPrefix(got.errorMessage(), "request_id: ") || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	for _, header := range [][]string{{""}, {`""`}, {`"a`}, {`"a"b`}, {`"a\b"`}, {"a b"}, {"ä"}, {strings.Repeat("x", 129)}, {"a", "a"}} {
		var lines []string
		for _, value := range header {
			lines = append(lines, "Idempotency-Key", value)
		}
		if got := s.do("POST", "http", "/v1/take", take, lines); got.status != http.StatusBadRequest || !strings.HasPrefix(got.errorMessage(), "Idempotency-Key: ") {
			t.Errorf("%q: %d %s", header, got.status, got.body)
		}
	}
	if got := s.do("POST", "http", "/v1/take", with(`"a"`), []string{"Idempotency-Key", "b"}); got.status != http.StatusBadRequest {
		t.Errorf("two names: %d %s", got.status, got.body)
	}
	if got := s.do("POST", "http", "/v1/take", with(`"a"`), []string{"Idempotency-Key", "a"}); got.status != http.StatusOK {
		t.Errorf("one name twice: %d %s", got.status, got.body)
	}
	if got := s.post("http", "/v1/peek", `{"request_id":"a","key":"k","limit":`+hourly+`}`); got.status != http.StatusOK || !strings.Contains(got.body, `"remaining":9`) {
		t.Errorf("a peek ignores the id, also that of a take: %d %s", got.status, got.body)
	}
	if got := s.post("http", "/v1/peek", `{"attributes":{"api_key":"c"},"request_id":"a"}`); got.status != http.StatusOK {
		t.Errorf("a peek at the rules: %d %s", got.status, got.body)
	}
	if n := s.left("k"); n != 9 {
		t.Errorf("%d of 10 are left", n)
	}
}

// A client must not escape its limit by one key in all its requests.
func TestIDsInLimitedRequestsAreIgnored(t *testing.T) {
	rules := rulesFile(t, "rules:\n  - {id: all, by: [api_key], limit: 2, window: 1h}\n")
	s := run(t, Config{Rules: rules, Gateway: "127.0.0.1:0", Upstreams: echo(t)})
	for name, ask := range map[string]func() int{
		"gateway": func() int {
			return s.do("POST", "gateway", "/v1/take?request_id=a", `{"request_id":"a"}`, []string{"X-API-Key", "g", "Idempotency-Key", "a"}).status
		},
		"forward auth": func() int {
			return s.do("POST", "http", "/v1/auth/orders?request_id=a", "", []string{"X-API-Key", "f", "Idempotency-Key", "a"}).status
		},
	} {
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
			if got := ask(); got != want {
				t.Errorf("%s: request %d got %d, want %d", name, i, got, want)
			}
		}
	}
}

func TestRequestIDsBeyondTheBudgetAreRefused(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{OnceBytes: 3 * 304})
	s := run(t, Config{Store: store, Stats: store.Stats})
	for i := range 5 {
		got := s.post("http", "/v1/take", fmt.Sprintf(`{"key":"k","limit":%s,"request_id":"%d"}`, hourly, i))
		if i < 3 && got.status != http.StatusOK {
			t.Errorf("%d: %d %s", i, got.status, got.body)
		}
		if i >= 3 && (got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "REQUEST_IDS_EXHAUSTED") || got.header.Get("Retry-After") == "") {
			t.Errorf("%d: %d %s, %v", i, got.status, got.body, got.header)
		}
	}
	if got := s.post("http", "/v1/take", `{"key":"k","limit":`+hourly+`}`); got.status != http.StatusOK {
		t.Errorf("without an id: %d %s", got.status, got.body)
	}
}

// The script has run, and its reply is lost with the connection.
func TestARepeatAfterALostAnswer(t *testing.T) {
	server := redistest.Server(t)
	proxy := redistest.Proxy(t, server.Addr())
	store, err := redisstore.New(redisstore.Options{Addrs: []string{proxy.Addr()}, Heartbeat: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	s := run(t, Config{Store: store})
	s.post("http", "/v1/take", `{"key":"warm","limit":`+hourly+`}`)
	body := `{"key":"k","limit":` + hourly + `,"request_id":"lost"}`
	proxy.DropReplies()
	lost := make(chan answer)
	go func() { lost <- s.post("http", "/v1/take", body) }()
	awaitTrue(t, "the script runs", func() bool { return server.Must("KEYS", "*!*") != "" })
	proxy.Cut()
	if got := <-lost; got.status != http.StatusServiceUnavailable {
		t.Errorf("the lost answer: %d %s", got.status, got.body)
	}
	proxy.Heal()
	for range 3 {
		if got := s.post("http", "/v1/take", body); got.status != http.StatusOK || !strings.Contains(got.body, `"remaining":9`) {
			t.Errorf("a repeat: %d %s", got.status, got.body)
		}
	}
	if n := s.left("k"); n != 9 {
		t.Errorf("%d of 10 are left", n)
	}
}
