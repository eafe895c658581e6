package rule

import "strings"

// trie finds every value whose text a given text begins with. It is a radix
// tree: looking up costs the length of the text, however many values there
// are.
type trie struct {
	label    string // from the parent
	values   []int32
	children []*trie // each with another first byte
}

// add keeps a value under a text.
func (t *trie) add(text string, value int32) {
	for text != "" {
		child := t.child(text[0])
		if child == nil {
			child = &trie{label: text}
			t.children = append(t.children, child)
		}
		child.splitAt(commonLength(child.label, text))
		t, text = child, text[len(child.label):]
	}
	t.values = append(t.values, value)
}

// splitAt cuts the label after n bytes; what was below the node moves down.
func (t *trie) splitAt(n int) {
	if n == len(t.label) {
		return
	}
	below := &trie{label: t.label[n:], values: t.values, children: t.children}
	t.label, t.values, t.children = t.label[:n], nil, []*trie{below}
}

// collect appends the values of every text that s begins with.
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

func commonLength(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
