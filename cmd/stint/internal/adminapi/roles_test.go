package adminapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stintdev/stint/rule"
)

// TestEveryEndpointHasItsRole tries every endpoint with every role. An endpoint whose role
// differs from that of its method elsewhere must be listed here.
func TestEveryEndpointHasItsRole(t *testing.T) {
	f := newFixture(t, shop)
	var err error
	f.Tokens, err = ParseTokens(rule.File{Name: "tokens", Data: []byte("v viewer " + hash("viewer") + "\no operator " + hash("operator") + "\na admin " + hash("admin") + "\n")}, "")
	if err != nil {
		t.Fatal(err)
	}
	admins := []string{"PUT /rules", "POST /rules/rollback", "POST /v1/canary/promote"}
	looks := []string{"POST /rules/validate", "POST /v1/peek", "POST /v1/why", "POST /v1/explain"}
	fill := strings.NewReplacer("{id}", "orders", "{tier}", "free", "{list}", "deny", "{match...}", "x", "{key...}", "k", "{version}", "1", "{$}", "")
	for _, e := range f.endpoints() {
		method, path, _ := strings.Cut(e.pattern, " ")
		needed := Operator
		switch {
		case slices.Contains(admins, e.pattern):
			needed = Admin
		case method == http.MethodGet || slices.Contains(looks, e.pattern):
			needed = Viewer
		}
		for _, role := range roles() {
			got := f.do(method, fill.Replace(path), "", "Authorization", "Bearer "+string(role))
			if may := got.status != http.StatusForbidden && got.status != http.StatusUnauthorized; may != role.allows(needed) {
				t.Errorf("%s by %s: status %d, and it needs %s", e.pattern, role, got.status, needed)
			}
		}
		for _, header := range [][]string{nil, {"Authorization", "Bearer "}, {"X-Stint-Token", "Viewer"}, {"Authorization", "Basic admin"}, {"Authorization", "Bearer " + hash("admin")}} {
			if got := f.do(method, fill.Replace(path), "", header...); got.status != http.StatusUnauthorized {
				t.Errorf("%s with %v: status %d", e.pattern, header, got.status)
			}
		}
	}
}
