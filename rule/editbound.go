package rule

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxWrittenOut bounds the values of a file with every alias written out: what
// an edit copies and a comparison reads.
const maxWrittenOut = 4 * maxAliased

// checkAliases refuses a file whose aliases reach too much, or themselves. Where
// a merged value is not read, no other bound is met.
func checkAliases(file string, top *yaml.Node) error {
	if size := writtenOut(top, map[*yaml.Node]int{}); size > maxWrittenOut {
		return Problems{{File: file, What: "aliases reach too much", Mend: fmt.Sprintf("repeat at most %d values by aliases, and none within itself", maxWrittenOut)}}
	}
	return nil
}

// writtenOut is how many values a node is with its aliases written out, but no
// more than a little over the bound. known has those of nodes that have an
// anchor; one that is being counted reaches itself, and has no end.
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
