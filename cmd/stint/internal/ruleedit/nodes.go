package ruleedit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/internal/jsonpos"
	"github.com/stintdev/stint/rule"
)

// parseNodes parses a file into its documents. The error is [rule.Problems].
func parseNodes(file rule.File) (documents []*yaml.Node, err error) {
	if jsonpos.IsDocument(file.Data) {
		return []*yaml.Node{{Kind: yaml.DocumentNode, Content: []*yaml.Node{jsonNode(jsonpos.Parse(file.Data))}}}, nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(file.Data))
	for {
		document := new(yaml.Node)
		err := decoder.Decode(document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			if _, located := rule.Parse(file); located != nil {
				return nil, located
			}
			return nil, err
		}
		documents = append(documents, document)
	}
}

// jsonNode converts a JSON value to the node that YAML makes of it.
func jsonNode(v *jsonpos.Value) *yaml.Node {
	var n *yaml.Node
	switch v.Kind {
	case jsonpos.Object:
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	case jsonpos.Array:
		n = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	case jsonpos.String:
		n = textNode(v.Text)
	case jsonpos.Literal:
		n = valueNode(v.Text)
	default:
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	n.Line, n.Column = v.Line, v.Column
	for _, item := range v.Items {
		n.Content = append(n.Content, jsonNode(item))
	}
	return n
}

// isRule reports whether a document is a single rule.
func isRule(n *yaml.Node) bool { return entry(n, "id") >= 0 }

// target returns the node that an alias stands for, or the node itself.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// entry returns the index of a key in a mapping, or −1.
func entry(n *yaml.Node, key string) int {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i].Tag != "!!merge" {
			return i
		}
	}
	return -1
}

// lookup returns the value of a key in a mapping, or nil.
func lookup(n *yaml.Node, key string) *yaml.Node {
	if i := entry(n, key); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

// setEntry sets the value of a key in a mapping. A new key is added at the end.
func setEntry(n *yaml.Node, key, value *yaml.Node) {
	if i := entry(n, key.Value); i >= 0 {
		if value.LineComment == "" {
			value.LineComment = n.Content[i+1].LineComment
		}
		n.Content[i+1] = value
		return
	}
	n.Content = append(n.Content, key, value)
}

func removeEntry(n *yaml.Node, key string) {
	if i := entry(n, key); i >= 0 {
		n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
	}
}

// textNode returns a string node.
func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// valueNode returns a node for a number or word that needs no quotes.
func valueNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	n.Tag = n.ShortTag()
	return n
}

// copied returns a copy of a node without anchors and with aliases resolved,
// which can be edited in place of an alias. The copies have no positions.
func copied(n *yaml.Node) *yaml.Node {
	n = target(n)
	c := *n
	c.Anchor, c.Alias, c.Content, c.Line, c.Column = "", nil, nil, 0, 0
	for _, below := range n.Content {
		c.Content = append(c.Content, copied(below))
	}
	return &c
}

// sameNodes reports whether two trees are equal, apart from comments and style.
func sameNodes(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || len(a.Content) != len(b.Content) || a.Anchor != b.Anchor {
		return false
	}
	switch a.Kind {
	case yaml.ScalarNode:
		return a.Value == b.Value && kindTag(a) == kindTag(b)
	case yaml.AliasNode:
		return a.Value == b.Value
	}
	for i := range a.Content {
		if !sameNodes(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}

// kindTag returns the tag of a plain value as far as rules distinguish values.
// A timestamp counts as a string, as it would in quotes.
func kindTag(n *yaml.Node) string {
	if tag := n.ShortTag(); tag != "!!timestamp" {
		return tag
	}
	return "!!str"
}

// place is a line and a column, both from 1.
type place struct{ line, column int }

// pairPlaces walks the tree as it was written and the tree that it came from,
// and maps the place of each written node to its original node.
func pairPlaces(written, from *yaml.Node, into map[place]*yaml.Node) {
	if written.Line > 0 {
		if _, taken := into[place{written.Line, written.Column}]; !taken || from.Kind == yaml.ScalarNode {
			into[place{written.Line, written.Column}] = from
		}
	}
	for i := range written.Content {
		pairPlaces(written.Content[i], from.Content[i], into)
	}
}

// appendJSON appends a node as one line of JSON. Keys keep their order and
// numbers their text.
func appendJSON(b []byte, n *yaml.Node) []byte {
	n = target(n)
	switch n.Kind {
	case yaml.MappingNode:
		b = append(b, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(b, jsonText(n.Content[i].Value)...), ':')
			b = appendJSON(b, n.Content[i+1])
		}
		return append(b, '}')
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, item := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, item)
		}
		return append(b, ']')
	}
	return append(b, jsonScalar(n)...)
}

func jsonScalar(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!null":
		return "null"
	case "!!int", "!!float", "!!bool":
		if json.Valid([]byte(n.Value)) {
			return n.Value
		}
	}
	return jsonText(n.Value)
}

func jsonText(text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) //nolint:errchkjson // encoding a string cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}
