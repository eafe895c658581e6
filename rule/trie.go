package rule

import "strings"

// trie finds all values whose text is a prefix of a given text. It is a radix
// tree: the cost of a lookup depends on the length of the text, not on the
// number of values.
type trie struct {
	label    string // the text on the edge from the parent
	values   []int32
	children []*trie // the labels of two children begin with distinct bytes
}

// add stores a value under a text.
func (t *trie) add(text string, value int32) {
	for text != "" {
		child := t.child(text[0])
		if child == nil {
			child = &trie{label: text}
			t.children = append(t.children, child)
		}
		n := 0
		for n < len(child.label) && n < len(text) && child.label[n] == text[n] {
			n++
		}
		child.splitAt(n)
		t, text = child, text[len(child.label):]
	}
	t.values = append(t.values, value)
}

// splitAt shortens the label to n bytes and moves the values and children to a
// new child with the rest of the label.
func (t *trie) splitAt(n int) {
	if n == len(t.label) {
		return
	}
	below := &trie{label: t.label[n:], values: t.values, children: t.children}
	t.label, t.values, t.children = t.label[:n], nil, []*trie{below}
}

// collect appends the values of every text that is a prefix of s.
func (t *trie) collect(s string, found []int32) []int32 {
	for {
		found = append(found, t.values...)
		if s == "" {
			return found
		}
		child := t.child(s[0])
		if child == nil || !strings.HasPrefix(s, child.label) {
			return found
		}
		t, s = child, s[len(child.label):]
	}
}

func (t *trie) child(first byte) *trie {
	for _, c := range t.children {
		if c.label[0] == first {
			return c
		}
	}
	return nil
}
