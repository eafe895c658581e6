package httplimit

import (
	"net/netip"
	"slices"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/urlpath"
)

// shared is the key of requests without any identity.
const shared = "shared"

// keyMaker makes the keys for one limiter.
type keyMaker struct {
	function   func(r *Request) (string, error) // nil: by applies
	by         []string
	ipv6Prefix int
	claims     bool // by has a claim of a token
}

func newKeyMaker(p Part, ipv6Prefix int) keyMaker {
	k := keyMaker{function: p.Key, by: slices.Clone(p.By), ipv6Prefix: ipv6Prefix}
	if ipv6Prefix == 0 {
		k.ipv6Prefix = 64
	}
	k.claims = slices.ContainsFunc(k.by, isClaim)
	return k
}

func (k *keyMaker) key(r *Request) (string, error) {
	if k.function != nil {
		key, err := k.function(r)
		if err != nil {
			return "", err
		}
		if key != "" {
			key = "key:" + key
			return key, stint.ValidateKey(key)
		}
	}
	if k.claims && r.Identity().Tokens == nil {
		return "", &stint.Error{Problem: "the requests cannot be counted", Err: errNoTokens}
	}
	return k.byAttributes(r)
}

func (k *keyMaker) byAttributes(r *Request) (string, error) {
	parts := make([]string, 0, 4)
	for _, name := range k.by {
		value, err := k.value(r, name)
		if err != nil {
			return "", err
		}
		if value == "" {
			parts = parts[:0]
			break
		}
		if err := stint.ValidateKey(value); err != nil {
			return "", err
		}
		parts = append(parts, name+":"+value)
	}
	if len(parts) > 0 {
		return stint.JoinKey(parts...), nil
	}
	if addr := r.Addr(); addr.IsValid() {
		var room [64]byte
		return string(k.appendClient(append(room[:0], "ip:"...), addr)), nil
	}
	return shared, nil
}

func (k *keyMaker) value(r *Request, name string) (string, error) {
	value, err := r.attribute(name)
	switch {
	case err != nil:
		return "", err
	case name == "ip" && value != "":
		return string(k.appendClient(nil, r.Addr())), nil
	case name == "path":
		path, err := urlpath.Decode(value)
		if err != nil {
			return "", refused("path", err.Error(), "send them unencoded")
		}
		return path, nil
	}
	return value, nil
}

// appendClient appends the prefix of an address that identifies the client.
func (k *keyMaker) appendClient(to []byte, addr netip.Addr) []byte {
	if addr.Is4() {
		return addr.AppendTo(to)
	}
	return netip.PrefixFrom(addr, k.ipv6Prefix).Masked().AppendTo(to)
}
