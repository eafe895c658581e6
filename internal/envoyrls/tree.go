package envoyrls

import (
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// pair is what a node is found by: an exact key and value. A node of a key
// alone, which stands for every value, has an empty value.
type pair struct{ key, value string }

// node is a descriptor of a configuration, or the top of a domain.
type node struct {
	children map[pair]*node
	wild     []wildcard // in the order of the file
	limits   []*limit   // none: a step on the way to others
	share    string     // the pattern that stands for the value when it is counted; may be empty
}

// wildcard is a child whose value, or whose key when it has no value, holds
// asterisks.
type wildcard struct {
	pair
	node *node
}

func (w *wildcard) matches(key, value string) bool {
	if w.value == "" {
		return glob(w.key, key)
	}
	return w.key == key && glob(w.value, value)
}

// child finds what an entry of a request leads to: the node of its value, else
// the first wildcard that matches, else the node of its key.
func (n *node) child(key, value string) *node {
	if value != "" {
		if found := n.children[pair{key, value}]; found != nil {
			return found
		}
	}
	for i := range n.wild {
		if n.wild[i].matches(key, value) {
			return n.wild[i].node
		}
	}
	return n.children[pair{key: key}]
}

// found is the limits of a descriptor, and the values that it is counted by in
// place of its own (nil, or one an entry; empty means the entry's own).
type found struct {
	limits []*limit
	shared []string
}

// find walks down a domain. The limits are those of the last entry: a
// descriptor that goes on where the configuration ends, or ends where that goes
// on, has none.
func (n *node) find(entries []*common.RateLimitDescriptor_Entry) (f found) {
	for i, entry := range entries {
		if n = n.child(entry.GetKey(), entry.GetValue()); n == nil {
			return found{}
		}
		if n.share != "" {
			if f.shared == nil {
				f.shared = make([]string, len(entries))
			}
			f.shared[i] = n.share
		}
	}
	f.limits = n.limits
	return f
}

// glob reports whether text matches a pattern whose asterisks stand for any
// text, also none.
func glob(pattern, text string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	for ok {
		part, more, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(text, part)
		}
		var at int
		if at = strings.Index(text, part); at < 0 {
			return false
		}
		text, rest = text[at+len(part):], more
	}
	return false
}
