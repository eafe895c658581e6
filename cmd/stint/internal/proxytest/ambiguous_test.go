//go:build linux

package proxytest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestSpellingsDoNotEscapeProxies exhausts the limit of a key, and then repeats the
// request with every spelling of the key and the path that servers may accept.
func TestSpellingsDoNotEscapeProxies(t *testing.T) {
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			s := newSite(t, p, patient)
			c := s.client(t)
			for range 2 {
				got := c.get("/key", "Authorization", "Bearer used")
				got.received(t)
			}
			for _, path := range []string{"/key;a=1", "/;x/key", "/x/..;/key", "/x%2F..%2Fkey", "/%2Fkey", "/%6bey%2F", "/key%3Ba", "/..;/key/..;/../key"} {
				if p.name == "traefik" && path == "/..;/key/..;/../key" {
					continue // the proxy forwards "/..;/key/key", and asks about that path
				}
				_, _, answer := c.raw(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: app.example\r\nConnection: close\r\nAuthorization: Bearer used\r\n\r\n", path))
				body, _ := io.ReadAll(answer.Body)
				// Traefik resolves the last dot segment for Stint and the application.
				if answer.StatusCode < http.StatusBadRequest && !strings.Contains(string(body), `"URI":"/..;/key/key"`) {
					t.Errorf("%s passes: %d %s", path, answer.StatusCode, body)
				}
			}
			for name, lines := range map[string]string{
				"a tab":             "Authorization: Bearer\tused\r\n",
				"another case":      "authorization: bEARER  used\r\n",
				"two lines":         "Authorization: Bearer decoy\r\nAuthorization: Bearer used\r\n",
				"two lines, turned": "Authorization: Bearer used\r\nAuthorization: Bearer decoy\r\n",
				"two tokens":        "Authorization: Bearer used decoy\r\n",
				"joined":            "Authorization: Bearer used, Bearer decoy\r\n",
				"named as a hop's":  "Authorization: Bearer used\r\nConnection: X-Original-URI, X-Forwarded-For\r\n",
			} {
				_, _, answer := c.raw("GET /key HTTP/1.1\r\nHost: app.example\r\n" + lines + "\r\n")
				if answer.StatusCode < http.StatusBadRequest {
					t.Errorf("%s passes: %d", name, answer.StatusCode)
				}
			}
			for range 2 {
				got := c.get("/key", "X-API-Key", "worn")
				got.received(t)
			}
			for name, lines := range map[string]string{
				"a decoy before":     "X-API-Key: decoy\r\nX-API-Key: worn\r\n",
				"a decoy behind":     "X-API-Key: worn\r\nX-API-Key: decoy\r\n",
				"an empty one":       "X-API-Key: worn\r\nX-API-Key:\r\n",
				"joined":             "X-API-Key: worn,decoy\r\n",
				"underscores before": "X_API_Key: decoy\r\nX-API-Key: worn\r\n",
				"an underscore":      "X-API-Key: worn\r\nX-API_Key: decoy\r\n",
			} {
				_, _, answer := c.raw("GET /key HTTP/1.1\r\nHost: app.example\r\n" + lines + "\r\n")
				if answer.StatusCode < http.StatusBadRequest {
					t.Errorf("X-API-Key, %s passes: %d", name, answer.StatusCode)
				}
			}
			if got := c.get("/key", "Authorization", "Bearer other"); got.status != http.StatusOK {
				t.Errorf("another key: %s", &got)
			}
		})
	}
}
