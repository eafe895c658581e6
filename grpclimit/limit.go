package grpclimit

import (
	"fmt"
	"net/netip"

	"github.com/stintdev/stint"
)

// Option changes what [Limit] does.
type Option func(s *Server, c *Counter)

// By counts by these attributes in place of the client's address; see [Counter.By].
func By(attributes ...string) Option {
	return func(_ *Server, c *Counter) { c.By = attributes }
}

// ByKey counts by the key that a function returns for each call; see [Counter.Key].
func ByKey(key func(c *Call) string) Option {
	return func(_ *Server, c *Counter) { c.Key = key }
}

// Trust makes Limit believe the forwarding headers of these proxies; see
// [httplimit.Clients].
func Trust(proxies ...netip.Prefix) Option {
	return func(s *Server, _ *Counter) { s.Identity.Clients.Trusted = proxies }
}

// Messages also counts each message of a client stream; see [Server.Messages].
func Messages() Option {
	return func(s *Server, c *Counter) { s.Messages = c }
}

// Limit returns interceptors that count calls under a limiter, by the client's address
// unless an option says otherwise. It is shorthand for a [Server] whose decider is a
// [Counter]; use these types for all other settings. The error reports a limiter
// without limits, or an attribute that calls do not have.
func Limit(limiter *stint.Limiter, opts ...Option) (*Server, error) {
	c := &Counter{Limiter: limiter}
	s := &Server{Decider: c}
	for _, opt := range opts {
		opt(s, c)
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("grpclimit: %w", err)
	}
	return s, nil
}
