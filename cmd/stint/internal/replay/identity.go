package replay

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/suggest"
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

// The beginnings of keys that replace a missing attribute, as in rules. A value
// of a request contains no control characters, so it never equals such a key.
const (
	markAddress = "\x01"
	markShared  = "\x02shared"
)

// substitute returns the key of an event without the attribute to count by. It
// counts as under a rule: by its address, or together with all others that have
// none either.
func substitute(f fields) (string, error) {
	ip, _ := f.attribute("ip")
	if ip == "" {
		return markShared, nil
	}
	ip = identity("ip", ip)
	return markAddress + ip, stint.ValidateKey(ip)
}

// UnknownAttributeError reports that no event of the inputs can have the
// attribute that a limit counts by.
type UnknownAttributeError struct {
	Name  string
	Known []string // some of the attributes that events have, sorted
}

// Error names the attribute and a similar one, or those that there are.
func (e *UnknownAttributeError) Error() string {
	near, ok := suggest.Name(e.Name, e.Known)
	if !ok {
		near, ok = e.header()
	}
	if ok {
		return fmt.Sprintf("by: no event has the attribute %.60q (did you mean %q?)", e.Name, near)
	}
	shown, more := e.Known, ""
	if hidden := len(shown) - mostShown; hidden > 0 {
		shown, more = shown[:mostShown], fmt.Sprintf(" and %d others", hidden)
	}
	return fmt.Sprintf("by: no event has the attribute %.60q (the events have %s%s)", e.Name, strings.Join(shown, ", "), more)
}

// header returns the header whose name the wrong one is like.
func (e *UnknownAttributeError) header() (name string, ok bool) {
	var headers []string
	for _, known := range e.Known {
		if header, is := strings.CutPrefix(known, headerPrefix); is {
			headers = append(headers, header)
		}
	}
	near, ok := suggest.Name(e.Name, headers)
	return headerPrefix + near, ok
}

const headerPrefix = "header:"

// mostShown is the number of attributes in the error.
const mostShown = 20

// byTally counts the events that lack the attribute to count by, and learns
// which attributes there are. The goroutines of all inputs share it.
type byTally struct {
	by      string
	found   atomic.Bool
	missing atomic.Int64

	mu    sync.Mutex
	open  bool     // guarded by mu; an event may have attributes that no event before it had
	known []string // guarded by mu; sorted, at most mostKnown
}

// mostKnown bounds the attributes that byTally remembers, and their length.
const (
	mostKnown     = 256
	longestKnown  = 64
	learnedEvents = 1000 // of those that lack the attribute
)

// see records an event that has the attribute.
func (t *byTally) see() {
	if !t.found.Load() {
		t.found.Store(true)
	}
}

// miss records an event that lacks the attribute, and what attributes it can
// have.
func (t *byTally) miss(format Format, line string, event fields) {
	if t.missing.Add(1) > learnedEvents || t.found.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	names, open := format.names(line)
	t.open = t.open || open
	for _, name := range names {
		t.learnLocked(name)
	}
	for _, f := range event {
		if f.kind != kindNull && f.kind != kindCompound {
			t.learnLocked(f.name)
		}
	}
}

func (t *byTally) learnLocked(name string) {
	if at, known := slices.BinarySearch(t.known, name); !known && len(t.known) < mostKnown && len(name) <= longestKnown {
		t.known = slices.Insert(t.known, at, strings.Clone(name))
	}
}

// unknown returns an error if no event can have the attribute. Before the end of
// the inputs, a later JSON line may have it.
func (t *byTally) unknown(atEnd bool) error {
	if t.by == "" || t.found.Load() || t.missing.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open && !atEnd || slices.Contains(t.known, t.by) {
		return nil
	}
	return &UnknownAttributeError{t.by, slices.Clone(t.known)}
}
