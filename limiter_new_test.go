package stint_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
)

func TestNewLimiterSaysWhatIsWrong(t *testing.T) {
	hour, memory := mustLimit(t, stint.PerHour(3)), stint.NewMemory(stint.MemoryOptions{})
	share, err := hour.Share(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		about  string
		store  stint.Store
		name   string
		limits []stint.Limit
	}{
		{"store: is nil", nil, "login", []stint.Limit{hour}},
		{"store: is nil", (*stint.Memory)(nil), "login", []stint.Limit{hour}},
		{"name: is missing", memory, "", []stint.Limit{hour}},
		{"name: \"log in\" has ' ' at byte 3", memory, "log in", []stint.Limit{hour}},
		{"is 65 bytes long", memory, strings.Repeat("n", 65), []stint.Limit{hour}},
		{"limits: the limiter has none", memory, "login", nil},
		{"limit: is the zero Limit", memory, "login", []stint.Limit{hour, {}}},
		{"limits: two are named token_bucket:1h", memory, "login", []stint.Limit{hour, mustLimit(t, stint.PerHour(4))}},
		{"brings a scope of its own", memory, "login", []stint.Limit{mustLimit(t, stint.Spec{Rule: "other", Limit: 1, Window: time.Hour})}},
		{"brings a scope of its own", memory, "login", []stint.Limit{mustLimit(t, stint.Spec{Namespace: "limiter", Limit: 1, Window: time.Hour})}},
		{"brings a scope of its own", memory, "login", []stint.Limit{mustLimit(t, stint.Spec{FromCaller: true, Limit: 1, Window: time.Hour})}},
		{"is a node's share", memory, "login", []stint.Limit{share}},
	} {
		if l, err := stint.NewLimiter(c.store, c.name, c.limits...); l != nil || err == nil || !strings.Contains(err.Error(), c.about) {
			t.Errorf("%v, %v; want an error that says %s", l, err, c.about)
		} else if limit := (*stint.LimitError)(nil); codeOf(err) != stint.CodeInvalid && !errors.As(err, &limit) {
			t.Errorf("%v: not an invalid claim or limit", err)
		}
	}
}

func TestLimitersShareStateByTheirName(t *testing.T) {
	store := stint.NewMemory(stint.MemoryOptions{})
	limiter := func(name string, spec stint.Spec) *stint.Limiter {
		l, err := stint.NewLimiter(store, name, mustLimit(t, spec))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	login, api, again := limiter("login", stint.PerMinute(5)), limiter("api", stint.PerMinute(100)), limiter("login", stint.PerMinute(5))
	for range 5 {
		if d, err := login.Allow(t.Context(), "k"); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	if d, _ := api.Allow(t.Context(), "k"); !d.Allowed || d.Remaining != 99 {
		t.Errorf("the API after five logins: %+v", d)
	}
	if d, _ := again.Allow(t.Context(), "k"); d.Allowed {
		t.Error("another limiter of the name does not share the state")
	}
	if api.Name() != "api" {
		t.Error(api.Name())
	}
	// A limit without a scope, and a limit of a rule named login, have states of their own.
	for _, spec := range []stint.Spec{stint.PerMinute(5), {Rule: "login", Limit: 5, Window: time.Minute}} {
		if d, err := store.Take(t.Context(), stint.Claim{Key: "k", Limit: mustLimit(t, spec), Cost: 5}); err != nil || !d.Allowed {
			t.Errorf("rule %q shares the limiter's state: %+v, %v", spec.Rule, d, err)
		}
	}
}
