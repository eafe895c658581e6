package rule

import (
	"net/netip"
	"slices"
	"strings"
)

// networks finds the values of every network that contains an address. A lookup
// costs one map access for each prefix length in use.
type networks struct {
	values map[netip.Prefix][]int32
	bits4  []int // prefix lengths in use, the longest first
	bits6  []int
}

func (n *networks) add(p netip.Prefix, value int32) {
	if n.values == nil {
		n.values = make(map[netip.Prefix][]int32)
	}
	n.values[p] = append(n.values[p], value)
	bits := &n.bits6
	if p.Addr().Is4() {
		bits = &n.bits4
	}
	if !slices.Contains(*bits, p.Bits()) {
		*bits = append(*bits, p.Bits())
		slices.SortFunc(*bits, func(a, b int) int { return b - a })
	}
}

// collect appends the values of the networks that contain a, the smallest
// network first.
func (n *networks) collect(a netip.Addr, found []int32) []int32 {
	bits := n.bits6
	if a.Is4() {
		bits = n.bits4
	}
	for _, b := range bits {
		if p, err := a.Prefix(b); err == nil {
			found = append(found, n.values[p]...)
		}
	}
	return found
}

// parseNetwork parses a network, or an address as the network of only that
// address. An IPv4-mapped IPv6 network becomes IPv4. Host bits are cleared.
func parseNetwork(text string) (netip.Prefix, bool) {
	if !strings.Contains(text, "/") {
		a, err := parseAddress(text)
		if err != nil {
			return netip.Prefix{}, false
		}
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, false
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// parseAddress parses an address in the form that identities use: IPv4-mapped
// IPv6 becomes IPv4, and a zone is removed.
func parseAddress(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err
}
