package ruleedit

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"go.yaml.in/yaml/v3"
)

// PutRule replaces a rule or adds it after the others. The body is the rule in
// JSON or YAML. Its id is optional.
func PutRule(id string, body []byte) Edit {
	return Edit{"rule " + id, func(e *editor) (*change, error) {
		n, err := e.bodyMapping(body, "a rule")
		if err != nil {
			return nil, err
		}
		if err := identify(n, id); err != nil {
			return nil, err
		}
		if json.Valid(body) {
			layOut(n)
		}
		found, err := e.rule(id)
		if err != nil {
			return e.addRule(n), nil //nolint:nilerr // the rule is new
		}
		return found.replace(n), nil
	}}
}

// DeleteRule removes a rule.
func DeleteRule(id string) Edit {
	return Edit{"rule " + id, func(e *editor) (*change, error) {
		found, err := e.rule(id)
		if err != nil {
			return nil, err
		}
		if len(found.path) == 1 { // the rule is a whole document
			return found.replace(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{textNode("rules"), emptyList()}}), nil
		}
		return found.remove(emptyList), nil
	}}
}

// identify adds the id to a rule without one and rejects a different id.
func identify(n *yaml.Node, id string) error {
	given := lookup(n, "id")
	if given == nil {
		n.Content = append([]*yaml.Node{textNode("id"), textNode(id)}, n.Content...)
		return nil
	}
	if given.Value != id {
		return bodyProblem(given, fmt.Sprintf("the rule's id is %.80q, but %.80q is to be replaced", given.Value, id),
			"leave the id out; to rename a rule, delete it and add another, whose counts start fresh")
	}
	return nil
}

// layOut formats each value of a rule on one line. Overrides, limits and lists
// instead get one line for each item.
func layOut(n *yaml.Node) {
	for i := 1; i < len(n.Content); i += 2 {
		value := n.Content[i]
		if !slices.Contains([]string{"override", "temporary", "limits", "allow", "deny", "whitelist", "blacklist"}, n.Content[i-1].Value) {
			value.Style |= yaml.FlowStyle
			continue
		}
		for _, below := range value.Content {
			if below.Kind != yaml.ScalarNode {
				below.Style |= yaml.FlowStyle
			}
		}
	}
}

func emptyList() *yaml.Node { return &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle} }

// addRule adds a rule to the last list of rules.
func (e *editor) addRule(n *yaml.Node) *change {
	for file, top := range slices.Backward(e.tops) {
		for d := range slices.Backward(top.Content) {
			s := site{e, file, []step{{top, d}}}
			if entry(s.node(), "rules") >= 0 {
				return s.add([]string{"rules"}, yaml.SequenceNode, n)
			}
		}
	}
	return e.addTop([]string{"rules"}, yaml.SequenceNode, n)
}

// rule finds a rule by its id. The error is a [*NotFoundError].
func (e *editor) rule(id string) (site, error) {
	for s := range e.rules() {
		if at := lookup(s.read(), "id"); at != nil && target(at).Value == id {
			return s, nil
		}
	}
	return site{}, &NotFoundError{fmt.Sprintf("rule %.80q", id)}
}

// rules visits the rules in file order.
func (e *editor) rules() iter.Seq[site] {
	return func(yield func(site) bool) {
		for file, top := range e.tops {
			for d, root := range top.Content {
				s := site{e, file, []step{{top, d}}}
				if more := isRule(root) && yield(s) || !isRule(root) && s.eachIn("rules", yield); !more {
					return
				}
			}
		}
	}
}
