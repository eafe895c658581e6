package httpapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
	"github.com/stintdev/stint/rule/rulelimit"
)

// FuzzOriginal lets a trusted proxy pass on anything.
func FuzzOriginal(f *testing.F) {
	f.Add("/orders?x=1", "POST", "shop.example", "/v1/auth/a%2Fb?c")
	f.Add("https://[::1]:80/x", "", "a, b", "/v1/auth")
	f.Add("//x", "\x00", ",", "/v1/auth?deny_status=403")
	builtin, err := rulelimit.New(rule.Builtin(), stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000}), rulelimit.Options{})
	if err != nil {
		f.Fatal(err)
	}
	thisMachine := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	handler := NewForwardAuth(builtin, httplimit.Identity{Clients: httplimit.Clients{Trusted: thisMachine}}, slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, uri, method, host, target string) {
		r := httptest.NewRequest(http.MethodGet, "/v1/auth", http.NoBody)
		if u := parseTarget(target); u.Host == "" && u.Scheme == "" {
			u.Path = AuthPath + u.Path
			r.URL = u
		}
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Original-Uri", uri)
		r.Header.Set("X-Original-Method", method)
		r.Header.Set(hostHeader, host)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
	})
}
