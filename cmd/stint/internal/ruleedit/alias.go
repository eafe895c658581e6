package ruleedit

import "go.yaml.in/yaml/v3"

// detach replaces every alias of a part that is about to change with a copy, so
// that the places that repeat the part do not change with it.
func (e *editor) detach(c *change) {
	anchored := map[*yaml.Node]bool{}
	for _, crumb := range c.path {
		noteAnchor(crumb.in, anchored)
		if at := crumb.index; at < len(crumb.in.Content) {
			noteAnchor(*crumb.slot(), anchored)
		}
	}
	if last := c.path[len(c.path)-1]; c.op != opInsert {
		noteAnchors(*last.slot(), anchored)
	}
	if len(anchored) > 0 {
		ownCopies(e.tops[c.file], anchored)
	}
}

func noteAnchor(n *yaml.Node, into map[*yaml.Node]bool) {
	if n.Anchor != "" {
		into[n] = true
	}
}

func noteAnchors(n *yaml.Node, into map[*yaml.Node]bool) {
	noteAnchor(n, into)
	for _, below := range n.Content {
		noteAnchors(below, into)
	}
}

// ownCopies replaces aliases of the nodes with copies.
func ownCopies(n *yaml.Node, of map[*yaml.Node]bool) {
	for i, below := range n.Content {
		if below.Kind == yaml.AliasNode && of[below.Alias] {
			n.Content[i] = copied(below)
			continue
		}
		ownCopies(below, of)
	}
}
