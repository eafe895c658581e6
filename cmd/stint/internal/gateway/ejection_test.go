package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// served returns which of the upstreams get requests, such as "x.." if only the first
// gets none.
func (g *guarded) served(t *testing.T, upstreams []*fickle) string {
	t.Helper()
	g.from += 20 // the probes of one client count once
	before := make([]int64, len(upstreams))
	for i, u := range upstreams {
		before[i] = u.asked.Load()
	}
	for client := range 4 * len(upstreams) {
		g.ask(t, g.from+client)
	}
	var got strings.Builder
	for i, u := range upstreams {
		got.WriteByte("x."[min(1, u.asked.Load()-before[i])])
	}
	return got.String()
}

func TestUpstreamThatFailsInARowIsEjected(t *testing.T) {
	upstreams, servers := fickles(t, 3)
	g := newGuarded(t, GroupOptions{Servers: servers, Ejection: &EjectionOptions{Failures: 3}})
	upstreams[0].status.Store(http.StatusInternalServerError)
	for client := range 9 {
		g.ask(t, client)
	}
	if upstreams[0].asked.Load() != 3 {
		t.Fatalf("the broken upstream got %d requests, want 3", upstreams[0].asked.Load())
	}
	if log := g.log.String(); !strings.Contains(log, `"upstream is ejected"`) || !strings.Contains(log, "failures=3 for=10s") {
		t.Errorf("logged %s", log)
	}
	for _, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		g.clock.advance(pause - 1)
		if got := g.served(t, upstreams); got != "x.." {
			t.Errorf("at the end of %v: served %s", pause, got)
		}
		before := upstreams[0].asked.Load()
		if g.clock.advance(1); g.served(t, upstreams) != "..." || upstreams[0].asked.Load() != before+1 {
			t.Errorf("after %v: %d probes, want one", pause, upstreams[0].asked.Load()-before)
		}
	}
	upstreams[0].status.Store(http.StatusOK)
	g.clock.advance(80 * time.Second)
	g.served(t, upstreams) // the probe
	before := upstreams[0].asked.Load()
	if g.served(t, upstreams); upstreams[0].asked.Load() != before+4 {
		t.Errorf("after its recovery it gets %d of 12 requests, want 4", upstreams[0].asked.Load()-before)
	}
	if g.groups[0].ejected.Load() != 0 {
		t.Errorf("%d upstreams count as ejected", g.groups[0].ejected.Load())
	}
}

// A success in between ends a row of failures.
func TestUpstreamThatFailsNowAndThenIsNotEjected(t *testing.T) {
	upstreams, servers := fickles(t, 2)
	g := newGuarded(t, GroupOptions{Servers: servers, Ejection: &EjectionOptions{Failures: 3}})
	for client := range 60 {
		upstreams[0].status.Store(http.StatusInternalServerError)
		if client%6 >= 4 {
			upstreams[0].status.Store(http.StatusOK)
		}
		g.ask(t, client)
	}
	if got := g.served(t, upstreams); got != ".." {
		t.Errorf("served %s", got)
	}
}

func TestOnlyAShareOfTheUpstreamsIsEjected(t *testing.T) {
	for _, c := range []struct {
		upstreams int
		share     float64
		ejected   int64
	}{
		{1, 1, 0},
		{2, 0.1, 1},
		{4, 0, 2}, // the default
		{4, 0.75, 3},
		{4, 1, 3},
		{5, 0.5, 2},
	} {
		upstreams, servers := fickles(t, c.upstreams)
		g := newGuarded(t, GroupOptions{Servers: servers, Ejection: &EjectionOptions{Failures: 2, MaxShare: c.share}})
		for _, u := range upstreams {
			u.status.Store(http.StatusBadGateway)
		}
		for client := range 20 {
			if w := g.ask(t, client); w.Code != http.StatusBadGateway {
				t.Fatalf("got %d", w.Code)
			}
		}
		if got := g.groups[0].ejected.Load(); got != c.ejected {
			t.Errorf("%d upstreams, share %v: %d ejected, want %d", c.upstreams, c.share, got, c.ejected)
		}
	}
}

// If more than half of the upstreams are ejected or unhealthy, all get requests.
func TestPanicUsesAllUpstreams(t *testing.T) {
	upstreams, servers := fickles(t, 4)
	g := newGuarded(t, GroupOptions{Servers: servers, Ejection: &EjectionOptions{Failures: 2}})
	upstreams[0].status.Store(http.StatusBadGateway)
	upstreams[1].status.Store(http.StatusBadGateway)
	for client := range 8 {
		g.ask(t, client)
	}
	if got := g.served(t, upstreams); got != "xx.." {
		t.Fatalf("with half of them ejected: served %s", got)
	}
	sick := g.groups[0].upstreams[2]
	sick.health.checked(false)
	if got := g.served(t, upstreams); got != "...." || g.counts["panics"].Load() != 16 {
		t.Errorf("with three of four unusable: served %s, %d in panic", got, g.counts["panics"].Load())
	}
	sick.health.checked(true)
	if got := g.served(t, upstreams); got != "xx.." {
		t.Errorf("with half of them ejected again: served %s", got)
	}
}

// Without ejection, a check that fails keeps requests away however many fail.
func TestNoPanicWithoutEjection(t *testing.T) {
	upstreams, servers := fickles(t, 4)
	g := newGuarded(t, GroupOptions{Servers: servers})
	for _, u := range g.groups[0].upstreams[1:] {
		u.health.checked(false)
	}
	if got := g.served(t, upstreams); got != ".xxx" {
		t.Errorf("served %s", got)
	}
}

// An upstream that cannot be reached gets no request in a panic either.
func TestPanicDoesNotDialWhatCannotBeReached(t *testing.T) {
	upstreams, servers := fickles(t, 4)
	g := newGuarded(t, GroupOptions{Servers: servers, Ejection: &EjectionOptions{}})
	for _, u := range g.groups[0].upstreams[1:] {
		u.health.dialFailed(g.clock.now(), 0)
	}
	if got := g.served(t, upstreams); got != ".xxx" {
		t.Errorf("served %s", got)
	}
}
