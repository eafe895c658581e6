package envoyrls

import (
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// pair is the lookup key of a node: an exact key and value. A node that matches every
// value of its key has an empty value.
type pair struct{ key, value string }

// node is a descriptor of a configuration, or the root of a domain.
type node struct {
	children map[pair]*node
	wild     []wildcard // in the order of the file
	limits   []*limit   // none: an inner node without limits
	share    string     // share_threshold: the pattern that replaces the value in the counter's key; may be empty
}

// wildcard is a child whose value contains asterisks, or whose key does if it has no
// value.
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

// child returns the node for an entry of a request: the node of the exact key and value, or the
// first matching wildcard, or the node of the key alone, in this order.
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

// found is the limits of a descriptor, and the patterns that replace its values in the
// counter's key. shared is nil, or has one entry for each value; "" keeps the value.
type found struct {
	limits []*limit
	shared []string
}

// find looks up a descriptor. Its limits are those of the node of its last entry. A
// descriptor that is longer or shorter than the configured path has none.
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

// glob reports whether text matches a pattern in which each asterisk matches any text,
// including none.
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
