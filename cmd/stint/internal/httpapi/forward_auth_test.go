package httpapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/httplimit"
	"github.com/stintdev/stint/rule"
)

// The rule files and the middleware each have a list of dialects, and neither
// imports the other.
func TestEveryDialectOfRuleFilesIsKnown(t *testing.T) {
	for d := httplimit.Standard; d <= httplimit.None; d++ {
		set, err := rule.Parse(rule.File{Name: "a.yaml", Data: []byte("rules: [{id: a, limit: 1/s, headers: " + d.String() + "}]")})
		if err != nil {
			t.Fatal(err)
		}
		if got := answerOf(&decide.Answer{Outcome: &rule.Outcome{Hits: []rule.Hit{{Rule: set.Rules()[0], Shadow: true}}}}).Dialect; got != d {
			t.Errorf("%v is understood as %v", d, got)
		}
	}
	_, err := rule.Parse(rule.File{Name: "a.yaml", Data: []byte("rules: [{id: a, limit: 1/s, headers: zzz}]")})
	if err == nil || strings.Count(err.Error(), ",") != int(httplimit.None) {
		t.Errorf("rule files know others too: %v", err)
	}
}

// uncounted is a rule set whose outcomes nobody counts.
type uncounted struct{ set *rule.Set }

func (u uncounted) RuleSet() *rule.Set           { return u.set }
func (uncounted) Count(rule.Plan, *rule.Outcome) {}

// FuzzOriginal lets a trusted proxy pass on anything.
func FuzzOriginal(f *testing.F) {
	f.Add("/orders?x=1", "POST", "shop.example", "/v1/auth/a%2Fb?c")
	f.Add("https://[::1]:80/x", "", "a, b", "/v1/auth")
	f.Add("//x", "\x00", ",", "/v1/auth?deny_status=403")
	builtin := decide.New(decide.Options{
		Store: stint.NewMemory(stint.MemoryOptions{MaxKeys: 1000}),
		Rules: func() decide.Rules { return uncounted{rule.Builtin()} },
	})
	thisMachine := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	handler := NewForwardAuth(NewRequestDecider(builtin), thisMachine, slog.New(slog.DiscardHandler))
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
