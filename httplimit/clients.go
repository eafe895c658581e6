package httplimit

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ForwardedBy selects the header in which trusted proxies name the addresses they
// forward for. The zero value is [EitherHeader].
type ForwardedBy uint8

// The values of [ForwardedBy].
const (
	// EitherHeader reads X-Forwarded-For, or Forwarded if the request has none. It is
	// safe behind proxies that write X-Forwarded-For, as nearly all do: a client's own
	// Forwarded is then never read. It is not safe behind proxies that write only
	// Forwarded, because a client could then send its own X-Forwarded-For. Use
	// Forwarded there.
	EitherHeader ForwardedBy = iota
	// XForwardedFor reads X-Forwarded-For only.
	XForwardedFor
	// Forwarded reads Forwarded (RFC 7239) only.
	Forwarded
)

var forwardedByNames = [...]string{"either", "x-forwarded-for", "forwarded"}

// String returns the name of the header in lower case, or "either".
func (f ForwardedBy) String() string {
	if int(f) < len(forwardedByNames) {
		return forwardedByNames[f]
	}
	return fmt.Sprintf("forwarded-by(%d)", uint8(f))
}

// Clients finds the client address of a request. The zero value trusts no proxy: the
// client is the peer of the connection.
//
// If the peer is a trusted proxy, its header lists the hops of the request, the last
// one being that proxy's own peer. Clients reads the hops from right to left, up to
// the first hop that is not trusted: that hop is the client, and everything to its
// left may be forged. All lines of the header count as one list, in order. A hop that
// cannot be parsed, such as an obfuscated or unknown one, ends the search, and the hop
// read before it is the client. If every hop is trusted, the leftmost hop is the
// client.
type Clients struct {
	// Trusted is the networks of the proxies whose headers are believed. IPv4-mapped
	// IPv6 networks match nothing; [ParsePrefixes] converts them.
	Trusted []netip.Prefix
	// Header selects the header that these proxies write.
	Header ForwardedBy
}

// Addr returns the client address of a request, without a zone; an IPv4-mapped IPv6
// address becomes IPv4. It is the zero Addr if the peer has no address, as on a Unix
// socket.
func (c *Clients) Addr(r *http.Request) netip.Addr {
	peer := peerOf(r)
	if !c.trusts(peer) {
		return peer
	}
	lines, element := r.Header["X-Forwarded-For"], lastListed
	if c.Header == Forwarded || c.Header == EitherHeader && blank(lines) {
		lines, element = r.Header["Forwarded"], lastForwarded
	}
	return c.walk(peer, lines, element)
}

// TrustsPeer reports whether the peer of the request is a trusted proxy.
func (c *Clients) TrustsPeer(r *http.Request) bool { return c.trusts(peerOf(r)) }

func (c *Clients) validate() error {
	for _, p := range c.Trusted {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("trusted proxies: %v matches nothing (use ParsePrefixes)", p)
		}
	}
	if int(c.Header) >= len(forwardedByNames) {
		return fmt.Errorf("trusted proxies: the header %v is unknown (use EitherHeader, XForwardedFor or Forwarded)", c.Header)
	}
	return nil
}

func peerOf(r *http.Request) netip.Addr {
	if peer, err := netip.ParseAddrPort(r.RemoteAddr); err == nil { // as net/http writes it
		return peer.Addr().Unmap().WithZone("")
	}
	peer, _ := parseHop(r.RemoteAddr)
	return peer
}

// walk reads hops from right to left until one is not trusted. last cuts the last hop
// from a line.
func (c *Clients) walk(peer netip.Addr, lines []string, last func(line string) (rest, hop string)) netip.Addr {
	client := peer
	for _, line := range slices.Backward(lines) {
		for line := line; line != ""; {
			var hop string
			line, hop = last(line)
			if hop == "" {
				continue
			}
			addr, ok := parseHop(hop)
			if !ok {
				return client
			}
			if client = addr; !c.trusts(addr) {
				return client
			}
		}
	}
	return client
}

func (c *Clients) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(c.Trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// lastListed cuts the last element from a line of X-Forwarded-For. An empty
// element is no hop (RFC 9110, section 5.6.1).
func lastListed(line string) (rest, hop string) {
	comma := strings.LastIndexByte(line, ',')
	return line[:max(comma, 0)], strings.Trim(line[comma+1:], " \t")
}

// parseHop reads an address with or without a port, IPv6 with or without
// brackets.
func parseHop(hop string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(hop)
	if err != nil {
		withPort, portErr := netip.ParseAddrPort(hop)
		addr, err = withPort.Addr(), portErr
	}
	if err != nil && len(hop) > 2 && hop[0] == '[' && hop[len(hop)-1] == ']' {
		addr, err = netip.ParseAddr(hop[1 : len(hop)-1])
	}
	return addr.Unmap().WithZone(""), err == nil
}

func blank(lines []string) bool { return strings.Trim(strings.Join(lines, ","), " \t,") == "" }

// ParsePrefixes reads networks, such as "10.0.0.0/8", and single addresses.
// IPv4-mapped networks become those of IPv4.
func ParsePrefixes(list ...string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(list))
	for _, text := range list {
		prefix, err := parsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is neither a network nor an address (write 10.0.0.0/8, 2001:db8::/32 or 10.1.2.3)", text)
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), err
	}
	prefix, err := netip.ParsePrefix(text)
	if err == nil && prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
		return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96).Masked(), nil
	}
	return prefix.Masked(), err
}
