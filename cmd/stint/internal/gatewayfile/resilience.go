package gatewayfile

import (
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/cmd/stint/internal/gateway"
	"github.com/stintdev/stint/cmd/stint/internal/yamlfile"
	"github.com/stintdev/stint/resilience/breaker"
	"github.com/stintdev/stint/resilience/bulkhead"
)

// duration, positive and share return the field that reads a value of that form into a
// member of T.
func duration[T any](key string, member func(*T) *time.Duration) yamlfile.Field[T] {
	return func(r *yamlfile.Reader, n *yaml.Node, into *T) { *member(into) = r.Duration(n, key) }
}

func positive[T any](key string, member func(*T) *int) yamlfile.Field[T] {
	return func(r *yamlfile.Reader, n *yaml.Node, into *T) { *member(into) = r.Positive(n, key) }
}

func share[T any](key string, member func(*T) *float64) yamlfile.Field[T] {
	return func(r *yamlfile.Reader, n *yaml.Node, into *T) { *member(into) = r.Share(n, key) }
}

func readTimeouts(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
	type group = gateway.GroupOptions
	yamlfile.Fields(r, n, "timeouts", map[string]yamlfile.Field[group]{
		"connect": func(r *yamlfile.Reader, n *yaml.Node, g *group) {
			g.DialTimeout = r.Duration(n, "connect")
			g.TLSHandshakeTimeout = g.DialTimeout
		},
		"header": duration("header", func(g *group) *time.Duration { return &g.ResponseHeaderTimeout }),
		"whole":  duration("whole", func(g *group) *time.Duration { return &g.Timeout }),
		"idle":   duration("idle", func(g *group) *time.Duration { return &g.IdleTimeout }),
	}, g)
}

func readBreaker(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
	type options = breaker.Options
	g.Breaker = &options{}
	yamlfile.Fields(r, n, "breaker", map[string]yamlfile.Field[options]{
		"failure_ratio": share("failure_ratio", func(o *options) *float64 { return &o.FailureRatio }),
		"minimum_calls": positive("minimum_calls", func(o *options) *int { return &o.MinimumCalls }),
		"window":        duration("window", func(o *options) *time.Duration { return &o.Window }),
		"open_for":      duration("open_for", func(o *options) *time.Duration { return &o.OpenFor }),
		"max_open_for":  duration("max_open_for", func(o *options) *time.Duration { return &o.MaxOpenFor }),
	}, g.Breaker)
}

func readEjection(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
	type options = gateway.EjectionOptions
	g.Ejection = &options{}
	yamlfile.Fields(r, n, "ejection", map[string]yamlfile.Field[options]{
		"failures":  positive("failures", func(o *options) *int { return &o.Failures }),
		"for":       duration("for", func(o *options) *time.Duration { return &o.For }),
		"max_for":   duration("max_for", func(o *options) *time.Duration { return &o.MaxFor }),
		"max_share": share("max_share", func(o *options) *float64 { return &o.MaxShare }),
	}, g.Ejection)
}

func readPanicBelow(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
	if n.Value == "off" {
		g.PanicBelow = -1
		return
	}
	g.PanicBelow = r.Share(n, "panic_below")
}

func readBulkhead(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
	type options = bulkhead.Options
	g.Bulkhead = &options{}
	at := yamlfile.Fields(r, n, "bulkhead", map[string]yamlfile.Field[options]{
		"limit":    positive("limit", func(o *options) *int { return &o.Limit }),
		"queue":    positive("queue", func(o *options) *int { return &o.Queue }),
		"max_wait": duration("max_wait", func(o *options) *time.Duration { return &o.MaxWait }),
	}, g.Bulkhead)
	if at["limit"] == nil {
		r.Mistake(n, "bulkhead has no limit", "write limit: and how many requests may be in flight")
	}
	if g.Bulkhead.Limit == 0 {
		g.Bulkhead = nil // so that it is not reported again
	}
}

func readRetry(r *yamlfile.Reader, n *yaml.Node, g *gateway.GroupOptions) {
	type options = gateway.RetryOptions
	g.Retry = &options{}
	yamlfile.Fields(r, n, "retry", map[string]yamlfile.Field[options]{
		"attempts": positive("attempts", func(o *options) *int { return &o.Attempts }),
		"budget":   share("budget", func(o *options) *float64 { return &o.Budget }),
		"on": func(r *yamlfile.Reader, n *yaml.Node, o *options) {
			r.Items(n, "on", func(item *yaml.Node) { o.On = append(o.On, r.Text(item, "on")) })
		},
	}, g.Retry)
}

func readFallback(r *yamlfile.Reader, n *yaml.Node, route *gateway.RouteOptions) {
	type options = gateway.FallbackOptions
	route.Fallback = &options{}
	yamlfile.Fields(r, n, "fallback", map[string]yamlfile.Field[options]{
		"status": positive("status", func(o *options) *int { return &o.Status }),
		"body":   func(r *yamlfile.Reader, n *yaml.Node, o *options) { o.Body = r.Text(n, "body") },
		"headers": func(r *yamlfile.Reader, n *yaml.Node, o *options) {
			o.Headers = map[string]string{}
			r.Pairs(n, "headers", func(key, value *yaml.Node) { o.Headers[key.Value] = r.Text(value, key.Value) })
		},
	}, route.Fallback)
}
