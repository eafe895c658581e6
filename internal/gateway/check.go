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

// Run checks the health of every upstream, at once and then at each
// HealthInterval, until ctx ends. An upstream whose check fails gets no
// request before a check succeeds. Without Run the dials of requests alone
// tell: an upstream that cannot be reached is left alone for half a second,
// then for twice as long after each failure, at most 15 s.
func (g *Gateway) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, u := range g.upstreams {
		all.Go(func() { g.watch(ctx, u) })
	}
	all.Wait()
}

func (g *Gateway) watch(ctx context.Context, u *upstream) {
	ticks := time.NewTicker(g.options.HealthInterval)
	defer ticks.Stop()
	defer u.health.checked(true) // no check is left that could mend it
	for {
		g.checkOnce(ctx, u)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

func (g *Gateway) checkOnce(ctx context.Context, u *upstream) {
	bounded, cancel := context.WithTimeout(ctx, g.options.HealthInterval)
	defer cancel()
	err := g.check(bounded, u)
	if ctx.Err() != nil || !u.health.checked(err == nil) {
		return
	}
	if err == nil {
		g.options.Logger.Info("upstream is healthy", "upstream", u.name)
		return
	}
	g.options.Logger.Warn("upstream is not healthy", "upstream", u.name, "error", short(err))
}

// checkUpstream asks for the health path, or connects if there is none.
func (g *Gateway) checkUpstream(ctx context.Context, u *upstream) error {
	if g.options.HealthPath == "" {
		return g.connect(ctx, u)
	}
	r, err := g.healthRequest(ctx, u)
	if err != nil {
		return err
	}
	res, err := g.wire.of(u, r).RoundTrip(r)
	if err != nil {
		return err
	}
	_ = res.Body.Close() // the status is all that counts
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("it answers %d", res.StatusCode)
	}
	return nil
}

func (g *Gateway) healthRequest(ctx context.Context, u *upstream) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.options.HealthPath, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "stint-health")
	(&httputil.ProxyRequest{Out: r}).SetURL(u.target)
	return r, nil
}

func validateHealthPath(path string) error {
	if path == "" {
		return nil
	}
	if u, err := url.ParseRequestURI(path); err != nil || u.Host != "" || path[0] != '/' {
		return fmt.Errorf("gateway: health path %q is not a path (write it like /healthz)", path)
	}
	return nil
}

func (g *Gateway) connect(ctx context.Context, u *upstream) error {
	port := u.target.Port()
	if port == "" {
		port = u.target.Scheme // net knows http and https
	}
	conn, err := g.wire.standard.DialContext(ctx, "tcp", net.JoinHostPort(u.target.Hostname(), port))
	if err != nil {
		return err
	}
	return conn.Close()
}
