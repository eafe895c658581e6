package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stintdev/stint/cmd/stint/internal/httpapi"
)

// TestNestedBodiesAreRefused sends bodies that nest deeper than any valid one, or that repeat a
// field or a number up to the maximum length.
func TestNestedBodiesAreRefused(t *testing.T) {
	s := documented(t, Config{})
	const deep = 500_000
	digits := strings.Repeat("9", deep)
	bombs := map[string]string{
		"arrays":          strings.Repeat("[", deep),
		"closed arrays":   strings.Repeat("[", deep/2) + strings.Repeat("]", deep/2),
		"objects":         strings.Repeat(`{"a":`, deep/5),
		"in a field":      `{"attributes":` + strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000) + "}",
		"in a limit":      `{"key":"k","limit":` + strings.Repeat("[", deep/2) + strings.Repeat("]", deep/2) + "}",
		"in a batch":      `{"items":[` + strings.Repeat(`{"items":[`, 50_000) + "]}",
		"a long number":   `{"key":"k","limit":"1/s","cost":` + digits + "}",
		"a long exponent": `{"key":"k","limit":{"limit":1e` + digits + `,"window":1}}`,
		"a rate":          `{"key":"k","limit":{"algorithm":"token_bucket","capacity":1,"refill_rate":"1e-` + digits + `"}}`,
	}
	for name, bomb := range bombs {
		for path := range charging {
			if got := s.post("http", path, bomb); got.status != http.StatusBadRequest {
				t.Errorf("%s at %s: status %d, %.200s", name, path, got.status, got.body)
			}
		}
		for _, path := range []string{"/v1/reset", "/v1/peek", "/v1/ban", "/rules/validate", "/rules/rollback"} {
			if got := s.post("admin", path, bomb); got.status != http.StatusBadRequest {
				t.Errorf("%s at %s of admin: status %d, %.200s", name, path, got.status, got.body)
			}
		}
	}
	if log := s.logs.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("%.500s", log)
	}
}

// TestWrongTokensAreShownNowhere: a mistyped token is almost the right one.
func TestWrongTokensAreShownNowhere(t *testing.T) {
	config := withFile(t)
	config.HTTPToken, config.AdminToken, config.RESP = "right-token", "right-admin", "127.0.0.1:0"
	s := run(t, config)
	for path, body := range charging {
		for _, header := range [][]string{{"Authorization", "Bearer wrong-token"}, {httpapi.TokenHeader, "wrong-token"}, {"Authorization", "Bearer right-token"}} {
			s.do(http.MethodPost, "http", path, body, header)
		}
	}
	askRESP(t, dial(t, s.Addr("resp")), "AUTH wrong-token", 1)
	askRESP(t, dial(t, s.Addr("resp")), "AUTH right-token", 1)
	for _, token := range []string{"wrong-admin", "right-admin"} {
		s.get("admin", "/rules", "Authorization", "Bearer "+token)
	}
	metrics := s.get("admin", "/metrics", "Authorization", "Bearer right-admin")
	if metrics.status != http.StatusOK || strings.Contains(metrics.body, "-token\"") || strings.Contains(metrics.body, "-admin\"") {
		t.Error("the metrics show a token")
	}
	for _, token := range []string{"wrong-token", "right-token", "wrong-admin", "right-admin"} {
		if strings.Contains(s.logs.String(), token) || strings.Contains(metrics.body, token) {
			t.Errorf("%s is shown", token)
		}
	}
}
