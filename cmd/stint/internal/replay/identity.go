package replay

import (
	"net/netip"
	"strings"

	"github.com/stintdev/stint/rule"
)

// subscriberBits is the prefix length of the IPv6 network of one subscriber.
const subscriberBits = 64

// identity returns an attribute value in the form that rules count: a path
// without doubled slashes, a host without its port. An IPv4-mapped IPv6 address
// becomes IPv4, and IPv6 counts by its /64 network. A client that the log names
// by host name counts by that name.
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
	network, _ := address.Prefix(subscriberBits) // the prefix length is valid for IPv6
	return network.String()
}
