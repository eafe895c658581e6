package ruleedit

import "go.yaml.in/yaml/v3"

// detach replaces every alias of a part that is about to change with a copy, so
// that the places that repeat the part do not change with it.
func (e *editor) detach(c *change) {
	changing := map[*yaml.Node]bool{}
	for _, step := range c.path {
		changing[step.in] = true
		if step.index < len(step.in.Content) {
			changing[*step.slot()] = true
		}
	}
	if last := c.path[len(c.path)-1]; c.op != opInsert {
		addTree(*last.slot(), changing)
	}
	ownCopies(e.tops[c.file], changing)
}

func addTree(n *yaml.Node, to map[*yaml.Node]bool) {
	to[n] = true
	for _, below := range n.Content {
		addTree(below, to)
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

// maxNodes bounds the number of nodes in a file with every alias expanded: the
// nodes that an edit copies and a comparison reads. The bounds of package rule do
// not cover merged values that it skips.
const maxNodes = 4_000_000

// nodesBelow returns the number of nodes in a tree with its aliases expanded,
// capped slightly above the bound. known caches the counts of anchored nodes. An
// anchored node that is still being counted contains itself, so its count is over
// the bound.
func nodesBelow(n *yaml.Node, known map[*yaml.Node]int) int {
	n = target(n)
	if count, ok := known[n]; ok {
		return count
	}
	if n.Anchor != "" {
		known[n] = maxNodes + 1
	}
	count := 1
	for _, below := range n.Content {
		count = min(count+nodesBelow(below, known), maxNodes+1)
	}
	if n.Anchor != "" {
		known[n] = count
	}
	return count
}
