package rule

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/hostname"
	"github.com/stintdev/stint/internal/urlpath"
)

// slot is the index of an attribute in one set. The well-known attributes have
// the same slots in every set. Other attributes get slots in the order in which
// the rules mention them.
type slot int32

const (
	slotAPIKey slot = iota
	slotIP
	slotMethod
	slotPath
	slotHost
	slotTier
	wellKnownSlots
)

var wellKnownNames = [wellKnownSlots]string{"api_key", "ip", "method", "path", "host", "tier"}

// noTier is the tier index of a request without a tier.
const noTier = -1

// request holds the attributes that one decision has read so far and its
// scratch buffers. Requests are pooled and reused.
type request struct {
	set        *Set
	attributes Attributes
	cost       int64
	values     []attribute
	address    netip.Addr
	tier       int32
	tierKnown  bool
	now        int64 // time of the decision, in µs; 0: not read yet
	list       List
	err        error // the first error of an attribute

	found  []int32 // candidate rules, by index
	buffer []int32 // scratch for selectors
	text   []byte
	parts  []string
	claims
}

// attribute is one attribute value. It is read at most once.
type attribute struct {
	text    string
	fetched bool
	present bool
	err     error // set when the value cannot be read
}

// get returns an attribute in the normal form that rules compare. An empty
// value counts as absent. An attribute that cannot be read fails the request as
// soon as any rule needs it.
func (q *request) get(s slot) (text string, ok bool) {
	v := &q.values[s]
	if !v.fetched {
		v.fetched = true
		q.read(s, v)
	}
	if v.err != nil {
		q.fail(v.err)
	}
	return v.text, v.present
}

func (q *request) read(s slot, v *attribute) {
	name := q.set.slots.names[s]
	text, ok := q.attributes.Attribute(name)
	if !ok || text == "" {
		if refuser, ok := q.attributes.(Refuser); ok {
			v.err = refuser.Refusal(name)
		}
		return
	}
	v.text, v.err = q.normal(s, text)
	v.present = v.err == nil
}

// normal returns the canonical form of an attribute that can be written in
// several ways.
func (q *request) normal(s slot, text string) (string, error) {
	switch s {
	case slotIP:
		return q.normalIP(text)
	case slotPath:
		form, err := q.set.pathEncoding.read(text)
		if err != nil {
			return "", &stint.Error{Code: stint.CodeInvalid, Problem: "path: " + err.Error(), Mend: "send them unencoded"}
		}
		return form, nil
	}
	return formOf(s, text), nil
}

// formOf returns the canonical form of an attribute as far as it does not
// depend on the set.
func formOf(s slot, text string) string {
	switch s {
	case slotPath:
		if form, err := urlpath.Decode(text); err == nil {
			return form
		}
		return urlpath.Normalize(text)
	case slotHost:
		return hostname.Normalize(text)
	case slotMethod:
		return strings.ToUpper(text)
	}
	return text
}

func (q *request) normalIP(text string) (string, error) {
	a, err := parseAddress(text)
	if err != nil {
		return "", &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("ip: %.60q is not an address", text),
			Mend: "send the address alone, such as 203.0.113.7 or 2001:db8::1"}
	}
	q.address = a
	return q.addressText(text), nil
}

// addressText returns the text under which an address is counted: for IPv4 the
// address itself, for IPv6 the network of one subscriber. It returns given when
// the text is the same, which saves a copy.
func (q *request) addressText(given string) string {
	bits := q.set.ipv6Bits
	q.text = q.text[:0]
	if q.address.Is4() || bits == 128 {
		q.text = q.address.AppendTo(q.text)
	} else if p, err := q.address.Prefix(bits); err == nil {
		q.text = p.AppendTo(q.text)
	}
	if string(q.text) == given {
		return given
	}
	return string(q.text)
}

// ip returns the full address.
func (q *request) ip() (netip.Addr, bool) {
	_, ok := q.get(slotIP)
	return q.address, ok
}

// fail keeps the first error.
func (q *request) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// tierOf returns the index of the request's declared tier, or noTier. The tier
// attribute decides if it names a declared tier; otherwise the tier pattern
// that matches the API key best decides.
func (q *request) tierOf() int32 {
	if !q.tierKnown {
		q.tier, q.tierKnown = q.findTier(), true
	}
	return q.tier
}

func (q *request) findTier() int32 {
	tiers := &q.set.tiers
	if name, ok := q.get(slotTier); ok {
		if i, declared := tiers.byName[name]; declared {
			return i
		}
	}
	if !tiers.byKey.hasTexts() {
		return noTier
	}
	if key, ok := q.get(slotAPIKey); ok {
		if i, ok := q.selectedByText(&tiers.byKey, key); ok {
			return i
		}
	}
	return noTier
}
