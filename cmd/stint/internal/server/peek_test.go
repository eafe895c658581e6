package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestPeekUsesNothing(t *testing.T) {
	s := run(t, Config{Rules: rulesFile(t, orders)})
	const take, check = `{"key":"k","limit":"3/m"}`, `{"attributes":{"api_key":"a","path":"/v1/x"}}`
	s.post("http", "/v1/take", take)
	s.post("http", "/v1/check", check)
	for range 2 {
		if got := s.post("http", "/v1/peek", take).decoded(t); got["remaining"] != 2.0 || got["allowed"] != true {
			t.Errorf("of a key: %v", got)
		}
		if got := s.post("http", "/v1/peek", check).decoded(t); got["remaining"] != 1.0 || got["rule"] != "orders" {
			t.Errorf("of the rules: %v", got)
		}
	}
}

func TestRefundUndoesATake(t *testing.T) {
	for _, path := range []string{"/v1/refund", "/v1/giveback"} {
		testRefund(t, path)
	}
}

func testRefund(t *testing.T, path string) {
	t.Helper()
	s := run(t, Config{})
	const limits = `"limits":["5/m",{"algorithm":"fixed_window","limit":4,"window":"1h"}]`
	at := s.post("http", "/v1/take", `{"key":"k",`+limits+`,"cost":3}`).decoded(t)["at_us"].(float64)
	for _, step := range []struct {
		body string
		want float64
	}{{fmt.Sprintf(`,"at_us":%d`, int64(at)), 2}, {`,"cost":2`, 4}, {"", 4}} {
		got := s.post("http", path, `{"key":"k",`+limits+step.body+`}`)
		if got.status != http.StatusOK || got.decoded(t)["remaining"] != step.want {
			t.Errorf("%s: %s, want %v remaining", step.body, got.body, step.want)
		}
	}
}

func TestBadPeeksAndRefundsSayWhatIsWrong(t *testing.T) {
	s := run(t, Config{})
	for _, c := range []struct{ path, body, want string }{
		{"/v1/peek", `{}`, "give attributes for the rules to decide, or a key and its limit"},
		{"/v1/peek", `{"key":"k","limit":"1/s","cost":0}`, `"cost": is not a known field`},
		{"/v1/peek", `{"attributes":{},"key":"k"}`, "attributes: cannot stand beside key"},
		{"/v1/peek", `{"key":"k"}`, "give either limit, or limits"},
		{"/v1/giveback", `{"key":"k","limit":"1/s","cost":0}`, "cost: 0 is out of range (use a whole number from 1 to"},
		{"/v1/refund", `{"key":"k","limit":"1/s","cost":0}`, "cost: 0 is out of range (use a whole number from 1 to"},
		{"/v1/giveback", `{"key":"k","limit":"1/s","cost":-1}`, "cost: -1 is out of range (use a whole number from 1 to"},
		{"/v1/refund", `{"key":"k","limit":"1/s","cost":-1}`, "cost: -1 is out of range (use a whole number from 1 to"},
		{"/v1/giveback", `{"key":"k","limit":"1/s","at_us":0}`, "at_us: 0 is not"},
		{"/v1/refund", `{"key":"k","limit":"1/s","at_us":0}`, "at_us: 0 is not"},
		{"/v1/giveback", `{"attributes":{}}`, `"attributes": is not a known field`},
		{"/v1/refund", `{"attributes":{}}`, `"attributes": is not a known field`},
	} {
		if got := s.post("http", c.path, c.body); got.status != http.StatusBadRequest || !strings.Contains(got.errorMessage(), c.want) {
			t.Errorf("%s %s: status %d: %s\nwant 400 with %q", c.path, c.body, got.status, got.body, c.want)
		}
	}
}
