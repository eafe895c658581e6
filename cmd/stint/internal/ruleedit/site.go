package ruleedit

import (
	"iter"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/rule"
)

// site is a node's place in one file: the path of steps that leads to it.
type site struct {
	e    *editor
	file int
	path []step
}

// slot returns a pointer to the node at a step: a list item or the value of a
// key.
func (s step) slot() **yaml.Node {
	if s.in.Kind == yaml.MappingNode {
		return &s.in.Content[s.index+1]
	}
	return &s.in.Content[s.index]
}

// read returns the node for reading and follows an alias.
func (s site) read() *yaml.Node { return target(*s.path[len(s.path)-1].slot()) }

// node returns the node for changing. It replaces an alias with a copy of its
// target.
func (s site) node() *yaml.Node {
	slot := s.path[len(s.path)-1].slot()
	if (*slot).Kind == yaml.AliasNode {
		*slot = copied(*slot)
	}
	return *slot
}

// at returns the site of an entry of this node.
func (s site) at(index int) site {
	return site{s.e, s.file, append(slices.Clone(s.path), step{s.node(), index})}
}

// key returns the site of the value of a key.
func (s site) key(names ...string) (site, bool) {
	for _, name := range names {
		if i := entry(s.read(), name); i >= 0 {
			return s.at(entry(s.node(), name)), true
		}
	}
	return site{}, false
}

// eachIn visits the items of a list in this mapping until visit returns false.
// It follows aliases, which are copied only when they are changed.
func (s site) eachIn(key string, visit func(site) bool) bool {
	i := entry(s.read(), key)
	if i < 0 {
		return true
	}
	list := target(s.read().Content[i+1])
	if list.Kind != yaml.SequenceNode {
		return true
	}
	for item := range list.Content {
		if list != s.read().Content[i+1] { // the list is an alias
			s.at(i).node() // replaces the alias with a copy
			list = s.read().Content[i+1]
		}
		if !visit(site{s.e, s.file, append(slices.Clone(s.path), step{s.read(), i}, step{list, item})}) {
			return false
		}
	}
	return true
}

func (s site) change(op op, doIt func()) *change { return &change{s.file, s.path, op, doIt} }

// replace puts another node here.
func (s site) replace(n *yaml.Node) *change {
	last := s.path[len(s.path)-1]
	old := *last.slot()
	if old.Style&yaml.FlowStyle != 0 && s.e.given[n] && n.Kind == old.Kind {
		n.Style |= yaml.FlowStyle
	}
	return s.change(opReplace, func() {
		if n.LineComment == "" {
			n.LineComment = old.LineComment
		}
		*last.slot() = n
	})
}

// remove removes this entry from its container. A container that would become
// empty is replaced with the result of empty, or removed too if empty is nil.
func (s site) remove(empty func() *yaml.Node) *change {
	last := s.path[len(s.path)-1]
	width := 1
	if last.in.Kind == yaml.MappingNode {
		width = 2
	}
	if len(last.in.Content) > width {
		return s.change(opRemove, func() { last.in.Content = slices.Delete(last.in.Content, last.index, last.index+width) })
	}
	around := site{s.e, s.file, s.path[:len(s.path)-1]}
	if empty == nil {
		return around.remove(nil)
	}
	return around.replace(empty())
}

// add adds nodes to the list or mapping under one of the names: an item, or a
// key and its value. A missing container is created under the first name.
func (s site) add(names []string, kind yaml.Kind, nodes ...*yaml.Node) *change {
	holder := &yaml.Node{Kind: kind, Content: nodes}
	section, ok := s.key(names...)
	if !ok {
		in := s.node()
		return s.at(len(in.Content)).change(opInsert, func() { in.Content = append(in.Content, textNode(names[0]), holder) })
	}
	n := section.node()
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" && kind == yaml.SequenceNode {
		holder.Content = append([]*yaml.Node{n}, nodes...) // a single value stands for a list of one
	}
	if n.Kind != kind || len(n.Content) == 0 {
		return section.replace(holder)
	}
	for _, node := range nodes {
		if n.Style&yaml.FlowStyle != 0 && s.e.given[node] {
			node.Style |= yaml.FlowStyle
		}
	}
	return section.at(len(n.Content)).change(opInsert, func() { n.Content = append(n.Content, nodes...) })
}

// documents visits the documents, except those that are a single rule.
func (e *editor) documents() iter.Seq[site] {
	return func(yield func(site) bool) {
		for file, top := range e.tops {
			for d, root := range top.Content {
				if !isRule(root) && !yield(site{e, file, []step{{top, d}}}) {
					return
				}
			}
		}
	}
}

// addTop adds to a top-level list or mapping in the first document that has it,
// or in the first that can hold it. Files with one rule in each document get the
// rule as a new document.
func (e *editor) addTop(names []string, kind yaml.Kind, nodes ...*yaml.Node) *change {
	var first *site
	for s := range e.documents() {
		if slices.ContainsFunc(names, func(name string) bool { return entry(s.read(), name) >= 0 }) {
			return s.add(names, kind, nodes...)
		}
		if first == nil && s.read().Kind == yaml.MappingNode {
			first = &s
		}
	}
	switch oneRuleEach := slices.ContainsFunc(e.tops, func(top *yaml.Node) bool { return slices.ContainsFunc(top.Content, isRule) }); {
	case first != nil:
		return first.add(names, kind, nodes...)
	case names[0] == "rules" && oneRuleEach:
		return e.addDocument(nodes[0])
	}
	return e.addDocument(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		textNode(names[0]), {Kind: kind, Content: nodes},
	}})
}

// addDocument adds a document to the last file, or creates a file when there is
// none.
func (e *editor) addDocument(n *yaml.Node) *change {
	if len(e.files) == 0 {
		e.files = []rule.File{{Name: "rules.yaml"}}
		e.tops, e.raw = []*yaml.Node{{Kind: yaml.SequenceNode, Tag: documentsTag}}, [][]*yaml.Node{nil}
	}
	file := len(e.files) - 1
	top := e.tops[file]
	return &change{file, []step{{top, len(top.Content)}}, opInsert, func() {
		top.Content = append(top.Content, n)
		e.raw[file] = append(e.raw[file], &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{n}})
	}}
}
