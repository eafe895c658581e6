//go:build linux

package proxytest

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/processtest"
	"github.com/stintdev/stint/internal/testserver"
)

// soon bounds a request while Stint does not answer: the timeout in the files of
// deploy/, and a reserve for a busy machine.
const soon = 10 * time.Second

func TestLimiterIsDown(t *testing.T) {
	t.Parallel() // the test mostly waits
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
				s.stint.Kill()
				c.wantUndecided(s, open)
				s.stint = serve(t, s.stintAddr)
				c.awaitCounted()
				if p.closedOnly {
					return
				}
				s.stint.Freeze()
				c.wantUndecided(s, open)
				s.stint.Thaw()
				c.awaitCounted()
			})
		}
	}
}

// wantUndecided sends a request while Stint does not answer.
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
			c.t.Errorf("the response has a limit without a decision: %s", &got)
		}
	}
}

// awaitCounted sends requests until they are counted: at once after a start, or soon
// after Stint is back.
func (c *client) awaitCounted() {
	c.t.Helper()
	end := time.Now().Add(processtest.Patience)
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

// TestStoreIsDown has Stint decide without its store. No proxy may treat that
// decision as a failure.
func TestStoreIsDown(t *testing.T) {
	t.Parallel()
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, p, patient, "--store", "redis://"+testserver.FreeAddr(t))
			c := s.client(t)
			before := s.application.reached.Load()
			got := c.get("/closed")
			wantDenied(t, &got, cmp.Or(p.storeDown, http.StatusServiceUnavailable), "LIMITER_UNAVAILABLE")
			if got.header.Get("Retry-After") == "" || s.application.reached.Load() != before {
				t.Errorf("got %s", &got)
			}
			open := c.get("/open")
			open.received(t)
			for _, got := range []reply{got, open} {
				wantHeader(t, &got, "X-RateLimit-Policy", "degraded")
				wantHeader(t, &got, "X-RateLimit-Remaining", "-1")
			}
		})
	}
}
