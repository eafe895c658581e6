package httplimit

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

// usersAndTenants limits a user to two requests a minute and a tenant to three.
func usersAndTenants(t testing.TB, store stint.Store) *stint.JointLimiter {
	t.Helper()
	var both []*stint.Limiter
	for name, limit := range map[string]int64{"users": 2, "tenants": 3} {
		l, err := stint.NewLimiter(store, name, compile(t, stint.Spec{Limit: limit, Window: time.Minute}))
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, l.With(stint.Policy{OnFailure: stint.FailClosed}))
	}
	if both[0].Name() != "users" {
		both[0], both[1] = both[1], both[0]
	}
	joint, err := stint.Join(both...)
	if err != nil {
		t.Fatal(err)
	}
	return joint
}

// userAndTenant counts by an API key and by the tenant that a function finds.
var userAndTenant = []Part{
	{By: []string{"api_key"}},
	{Key: func(r *Request) (string, error) { return r.Header.Get("X-Tenant"), nil }},
}

func TestJointLimiterCountsUnderBothKeysOrNeither(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return testNow }})
	handler := mustLimit(t, usersAndTenants(t, store), Options{Parts: userAndTenant, Dialect: IETF}).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for n, c := range []struct {
		user, tenant string
		status       int
		limit        string
	}{
		{"ann", "acme", 200, `"users";r=1;t=30`},
		{"ann", "acme", 200, `"users";r=0;t=30`},
		{"ann", "acme", 429, `"users";r=0;t=30`}, // charges the tenant nothing
		{"bob", "acme", 200, `"tenants";r=0;t=20`},
		{"bob", "acme", 429, `"tenants";r=0;t=20`},
		{"bob", "", 200, `"users";r=0;t=30`}, // the tenant's key is the address
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-API-Key", c.user)
		r.Header.Set("X-Tenant", c.tenant)
		handler.ServeHTTP(w, r)
		if got := w.Header().Get("RateLimit"); w.Code != c.status || got != c.limit {
			t.Errorf("request %d: %d, %s; want %d, %s", n, w.Code, got, c.status, c.limit)
		}
		if got := w.Header().Get("RateLimit-Policy"); got != `"users";q=2;w=60, "tenants";q=3;w=60` {
			t.Errorf("request %d: %s", n, got)
		}
	}
}

func TestKeysOfAJointLimiterAreAskedOfEachPart(t *testing.T) {
	c := counting(t, usersAndTenants(t, stint.NewMemory(stint.MemoryOptions{})), Options{Parts: userAndTenant})
	q := NewRequest(httptest.NewRequest("GET", "/", nil), nil)
	q.Header.Set("X-API-Key", "ann")
	q.Header.Set("X-Tenant", "acme")
	for part, want := range []string{"api_key:ann", "key:acme"} {
		if got, err := c.PartKey(part, q); got != want || err != nil {
			t.Errorf("part %d: %q, %v; want %q", part, got, err, want)
		}
	}
	if _, err := c.PartKey(2, q); err == nil {
		t.Error("there is a third part")
	}
	for _, keys := range [][]string{{}, {"a"}, {"a", "b", "c"}} {
		if _, err := c.DecideKeys(t.Context(), 1, keys...); stint.CodeOf(err) != stint.CodeInvalid {
			t.Errorf("%d keys: %v", len(keys), err)
		}
	}
	if a, err := c.DecideKeys(t.Context(), 1, "a", "b"); err != nil || !a.Allowed() || len(a.Policies) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
}

// closedStore denies every group as a guard does while the store is unavailable.
type closedStore struct{ stint.Store }

func (closedStore) TakeGroups(_ context.Context, _ []stint.Group, out []stint.Decision) error {
	for i := range out {
		out[i] = stint.Decision{Degraded: true, Unavailable: true, RetryAfter: 1500 * time.Millisecond}
	}
	return nil
}

func TestClosedJointLimiterIsUnavailable(t *testing.T) {
	joint := usersAndTenants(t, closedStore{stint.NewMemory(stint.MemoryOptions{})})
	w := request(mustLimit(t, joint, Options{Parts: userAndTenant}).Wrap(http.NotFoundHandler()), "/")
	if w.Code != 503 || w.Header().Get("Retry-After") != "2" || w.Header().Get("X-RateLimit-Policy") != "degraded" {
		t.Errorf("%d %v; want 503", w.Code, w.Header())
	}
}

func TestErrorOfOnePartChargesNothing(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{Clock: func() time.Time { return testNow }})
	joint := usersAndTenants(t, store)
	parts := []Part{userAndTenant[0], {Key: func(*Request) (string, error) { return "", errors.New("no tenant") }}}
	if w := request(mustLimit(t, joint, Options{Parts: parts}).Wrap(http.NotFoundHandler()), "/"); w.Code != 500 {
		t.Errorf("%d; want 500", w.Code)
	}
	if store.Stats().Keys != 0 {
		t.Errorf("%d keys were charged", store.Stats().Keys)
	}
}
