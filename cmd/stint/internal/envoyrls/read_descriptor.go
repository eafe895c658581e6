package envoyrls

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// root parses the top level of a file.
func (r *reader) root(n *yaml.Node) {
	r.file.at, r.file.top = n, newNode()
	var descriptors *yaml.Node
	r.mapping(n, "the top of a file", map[string]field{
		"domain":      func(n *yaml.Node) { r.file.at = n; r.text("domain", &r.file.domain)(n) },
		"descriptors": func(n *yaml.Node) { descriptors = n },
	})
	if r.file.domain == "" && len(r.mistakes) == 0 {
		r.mistake(r.file.at, "config file cannot have empty domain", "name the domain that Envoy sends: domain: …")
	}
	if descriptors != nil {
		r.descriptors(descriptors, r.file.top, r.file.domain, 0)
	}
}

func newNode() *node { return &node{children: map[pair]*node{}} }

// descriptors parses a list of descriptors and adds them to their parent.
func (r *reader) descriptors(n *yaml.Node, parent *node, path string, depth int) {
	switch {
	case n.Kind != yaml.SequenceNode:
		r.mistake(n, "descriptors must be a list", "begin each with - key: …")
		return
	case depth >= maxDepth:
		r.mistake(n, "descriptors are nested too deeply", fmt.Sprintf("at most %d levels", maxDepth))
		return
	}
	for _, one := range n.Content {
		if r.nodes++; r.nodes > maxNodes {
			r.mistakes = nil // there may be very many; the next one explains them
			r.mistake(one, fmt.Sprintf("there are more than %d descriptors and limits", maxNodes), "split the file")
			return
		}
		if r.names > maxNames {
			return // reported already
		}
		r.descriptor(target(one), parent, path, depth)
	}
}

// rawDescriptor is a descriptor as written in the file.
type rawDescriptor struct {
	pair

	limits                        []*yaml.Node
	nested, metadata              *yaml.Node
	shadow, quota, share          bool
	detailedMetric, valueToMetric bool
	at, metricAt, shareAt         *yaml.Node
}

func (r *reader) descriptor(n *yaml.Node, parent *node, path string, depth int) {
	d := &rawDescriptor{at: n}
	before := len(r.mistakes)
	var one, several []*yaml.Node
	r.mapping(n, "a descriptor", map[string]field{
		"key":             r.text("key", &d.key),
		"value":           r.text("value", &d.value),
		"rate_limit":      r.limitNodes(&one),
		"rate_limits":     r.limitNodes(&several),
		"descriptors":     func(n *yaml.Node) { d.nested = n },
		"metadata":        func(n *yaml.Node) { d.metadata = n },
		"shadow_mode":     r.flag("shadow_mode", &d.shadow),
		"quota_mode":      r.flag("quota_mode", &d.quota),
		"share_threshold": func(n *yaml.Node) { d.shareAt = n; r.flag("share_threshold", &d.share)(n) },
		"detailed_metric": func(n *yaml.Node) { d.metricAt = n; r.flag("detailed_metric", &d.detailedMetric)(n) },
		"value_to_metric": func(n *yaml.Node) { d.metricAt = n; r.flag("value_to_metric", &d.valueToMetric)(n) },
	})
	d.limits = slices.Concat(one, several)
	if len(r.mistakes) > before || !r.checked(d, parent, path) {
		return
	}
	if r.names += len(path) + 1 + len(d.text()); r.names > maxNames {
		r.mistake(n, fmt.Sprintf("the names of all descriptors are longer than %d bytes", maxNames), "split the file, or shorten keys and values")
		return
	}
	r.add(d, parent, path+"."+d.text(), depth)
}

// text returns the descriptor's name in Envoy's service.
func (d *rawDescriptor) text() string {
	if d.value == "" {
		return d.key
	}
	return d.key + "_" + d.value
}

// pattern returns the part that may contain asterisks: the value, or the key if there
// is no value.
func (d *rawDescriptor) pattern() string {
	if d.value == "" {
		return d.key
	}
	return d.value
}

// wild reports whether a descriptor matches several values or keys.
func (d *rawDescriptor) wild() bool { return strings.Contains(d.pattern(), "*") }

// checked reports whether a descriptor is valid, by itself and among its siblings. It
// records a mistake if not.
func (r *reader) checked(d *rawDescriptor, parent *node, path string) bool {
	switch {
	case d.key == "":
		r.mistake(d.at, "descriptor has empty key", "give each descriptor a key: …")
	case parent.children[d.pair] != nil:
		r.mistake(d.at, fmt.Sprintf("duplicate descriptor composite key '%s.%s'", path, d.text()), "keep one, and nest under it")
	case d.share && !d.wild():
		r.mistake(d.shareAt, "share_threshold can only be used with wildcard values, but found key '"+d.text()+"'", "put a * into the value, or remove share_threshold")
	default:
		return true
	}
	return false
}

// add adds the node of a descriptor, and its nested descriptors.
func (r *reader) add(d *rawDescriptor, parent *node, path string, depth int) {
	if d.metricAt != nil && (d.detailedMetric || d.valueToMetric) {
		r.warn(d.metricAt, "has no effect: metrics never carry values that callers choose", "")
	}
	child := newNode()
	if d.share {
		child.share = d.pattern()
	}
	parent.children[d.pair] = child
	if d.wild() {
		parent.wild = append(parent.wild, wildcard{d.pair, child})
	}
	child.limits = r.limits(d, path)
	if d.nested != nil {
		r.descriptors(d.nested, child, path, depth+1)
	}
}

// describe parses metadata, which may be any mapping.
func (r *reader) describe(n *yaml.Node) *structpb.Struct {
	if n == nil {
		return nil
	}
	read, there := r.metadata[n]
	if !there {
		if r.weigh(n, maxDepth); r.details <= maxNames {
			read = r.decode(n)
		} else {
			r.mistake(n, fmt.Sprintf("the metadata of all descriptors is longer than %d bytes, or nested too deeply", maxNames), "shorten it, or split the file")
		}
		r.metadata[n] = read
	}
	return read
}

// weigh adds the size of metadata to r.details, and counts an alias each time it is
// used. It exceeds the limit on purpose if the nesting is too deep.
func (r *reader) weigh(n *yaml.Node, depth int) {
	const others = 100 // bytes that a value takes in addition to its text
	if r.details += others + len(n.Value); depth == 0 {
		r.details = maxNames + 1
	}
	if n.Kind == yaml.AliasNode && r.details <= maxNames {
		r.weigh(n.Alias, depth-1)
	}
	for i := 0; i < len(n.Content) && r.details <= maxNames; i++ {
		r.weigh(n.Content[i], depth-1)
	}
}

func (r *reader) decode(n *yaml.Node) *structpb.Struct {
	var values map[string]any
	if err := n.Decode(&values); err != nil {
		r.mistake(n, "metadata must be keys and values", "")
		return nil
	}
	s, err := structpb.NewStruct(values)
	if err == nil {
		_, err = protojson.Marshal(s) // fails for infinities
	}
	if err != nil {
		r.mistake(n, "metadata cannot be sent to Envoy: "+err.Error(), "use text, numbers, true, false, lists and mappings with text as keys")
		return nil
	}
	return s
}
