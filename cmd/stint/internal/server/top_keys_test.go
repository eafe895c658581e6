package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
)

// topOf asks a server for its top keys.
func (s *running) topOf(query string) (top topkeys.Top, body string) {
	s.t.Helper()
	got := s.get("admin", "/v1/top"+query)
	if err := json.Unmarshal([]byte(got.body), &top); err != nil || got.status != 200 {
		s.t.Fatalf("%d %v: %s", got.status, err, got.body)
	}
	return top, got.body
}

// Also without --hot-key-rate, over several surfaces, and with invented keys around the busy one.
func TestTopKeysOfAServer(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, `
rules:
  - {id: orders, match: {path: /orders}, limit: 10, window: 1h}
  - {id: shadow, match: {path: /orders}, limit: 1, window: 1h, mode: shadow}
  - {id: search, match: {path: /search}, limit: 1000, window: 1h}
`)})
	const key = "sk_live_PLANTED_9f8e7d6c5b4a"
	check := func(key, path string) string { return `{"attributes":{"api_key":"` + key + `","path":"` + path + `"}}` }
	for i := range 3 {
		batch := slices.Repeat([]string{check(key, "/orders")}, 20)
		for j := range 80 {
			batch = append(batch, check(fmt.Sprintf("invented-%d-%d", i, j), "/search"))
		}
		answersOf(t, s.post("http", "/v1/batch", batchOf(batch...)))
	}
	s.post("http", "/v1/check", check(key, "/orders"))
	s.post("http", "/v1/take", `{"key":"user:PLANTED_12345678","limit":"1/h"}`)
	s.post("http", "/v1/take", `{"key":"user:PLANTED_12345678","limit":"1/h"}`)
	s.get("http", "/v1/auth/orders?api_key="+key)

	for _, window := range []string{"1m", "1h"} {
		top, body := s.topOf("?by=denied&window=" + window)
		want := []topkeys.Item{{Rule: "orders", Key: "sk_live_…", Count: 51}, {Rule: topkeys.Takes, Key: "user:PL…", Count: 1}}
		for i := range top.Items {
			if top.Items[i].ID == 0 || len(top.Items[i].Hash) != 16 {
				t.Error("no id or no hash for an admin")
			}
			top.Items[i].ID, top.Items[i].Hash = 0, ""
		}
		if !slices.Equal(top.Items, want) || top.Floor != 0 {
			t.Errorf("%s, want %+v", body, want)
		}
		if top, body = s.topOf("?by=allowed&rule=orders&window=" + window); len(top.Items) != 2 || top.Items[0].Count != 10 || top.Items[1].Key != "127…" {
			t.Error(body)
		}
		if top, body = s.topOf("?by=allowed&rule=search&limit=1000&window=" + window); len(top.Items) != 240 {
			t.Errorf("%d items", len(top.Items))
		}
		if strings.Contains(body, key) || strings.Contains(body, "PLANTED_") {
			t.Error(body)
		}
	}
	if strings.Contains(s.logs.String(), "PLANTED_") {
		t.Error("the log shows the key")
	}
}
