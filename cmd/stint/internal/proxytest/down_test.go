//go:build linux

package proxytest

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"
)

// soon is how long a request may take while Stint does not answer: the time
// that the files of deploy/ give it, and room for a busy machine.
const soon = 10 * time.Second

func TestLimiterIsDown(t *testing.T) {
	t.Parallel() // most of it is waiting
	if testing.Short() {
		t.Skip("waits for time-outs")
	}
	for i := range proxies {
		p := &proxies[i]
		for _, how := range []mode{failsOpen, failsClosed} {
			if p.closedOnly && how == failsOpen {
				continue
			}
			t.Run(p.name+"/"+string(how), func(t *testing.T) {
				t.Parallel()
				s, open := newSite(t, p, how), how == failsOpen
				c := s.client(t)
				c.awaitCounted()
				s.stint.kill()
				c.wantUndecided(s, open)
				s.stint = serve(t, s.stintAddr)
				c.awaitCounted()
				if p.closedOnly {
					return
				}
				s.stint.freeze()
				c.wantUndecided(s, open)
				s.stint.thaw()
				c.awaitCounted()
			})
		}
	}
}

// wantUndecided asks while Stint does not answer.
func (c *client) wantUndecided(s *site, open bool) {
	c.t.Helper()
	for range 3 {
		before, began := s.application.reached.Load(), time.Now()
		got := c.get("/ip")
		if took := time.Since(began); took > soon {
			c.t.Errorf("it took %v", took)
		}
		if open != (got.status == http.StatusOK) || open != (s.application.reached.Load() > before) || !open && !slices.Contains(s.proxy.refused, got.status) {
			c.t.Errorf("open is %v, got %s", open, &got)
		}
		c.t.Logf("status %d after %v", got.status, time.Since(began))
		if got.header.Get("X-RateLimit-Limit") != "" {
			c.t.Errorf("it tells a limit that nobody knows: %s", &got)
		}
	}
}

// awaitCounted asks until requests are counted, as they are from the start, or
// soon after Stint has come back.
func (c *client) awaitCounted() {
	c.t.Helper()
	end := time.Now().Add(patience)
	for {
		got := c.get("/ip")
		if got.header.Get("X-RateLimit-Limit") == "2" && (got.status == http.StatusOK || got.status == http.StatusTooManyRequests) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatal(errors.New(got.String()))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestStoreIsDown has Stint decide without its store: that is a decision, which
// no proxy takes for a failure.
func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, p, patient, "--store", "redis://"+freeAddr(t))
			c := s.client(t)
			before := s.application.reached.Load()
			got := c.get("/closed")
			wantDenied(t, &got, cmp.Or(p.storeDown, http.StatusServiceUnavailable), "LIMITER_UNAVAILABLE")
			if got.header.Get("Retry-After") == "" || s.application.reached.Load() != before {
				t.Errorf("got %s", &got)
			}
			open := c.get("/open")
			open.heard(t)
			for _, got := range []reply{got, open} {
				wantHeader(t, &got, "X-RateLimit-Policy", "degraded")
				wantHeader(t, &got, "X-RateLimit-Remaining", "-1")
			}
		})
	}
}
