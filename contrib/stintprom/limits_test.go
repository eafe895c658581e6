package stintprom

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/guard"
	"github.com/stintdev/stint/internal/nameset"
	"github.com/stintdev/stint/lease"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/client"
	"github.com/stintdev/stint/storekit"
)

func limit(t *testing.T, name string, n int64) stint.Limit {
	t.Helper()
	return must(stint.Spec{Name: name, Limit: n, Window: time.Hour}.Compile())
}

// wantLines checks that a page has the lines.
func wantLines(t *testing.T, got string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// The totals of limiters and stores equal what happened, whatever happened at once.
func TestTotalsOfLimitersAndStores(t *testing.T) {
	m := New()
	guarded := must(guard.New(stint.NewMemory(stint.MemoryOptions{}), guard.Options{Observer: m}))
	leasing := must(lease.New(guarded, lease.Options{}))
	t.Cleanup(func() { check(t, errors.Join(leasing.Close(), guarded.Close())) })
	check(t, m.WatchStore("limits", leasing))
	login := must(stint.NewLimiter(stint.ObserveStore(leasing, "lease", m), "login", limit(t, "hour", 50), limit(t, "day", 90))).WithObserver(m)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 20 {
				if _, err := login.Allow(t.Context(), "a key"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	_, _ = login.Peek(t.Context(), "a key")
	_, _ = login.Allow(t.Context(), "")
	got := page(t, m)
	wantLines(t, got,
		`stint_limiter_decisions_total{limiter="login",op="take",result="allowed"} 50`,
		`stint_limiter_decisions_total{limiter="login",op="take",result="denied"} 110`,
		`stint_limiter_decisions_total{limiter="login",op="take",result="invalid"} 1`,
		`stint_limiter_decisions_total{limiter="login",op="peek",result="allowed"} 1`,
		`stint_limiter_denials_total{limit="hour",limiter="login"} 110`,
		`stint_limiter_duration_seconds_count{limiter="login",op="take"} 161`,
		`stint_store_calls_total{result="ok",shard="",store="lease"} 161`,
		`stint_store_calls_total{result="invalid",shard="",store="lease"} 1`,
		`stint_store_claims_total{store="lease"} 324`,
		`stint_store_calls_total{result="ok",shard="",store="guard"} 161`,
		`stint_keys{store="limits"} 2`,
		`stint_evictions_total{store="limits"} 0`,
		`stint_store_breaker_open{shard="",store="limits"} 0`,
		`stint_store_degraded_total{policy="closed",store="limits"} 0`,
		`stint_lease_keys{store="limits"} 0`,
		`stint_lease_local_total{decision="allow",store="limits"} 0`,
	)
	if strings.Contains(got, "a key") {
		t.Error("a key is shown")
	}
}

// failing is a store that fails.
type failing struct{ stint.Store }

func (failing) Take(context.Context, stint.Claim) (stint.Decision, error) {
	return stint.Decision{}, &stint.Error{Code: stint.CodeUnavailable, Kind: "readonly"}
}

func TestFailuresAndBreakers(t *testing.T) {
	m := New()
	guarded := must(guard.New(failing{}, guard.Options{Observer: m}))
	t.Cleanup(func() { check(t, guarded.Close()) })
	check(t, m.WatchStore("limits", guarded))
	login := must(stint.NewLimiter(guarded, "login", limit(t, "hour", 50))).WithObserver(m)
	closed := login.With(stint.Policy{OnFailure: stint.FailClosed})
	for range 20 {
		_, _ = login.Allow(t.Context(), "k")
	}
	_, _ = closed.Allow(t.Context(), "k")
	wantLines(t, page(t, m),
		`stint_limiter_decisions_total{limiter="login",op="take",result="degraded_allowed"} 20`,
		`stint_limiter_decisions_total{limiter="login",op="take",result="unavailable"} 1`,
		`stint_limiter_denials_total{limit="hour",limiter="login"} 1`,
		`stint_store_calls_total{result="readonly",shard="",store="guard"} 20`,
		`stint_store_breaker_changes_total{shard="",store="guard",to="open"} 1`,
		`stint_store_breaker_open{shard="",store="limits"} 1`,
		`stint_store_breaker_refused_total{shard="",store="limits"} 1`,
	)
}

// Thousands of limiters, or of watched clients, by mistake do not make thousands of
// series, and no total is lost.
func TestSeriesAreBounded(t *testing.T) {
	m, memory := New(), stint.NewMemory(stint.MemoryOptions{})
	var failed error
	for i := range 3 * nameset.Max {
		name := fmt.Sprint("user-", i)
		l := must(stint.NewLimiter(memory, name, limit(t, name, 1))).WithObserver(m)
		_, _ = l.Allow(t.Context(), "k")
		_, _ = l.Allow(t.Context(), "k")
		m.Observe(t.Context(), stint.Event{Kind: stint.EventStoreCall, Name: "guard", Shard: name, Result: name})
		if err := m.WatchClient(client.Chain{Name: name, Breaker: &breaker.Breaker{}}, nil); err != nil {
			failed = err
		}
	}
	got := page(t, m)
	wantLines(t, got,
		fmt.Sprintf(`stint_limiter_decisions_total{limiter="_other",op="take",result="denied"} %d`, 2*nameset.Max+1),
		fmt.Sprintf(`stint_limiter_denials_total{limit="_other",limiter="_other"} %d`, 2*nameset.Max+nameset.Max/2))
	if n := strings.Count(got, "stint_limiter_decisions_total{"); n > 2*nameset.Max+2 {
		t.Errorf("%d series", n)
	}
	if n := strings.Count(got, `state="open"`); failed == nil || n != nameset.Max {
		t.Errorf("watched %d clients: %v", n, failed)
	}
}

// A metric that two stores describe differently, or wrongly, does not hide the others.
func TestStoresOfTheProgram(t *testing.T) {
	m := New()
	check(t, m.WatchStore("a", described{"first text", "shard"}))
	check(t, m.WatchStore("b", described{"second text", "shard"}))
	wantLines(t, page(t, m), `stint_own_total{shard="x",store="a"} 7`, `stint_own_total{shard="x",store="b"} 7`)
	if m.WatchStore("nil", nil) == nil || m.WatchStore("nil", (*stint.Memory)(nil)) == nil {
		t.Error("a store that is missing is watched")
	}
	m = New()
	check(t, m.WatchStore("a", described{"text", "\xff"}))
	r := prometheus.NewRegistry()
	if err := r.Register(m); err == nil {
		t.Error("a label that is no name is accepted")
	}
}

type described struct{ help, label string }

func (described) Take(context.Context, stint.Claim) (d stint.Decision, err error) { return d, nil }

func (described) TakeGroups(context.Context, []stint.Group, []stint.Decision) error { return nil }

func (d described) Metrics() []storekit.Metric {
	return []storekit.Metric{{Name: "own", Help: d.help, Counter: true, Label: d.label, Samples: []storekit.Sample{{Label: "x", Value: 7}}}}
}

// A store that is watched after the registration is exported too.
func TestStoreIsWatchedLater(t *testing.T) {
	m, r := New(), prometheus.NewRegistry()
	check(t, r.Register(m))
	check(t, m.WatchStore("limits", stint.NewMemory(stint.MemoryOptions{})))
	if families, err := r.Gather(); err != nil || len(families) != 9 {
		t.Errorf("%d families, %v", len(families), err)
	}
}
