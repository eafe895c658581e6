package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint/internal/testserver"
)

func TestPausesGrowAndOneRequestFindsOut(t *testing.T) {
	var h health
	now := time.Unix(1_700_000_000, 0)
	claim := func(wantOK bool) int {
		t.Helper()
		failures, ok := h.claim(now, false)
		if ok != wantOK {
			t.Fatalf("after %d failures: claimed: %v, want %v", failures, ok, wantOK)
		}
		return failures
	}
	first, together := claim(true), claim(true)
	if !h.dialFailed(now, first) || h.dialFailed(now, together) {
		t.Error("want a change for the first failure and none for the concurrent one")
	}
	for _, pause := range []int{500, 1000, 2000, 4000, 8000, 15000, 15000} {
		now = now.Add(time.Duration(pause)*time.Millisecond - 1)
		claim(false)
		now = now.Add(1)
		probe := claim(true)
		claim(false) // another request while the first one tries the upstream
		h.dialFailed(now, probe)
	}
	now = now.Add(maxBackOff)
	claim(true)
	if !h.connected() || h.connected() {
		t.Error("want a change for the first success and none for the second")
	}
	claim(true)
	claim(true)
}

func TestOnlyACheckMendsWhatACheckFound(t *testing.T) {
	var h health
	now := time.Unix(1_700_000_000, 0)
	if h.checked(true) || !h.checked(false) || h.checked(false) {
		t.Error("want a change to be reported once")
	}
	h.connected()
	if h.usable(now.Add(time.Hour)) {
		t.Error("usable although its check failed")
	}
	if got := h.retryAfter(now, 2*time.Second); got != 2*time.Second {
		t.Errorf("retry after %v, want the next check", got)
	}
	if !h.checked(true) || !h.usable(now) {
		t.Error("not usable after a check that succeeded")
	}
	h.dialFailed(now, 0)
	if !h.checked(true) || !h.usable(now) {
		t.Error("a check that succeeds ends a pause too")
	}
}

// Groups are checked each in its own way, and one that is down leaves the others alone.
func TestGroupsHaveChecksOfTheirOwn(t *testing.T) {
	sick := serve(t, http1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	g := newGateway(t, Options{Groups: []GroupOptions{
		{Name: "asked", Servers: servers(urlOf(t, sick.URL)), HealthPath: "/healthz"},
		{Name: "connected", Servers: servers(urlOf(t, sick.URL))},
	}})
	for _, gr := range g.groups {
		g.checkOnce(bounded(t), gr.upstreams[0])
	}
	want := []GroupHealth{{Name: "asked", Down: 1}, {Name: "connected", Up: 1}}
	if got := g.Health(); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestRunChecksAtOnceAndAtEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, Options{Groups: []GroupOptions{{Servers: servers(urlOf(t, "http://a")), HealthInterval: time.Second}}})
		var checks atomic.Int64
		var broken atomic.Bool
		g.check = func(context.Context, *upstream) error {
			checks.Add(1)
			if broken.Load() {
				return errors.New("broken")
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { g.Run(ctx); close(done) }()
		expect := func(n int64, usable bool) {
			t.Helper()
			synctest.Wait()
			if got := checks.Load(); got != n || g.groups[0].upstreams[0].health.usable(time.Now()) != usable {
				t.Fatalf("got %d checks, usable %v, want %d and %v", got, !usable, n, usable)
			}
		}
		expect(1, true)
		broken.Store(true)
		time.Sleep(time.Second) // advances the clock of the bubble
		expect(2, false)
		time.Sleep(time.Second)
		expect(3, false)
		broken.Store(false)
		time.Sleep(time.Second)
		expect(4, true)
		broken.Store(true)
		time.Sleep(time.Second)
		expect(5, false)
		stop()
		<-done
		expect(5, true) // without Run, no check could clear the failed one
	})
}

// An upstream that starts together with the gateway is found soon. A request that reaches
// an upstream which was down triggers its check.
func TestUpstreamThatComesUpIsFoundSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, Options{Groups: []GroupOptions{{Servers: servers(urlOf(t, "http://a")), HealthInterval: 2 * time.Second}}})
		u, started := g.groups[0].upstreams[0], time.Now()
		var checks []time.Duration
		broken := errors.New("broken")
		g.check = func(context.Context, *upstream) error {
			checks = append(checks, time.Since(started))
			return broken
		}
		go g.Run(t.Context())
		time.Sleep(8 * time.Second) // advances the clock of the bubble
		synctest.Wait()
		var want []time.Duration
		for _, ms := range []int{0, 50, 150, 350, 750, 1550, 3150, 5150, 7150} {
			want = append(want, time.Duration(ms)*time.Millisecond)
		}
		if !slices.Equal(checks, want) {
			t.Errorf("checked at %v, want %v", checks, want)
		}
		checks, broken = nil, nil
		u.requestCheck()
		u.requestCheck()
		synctest.Wait()
		if len(checks) != 1 || !u.health.usable(time.Now()) {
			t.Errorf("checked at %v after a request that reached it", checks)
		}
		u.requestCheck()
		synctest.Wait()
		if len(checks) != 1 {
			t.Errorf("checked at %v, twice within %v", checks, firstPause)
		}
	})
}

func TestCheckThatHangsFailsAfterItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, Options{Groups: []GroupOptions{{Servers: servers(urlOf(t, "http://a")), HealthInterval: time.Second}}})
		g.check = func(ctx context.Context, _ *upstream) error { <-ctx.Done(); return ctx.Err() }
		go g.Run(t.Context())
		time.Sleep(time.Second) // advances the clock of the bubble
		synctest.Wait()
		if g.groups[0].upstreams[0].health.usable(time.Now()) {
			t.Error("usable although its check hangs")
		}
	})
}

func TestChecksOverSockets(t *testing.T) {
	healthy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/healthz" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	live := serve(t, http1, healthy)
	addr := live.Listener.Addr().String()
	for name, c := range map[string]struct {
		target, path string
		healthy      bool
	}{
		"connects":             {"http://" + addr, "", true},
		"connectsToH2C":        {"h2c://" + addr, "", true},
		"cannotConnect":        {"http://" + testserver.FreeAddr(t), "", false},
		"pathAnswersWell":      {"http://" + addr + "/base", "/healthz", true},
		"pathAnswersWellByH2C": {"h2c://" + addr + "/base", "/healthz", true},
		"pathAnswersBadly":     {"http://" + addr + "/base", "/other", false},
		"pathCannotConnect":    {"http://" + testserver.FreeAddr(t), "/healthz", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, Options{Groups: []GroupOptions{{Servers: servers(urlOf(t, c.target)), HealthPath: c.path}}})
			if err := g.check(bounded(t), g.groups[0].upstreams[0]); (err == nil) != c.healthy {
				t.Errorf("got %v", err)
			}
		})
	}
}
