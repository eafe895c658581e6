package ruleedit

import (
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint"
)

// PutTier sets the fields of a tier that the body names and keeps the others. A
// null value removes a field. An undeclared tier is declared. The body is a
// mapping in JSON or YAML.
func PutTier(tier string, body []byte) Edit {
	return Edit{"tier " + tier, func(e *editor) (*change, error) {
		fields, err := e.bodyMapping(body, "a tier")
		if err != nil {
			return nil, err
		}
		found, err := e.tier(tier)
		if err != nil {
			return e.addTier(tier, fields), nil //nolint:nilerr // the tier is new
		}
		n := found.node()
		return found.change(opReplace, func() { *found.path[len(found.path)-1].slot() = mergeFields(n, fields) }), nil
	}}
}

// ReplaceTier replaces a tier, or declares it. The body is a mapping, or one limit
// such as 500/m, in JSON or YAML.
func ReplaceTier(tier string, body []byte) Edit {
	return Edit{"tier " + tier, func(e *editor) (*change, error) {
		n, err := e.body(body)
		if err != nil {
			return nil, err
		}
		if err := checkRepeatedKeys(n); err != nil {
			return nil, err
		}
		found, err := e.tier(tier)
		if err != nil {
			return e.addTier(tier, n), nil //nolint:nilerr // the tier is new
		}
		return found.replace(n), nil
	}}
}

func (e *editor) addTier(tier string, n *yaml.Node) *change {
	dropNull(n)
	if n.Kind == yaml.MappingNode {
		n.Style |= yaml.FlowStyle
	}
	return e.addTop([]string{"tiers"}, yaml.MappingNode, textNode(tier), n)
}

// DeleteTier removes a tier. The tier name then becomes a mere label in rules
// that use it.
func DeleteTier(tier string) Edit {
	return Edit{"tier " + tier, func(e *editor) (*change, error) {
		found, err := e.tier(tier)
		if err != nil {
			return nil, err
		}
		return found.remove(func() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle} }), nil
	}}
}

// tier finds a declared tier. The error is a [*NotFoundError].
func (e *editor) tier(name string) (site, error) {
	for s := range e.documents() {
		if tiers, ok := s.key("tiers"); ok {
			if found, ok := tiers.key(name); ok {
				return found, nil
			}
		}
	}
	return site{}, &NotFoundError{fmt.Sprintf("tier %.80q", name)}
}

func dropNull(n *yaml.Node) {
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if n.Content[i+1].ShortTag() == "!!null" {
			removeEntry(n, n.Content[i].Value)
		}
	}
}

// mergeFields returns the limits of a place with the given fields changed. A
// short form is expanded, so that a part of it can stay.
func mergeFields(n, fields *yaml.Node) *yaml.Node {
	if n.Kind == yaml.MappingNode {
		c := *n
		c.Content = append([]*yaml.Node(nil), n.Content...)
		n = &c
	} else {
		n = expanded(n)
	}
	for i := 0; i+1 < len(fields.Content); i += 2 {
		mergeField(n, fields.Content[i], fields.Content[i+1])
	}
	return n
}

// expanded returns the mapping that a limit in short form stands for.
func expanded(short *yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, LineComment: short.LineComment}
	if short.ShortTag() != "!!null" {
		n.Content = []*yaml.Node{textNode("limit"), valueNode(short.Value)}
	}
	return n
}

// mergeField changes one field where the place has it: beside the others or in
// params.
func mergeField(n, key, value *yaml.Node) {
	if inner := lookup(n, "params"); inner != nil && inner.Kind == yaml.MappingNode && setsParameter(inner, key.Value) {
		mergeField(inner, key, value)
		return
	}
	switch key.Value {
	case "limit", "window":
		writeOut(n)
	case "capacity", "burst":
		renameEntry(n, "burst", key.Value)
		renameEntry(n, "capacity", key.Value)
	}
	if value.ShortTag() == "!!null" {
		removeEntry(n, key.Value)
		return
	}
	setEntry(n, key, value)
}

// setsParameter reports whether the mapping sets a parameter of a limit: burst
// is another name of capacity, and a limit may name its window.
func setsParameter(n *yaml.Node, name string) bool {
	switch name {
	case "capacity", "burst":
		return entry(n, "capacity") >= 0 || entry(n, "burst") >= 0
	case "window":
		return entry(n, "window") >= 0 || entry(n, "limit") >= 0
	}
	return entry(n, name) >= 0
}

// writeOut expands limit: 100/m into a limit and a window.
func writeOut(n *yaml.Node) {
	limit := lookup(n, "limit")
	if limit == nil {
		return
	}
	short, err := stint.ParseSpec(target(limit).Value)
	if err != nil {
		return
	}
	setEntry(n, textNode("limit"), valueNode(strconv.FormatInt(short.Limit, 10)))
	setEntry(n, textNode("window"), valueNode(windowText(short.Window)))
}

func windowText(w time.Duration) string {
	if w%time.Second == 0 {
		return strconv.FormatInt(int64(w/time.Second), 10)
	}
	return w.String()
}

func renameEntry(n *yaml.Node, from, to string) {
	if i := entry(n, from); i >= 0 && from != to {
		renamed := *n.Content[i]
		renamed.Value = to
		n.Content[i] = &renamed
	}
}
