package ruleedit

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// span is a range of lines that hold one entry of a list or mapping and nothing
// else.
type span struct {
	step
	op       op
	from, to int // lines, counted from 0; to is exclusive
	margin   int // columns before the entry
	gap      bool
	// outside holds the nodes whose comments stand outside the lines and therefore
	// are not rewritten.
	outside map[*yaml.Node]bool
}

// spansOf returns the spans of the entries on the path to a change, as far as
// they stand on lines of their own.
func spansOf(lines []string, c *change) (spans []*span) {
	end := len(lines)
	for i, at := range c.path {
		s := &span{step: at, op: opReplace, outside: map[*yaml.Node]bool{}}
		if i == len(c.path)-1 {
			s.op = c.op
		}
		if !s.find(lines, &end, i == 0) {
			return spans
		}
		if s.margin >= 0 {
			spans = append(spans, s)
		}
	}
	return spans
}

// find sets the lines and moves end to the end of the entry. It returns false
// when no entry further down can be found either. A margin below 0 means that
// the entry shares a line with something else.
func (s *span) find(lines []string, end *int, document bool) bool {
	if document {
		return s.findDocument(lines, end)
	}
	at := s.index
	if s.op == opInsert {
		at -= s.width()
	}
	if s.in.Style&yaml.FlowStyle != 0 || at < 0 || at >= len(s.in.Content) || s.in.Content[at].Line == 0 {
		return false
	}
	first := s.in.Content[at]
	if next := at + s.width(); next < len(s.in.Content) {
		*end = min(*end, s.in.Content[next].Line-1)
	}
	s.from, s.to = first.Line-1, trimmed(lines, first.Line, *end)
	s.margin = margin(lines, first, s.in.Kind == yaml.SequenceNode)
	s.gap = s.from > 0 && spaced(lines, s.from)
	s.markOutside(at)
	if s.op == opInsert {
		s.from = s.to
	}
	return true
}

// findDocument sets the lines of a document.
func (s *span) findDocument(lines []string, end *int) bool {
	root := child(s.in, s.index)
	if root == nil || s.op != opReplace || root.Line == 0 || root.Line > len(lines) {
		return false
	}
	for i := root.Line; i < *end; i++ {
		if strings.HasPrefix(lines[i], "---") || strings.HasPrefix(lines[i], "...") {
			*end = i
		}
	}
	s.from, s.to = root.Line-1, trimmed(lines, root.Line, *end)
	s.margin = min(0, margin(lines, root, false))
	if root.Column != 1 {
		s.margin = -1
	}
	s.markOutside(s.index)
	return true
}

// width returns the number of nodes of an entry.
func (s *span) width() int {
	if s.in.Kind == yaml.MappingNode {
		return 2
	}
	return 1
}

// trimmed returns the end of the lines from start to end without trailing blank
// lines and comments.
func trimmed(lines []string, start, end int) int {
	for end > start {
		if line := strings.TrimSpace(lines[end-1]); line != "" && line[0] != '#' {
			break
		}
		end--
	}
	return end
}

// margin returns the number of columns before an entry, or −1 when they are not
// empty. A list item begins at its dash.
func margin(lines []string, n *yaml.Node, item bool) int {
	line := lines[n.Line-1]
	if n.Column-1 > len(line) {
		return -1
	}
	before := line[:n.Column-1]
	if item {
		before = strings.TrimRight(before, " ")
		if !strings.HasSuffix(before, "-") {
			return -1
		}
		before = before[:len(before)-1]
	}
	if strings.Trim(before, " ") != "" {
		return -1
	}
	return len(before)
}

// spaced reports whether a blank line precedes the entry and the comments above
// it.
func spaced(lines []string, from int) bool {
	for from > 0 && strings.HasPrefix(strings.TrimSpace(lines[from-1]), "#") {
		from--
	}
	return from > 0 && strings.TrimSpace(lines[from-1]) == ""
}

// markOutside records the nodes whose comments stand outside the lines. Comments
// above belong to every node that begins where the entry begins; comments below
// belong to every node that ends where it ends.
func (s *span) markOutside(at int) {
	first := s.in.Content[at]
	for n := first; n != nil; n = child(n, 0) {
		if n.Line != first.Line {
			break
		}
		s.outside[n] = true
	}
	last := s.in.Content[at+s.width()-1]
	s.outside[first] = true
	for n := last; n != nil; n = child(n, len(n.Content)-1) {
		s.outside[n] = true
		if n.Kind == yaml.MappingNode && len(n.Content) > 1 {
			s.outside[n.Content[len(n.Content)-2]] = true
		}
	}
}

func child(n *yaml.Node, i int) *yaml.Node {
	if i < 0 || i >= len(n.Content) {
		return nil
	}
	return n.Content[i]
}

// splice returns the text with the lines replaced by the entry's current
// content.
func (s *span) splice(lines []string) ([]byte, error) {
	from, written := s.from, []string(nil)
	if s.op == opRemove {
		for from > 0 && strings.HasPrefix(lines[from-1], strings.Repeat(" ", s.margin)+"#") {
			from-- // the comments directly above belong to the entry
		}
	} else {
		var err error
		if written, err = s.encode(); err != nil {
			return nil, err
		}
	}
	if s.op == opInsert && s.gap {
		written = append([]string{""}, written...)
	}
	if len(lines) > 1 && strings.HasSuffix(lines[0], "\r") {
		for i := range written {
			written[i] += "\r"
		}
	}
	rest := lines[s.to:]
	if len(rest) == 0 {
		rest = []string{""} // the last line has no newline
	}
	return []byte(strings.Join(slices.Concat(lines[:from], written, rest), "\n")), nil
}

// encode formats the entry's current content.
func (s *span) encode() ([]string, error) {
	n := &yaml.Node{Kind: s.in.Kind, Content: s.in.Content[s.index : s.index+s.width()]}
	if s.margin == 0 && s.in.Tag == documentsTag {
		n = s.in.Content[s.index]
	}
	text, err := encode(s.withoutOutside(n))
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for i := range lines {
		if lines[i] != "" {
			lines[i] = strings.Repeat(" ", s.margin) + lines[i]
		}
	}
	return lines, nil
}

// withoutOutside copies a tree without the comments that are not rewritten.
func (s *span) withoutOutside(n *yaml.Node) *yaml.Node {
	c := *n
	if s.outside[n] {
		c.HeadComment, c.FootComment = "", ""
	}
	c.Content = nil
	for _, below := range n.Content {
		c.Content = append(c.Content, s.withoutOutside(below))
	}
	return &c
}
