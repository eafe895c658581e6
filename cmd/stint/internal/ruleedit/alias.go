package ruleedit

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/rule"
)

// detach replaces every alias of a part that is about to change with a copy, so
// that the places that repeat the part do not change with it.
func (e *editor) detach(c *change) {
	changing := map[*yaml.Node]bool{}
	for _, crumb := range c.path {
		changing[crumb.in] = true
		if crumb.index < len(crumb.in.Content) {
			changing[*crumb.slot()] = true
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

// maxWrittenOut bounds the number of nodes in a file with every alias expanded.
// It limits the nodes that an edit copies and a comparison reads.
const maxWrittenOut = 4_000_000

// checkAliases rejects a file whose aliases expand to too many nodes or contain
// themselves. The reader's own bounds do not cover merged values that it skips.
func checkAliases(file string, top *yaml.Node) error {
	if size := writtenOut(top, map[*yaml.Node]int{}); size > maxWrittenOut {
		return rule.Problems{{File: file, What: "aliases expand to too many values", Mend: fmt.Sprintf("repeat at most %d values by aliases, and none within itself", maxWrittenOut)}}
	}
	return nil
}

// writtenOut returns the number of nodes below a node with its aliases
// expanded, capped slightly above the bound. known caches the counts of
// anchored nodes. An anchored node that is still being counted contains itself,
// so its size is infinite.
func writtenOut(n *yaml.Node, known map[*yaml.Node]int) int {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if size, ok := known[n]; ok {
		return size
	}
	if n.Anchor != "" {
		known[n] = maxWrittenOut + 1
	}
	size := 1
	for _, below := range n.Content {
		size = min(size+writtenOut(below, known), maxWrittenOut+1)
	}
	if n.Anchor != "" {
		known[n] = size
	}
	return size
}
