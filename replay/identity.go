package replay

import (
	"net/netip"
	"strings"

	"github.com/stintdev/stint/rule"
)

// subscriberBits is how much of an IPv6 address one subscriber is given.
const subscriberBits = 64

// identity is whose use an attribute names, in the form in which rules count
// it: a path without doubled slashes, a host without its port. IPv4 in an IPv6 address is IPv4, and IPv6 counts by its /64 network. A
// host that is not an address, as some servers log it, counts by its name.
func identity(by, value string) string {
	if by != "ip" {
		return rule.AttributeForm(by, value)
	}
	if strings.IndexByte(value, ':') < 0 {
		return value
	}
	address, err := netip.ParseAddr(value)
	if err != nil {
		return value
	}
	if address = address.Unmap().WithZone(""); address.Is4() {
		return address.String()
	}
	network, _ := address.Prefix(subscriberBits) // fails only for other sizes of address
	return network.String()
}
