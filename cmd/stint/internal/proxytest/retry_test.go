//go:build linux

package proxytest

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// TestRetryTimeIsTrue waits for the retry time of a denial. The request then passes,
// and a second earlier it does not.
func TestRetryTimeIsTrue(t *testing.T) {
	t.Parallel()
	for i := range proxies {
		p := &proxies[i]
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, p, patient)
			for range 5 {
				if s.client(t).retries(t) {
					return
				}
			}
			t.Error("this machine is too busy to send a request within a second")
		})
	}
}

// retries returns false if the machine was too slow to observe the denial one second
// before the retry time. /soon allows 1 request in 3 s.
func (c *client) retries(t *testing.T) (early bool) {
	t.Helper()
	began := time.Now()
	if got := c.get("/soon"); got.status != http.StatusOK {
		t.Fatal(got.String())
	}
	denied := c.get("/soon")
	deniedAt := time.Now()
	seconds, err := strconv.Atoi(denied.header.Get("Retry-After"))
	if denied.status == http.StatusOK {
		return false
	}
	if err != nil || denied.status != http.StatusTooManyRequests || seconds < 1 || seconds > 3 {
		t.Fatal(denied.String())
	}
	<-time.After(time.Until(deniedAt.Add(time.Duration(seconds-1) * time.Second))) // Stint reports real time
	sooner := c.get("/soon")
	if early = time.Since(began) < 3*time.Second; early && sooner.status != http.StatusTooManyRequests {
		t.Errorf("a second before its time: %s", &sooner)
	}
	if sooner.status == http.StatusOK {
		return early
	}
	<-time.After(time.Until(deniedAt.Add(time.Duration(seconds) * time.Second))) // Stint reports real time
	if got := c.get("/soon"); got.status != http.StatusOK {
		t.Errorf("after a retry time of %d s: %s", seconds, &got)
	}
	return early
}
