package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// The pause after a failed dial doubles with each failure in a row.
const (
	minBackOff = 500 * time.Millisecond
	maxBackOff = 15 * time.Second
)

// health is the known state of one upstream. The zero value is up. Methods take the time
// as an argument and are safe for concurrent use.
type health struct {
	mu struct {
		sync.Mutex
		failures int       // consecutive failed dials
		until    time.Time // not tried before this time; zero: up
		sick     bool      // the last check failed; only a successful check clears it
	}
}

// usable reports whether a request may be sent at now.
func (h *health) usable(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.usableLocked(now)
}

func (h *health) usableLocked(now time.Time) bool {
	return !h.mu.sick && !h.pausingLocked(now)
}

// pausing reports whether a dial has failed lately.
func (h *health) pausing(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pausingLocked(now)
}

func (h *health) pausingLocked(now time.Time) bool { return now.Before(h.mu.until) }

// claim is usable for a caller that then sends a request, or only pausing if sickToo is
// set. If a pause has just ended, claim begins another, so that one request tries the
// upstream while the others wait. The returned count of failures must be passed to
// dialFailed.
func (h *health) claim(now time.Time, sickToo bool) (failures int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pausingLocked(now) || h.mu.sick && !sickToo {
		return 0, false
	}
	if h.mu.failures > 0 {
		h.mu.until = now.Add(backOff(h.mu.failures))
	}
	return h.mu.failures, true
}

// dialFailed begins a pause, longer than the last one. Of concurrent dials that were
// claimed after the same number of failures, only the first counts. It reports whether
// the upstream was up.
func (h *health) dialFailed(now time.Time, claimed int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if claimed != h.mu.failures {
		return false
	}
	h.mu.failures++
	h.mu.until = now.Add(backOff(h.mu.failures))
	return h.mu.failures == 1 && !h.mu.sick
}

// connected ends any pause and reports whether there was one. It does not clear a failed
// check.
func (h *health) connected() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.mu.failures > 0
	h.mu.failures, h.mu.until = 0, time.Time{}
	return was && !h.mu.sick
}

// checked records the outcome of a check and reports whether the state changed.
func (h *health) checked(healthy bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.mu.sick == healthy || healthy && h.mu.failures > 0
	h.mu.sick = !healthy
	if healthy {
		h.mu.failures, h.mu.until = 0, time.Time{}
	}
	return changed
}

// retryAfter returns the time until the upstream is tried again: the rest of the pause,
// or the time of the next check.
func (h *health) retryAfter(now time.Time, interval time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.sick {
		return interval
	}
	return h.mu.until.Sub(now)
}

func backOff(failures int) time.Duration {
	if failures > 5 {
		return maxBackOff
	}
	return min(maxBackOff, minBackOff<<(failures-1))
}

// Run checks the health of every upstream, at once and then at each HealthInterval, until
// ctx ends. An upstream that is not up at first is checked more often, because it
// probably starts together with the gateway. An upstream whose check fails gets no
// request until a check succeeds, unless no other upstream is up. Without Run, health
// depends on the dials of requests: an upstream that cannot be reached is skipped for
// half a second, then for twice as long after each further failure, at most 15 s.
func (g *Gateway) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, gr := range g.groups {
		for _, u := range gr.upstreams {
			all.Go(func() { g.watch(ctx, u) })
		}
	}
	all.Wait()
}

// firstPause is the time until the second check of an upstream that has never been up.
// The pause doubles up to the interval.
const firstPause = 50 * time.Millisecond

func (g *Gateway) watch(ctx context.Context, u *upstream) {
	defer u.health.checked(true) // without further checks, a failed one must not stay in force
	interval := u.group.options.HealthInterval
	pause := min(firstPause, interval)
	for {
		started := time.Now()
		if g.checkOnce(ctx, u) {
			pause = interval
		}
		if !u.sleep(ctx, started, pause) {
			return
		}
		pause = min(2*pause, interval)
	}
}

// sleep waits until the next check is due: pause after the last one started, or earlier
// if a request asks for one, but never before firstPause. It returns false when ctx ends.
func (u *upstream) sleep(ctx context.Context, started time.Time, pause time.Duration) bool {
	next := time.NewTimer(time.Until(started.Add(pause)))
	defer next.Stop()
	look := u.checkDue
	for {
		select {
		case <-ctx.Done():
			return false
		case <-look:
			next.Reset(time.Until(started.Add(min(firstPause, pause))))
			look = nil
		case <-next.C:
			return true
		}
	}
}

// checkOnce reports whether the upstream is healthy.
func (g *Gateway) checkOnce(ctx context.Context, u *upstream) bool {
	bounded, cancel := context.WithTimeout(ctx, u.group.options.HealthInterval)
	defer cancel()
	err := g.check(bounded, u)
	switch {
	case ctx.Err() != nil || !u.health.checked(err == nil):
	case err == nil:
		g.options.Logger.Info("upstream is healthy", "upstream", u.name)
	default:
		g.options.Logger.Warn("upstream is not healthy", "upstream", u.name, "error", reason(err))
	}
	return err == nil
}

// checkUpstream requests the health path, or only connects if there is none.
func (g *Gateway) checkUpstream(ctx context.Context, u *upstream) error {
	path := u.group.options.HealthPath
	if path == "" {
		return u.connect(ctx)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "stint-health")
	(&httputil.ProxyRequest{Out: r}).SetURL(u.target)
	res, err := u.group.wire.Load().of(u, r).RoundTrip(r)
	if err != nil {
		return err
	}
	_ = res.Body.Close() // only the status matters
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("it answers %d", res.StatusCode)
	}
	return nil
}

func checkHealthPath(path string) error {
	if path == "" {
		return nil
	}
	if u, err := url.ParseRequestURI(path); err != nil || u.Host != "" || path[0] != '/' {
		return fmt.Errorf("health path %q is not a path (write it like /healthz)", path)
	}
	return nil
}

func (u *upstream) connect(ctx context.Context) error {
	port := u.target.Port()
	if port == "" {
		port = u.target.Scheme // net knows http and https
	}
	conn, err := u.group.wire.Load().standard.DialContext(ctx, "tcp", net.JoinHostPort(u.target.Hostname(), port))
	if err != nil {
		return err
	}
	return conn.Close()
}
