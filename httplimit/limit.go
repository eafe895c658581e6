package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/stintdev/stint"
)

// Option changes what [Limit] does.
type Option func(m *Middleware, c *Counter)

// By counts by these attributes in place of the client's address; see [Counter.By].
func By(attributes ...string) Option {
	return func(_ *Middleware, c *Counter) { c.By = attributes }
}

// Trust makes Limit believe the forwarding headers of these proxies; see [Clients].
func Trust(proxies ...netip.Prefix) Option {
	return func(m *Middleware, _ *Counter) { m.Identity.Clients.Trusted = proxies }
}

// Limit returns middleware that counts requests under a limiter, by the client's
// address unless an option says otherwise. It is shorthand for a [Middleware] whose
// decider is a [Counter]; use these types for all other settings. The error reports a
// limiter without limits, an unknown attribute, or a claim without Tokens.
func Limit(limiter *stint.Limiter, opts ...Option) (func(http.Handler) http.Handler, error) {
	c := &Counter{Limiter: limiter}
	m := &Middleware{Decider: c}
	for _, opt := range opts {
		opt(m, c)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	if slices.ContainsFunc(c.By, isClaim) && m.Identity.Tokens == nil {
		return nil, fmt.Errorf("httplimit: claims: %w", errNoTokens)
	}
	return m.Wrap, nil
}
