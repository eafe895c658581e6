package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/internal/suggest"
)

// Bounds of what is read, so that a hostile file costs little.
const (
	maxFile    = 16 << 20  // bytes of a file
	maxTiers   = 1_000     // tiers of a set
	maxRules   = 100_000   // rules of a set
	maxLimits  = 500_000   // limits of a set, each for every tier and override
	maxOfRule  = 32        // limits in one list, and parts of one identity
	maxAliased = 1_000_000 // nodes that are reached through aliases
	maxNested  = 64        // aliases and merges inside one another
)

// reader walks the YAML nodes of one file.
type reader struct {
	*findings
	file    int32
	aliased int // nodes reached through aliases so far
	nested  int
	told    bool         // that the bounds of aliases were met
	known   []*yaml.Node // the documents of the file, when they have been read
	denying bool         // within a rule that denies everything: its numbers are moot
}

// fields says what may stand in a mapping, and reads each of it.
type fields[T any] map[string]func(r *reader, n *yaml.Node, into *T)

// readFields reads a mapping. what names it in messages, such as "a rule".
func readFields[T any](r *reader, n *yaml.Node, what string, known fields[T], into *T) {
	r.pairs(n, what, func(key, value *yaml.Node) {
		read, ok := known[key.Value]
		if !ok {
			r.unknown(key, what, slices.Sorted(maps.Keys(known)))
			return
		}
		read(r, value, into)
	})
}

func (r *reader) at(n *yaml.Node) position { return at(r.file, n) }

func (r *reader) wrong(n *yaml.Node, what, mend string) { r.mistake(r.at(n), what, mend) }

func (r *reader) unknown(key *yaml.Node, what string, known []string) {
	name := key.Value
	if nearestOf(name, known) == "" {
		name = shortened(name)
	}
	r.wrong(key, fmt.Sprintf("%s has no key %.40q", what, name), nearestMend(key.Value, known))
}

// longestName is more letters than the fields of rule files have.
const longestName = 18

// shortened is a name that may be an API key, as one that is not indented far
// enough is: messages are logged.
func shortened(name string) string {
	if letters := []rune(name); len(letters) > longestName {
		return string(letters[:min(len(letters)/3, 8)]) + "…"
	}
	return name
}

// nearestMend names the known name that was probably meant, else all of them.
func nearestMend(name string, known []string) string {
	if near := nearestOf(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "use one of " + strings.Join(known, ", ")
}

// pairs calls each for every key and value of a mapping, also of those that
// are merged in by <<; a key of the mapping itself wins over a merged one.
func (r *reader) pairs(n *yaml.Node, what string, each func(key, value *yaml.Node)) {
	m := merging{reader: r, what: what, each: each, first: make(map[string]place)}
	m.mapping(n)
}

// merging reads one mapping and what is merged into it.
type merging struct {
	*reader
	what     string
	each     func(key, value *yaml.Node)
	mappings int // read so far, the mapping itself included
	first    map[string]place
}

// place is where a key was read: in which of the mappings, counted, and in
// which line.
type place struct{ mapping, line int }

func (m *merging) mapping(n *yaml.Node) {
	n, done := m.enter(n)
	defer done()
	if n == nil || !m.isMapping(n, m.what) {
		return
	}
	m.mappings++
	number := m.mappings
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			merged = append(merged, value)
		} else if m.isFirst(key, number) {
			m.each(key, value)
		}
	}
	for _, value := range merged {
		m.merge(value)
	}
}

// merge reads the value of <<: a mapping, or a list of them of which the
// earlier win.
func (m *merging) merge(n *yaml.Node) {
	n, done := m.enter(n)
	defer done()
	if n == nil {
		return
	}
	sources := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	for _, source := range sources {
		m.mapping(source)
	}
}

// isFirst reports whether the key is to be read: the first of its name is.
// Twice in one mapping is a mistake, which does not repeat the key: that of an
// override may be a caller's.
func (m *merging) isFirst(key *yaml.Node, mapping int) bool {
	if key.Kind != yaml.ScalarNode {
		m.wrong(key, "a key is not text", "write key: value")
		return false
	}
	first, given := m.first[key.Value]
	if given && first.mapping == mapping {
		m.wrong(key, m.what+" has this key a second time", fmt.Sprintf("remove it, or the one in line %d", first.line))
	}
	if !given {
		m.first[key.Value] = place{mapping, key.Line}
	}
	return !given
}

func (r *reader) isMapping(n *yaml.Node, what string) bool {
	if n.Kind == yaml.MappingNode {
		return true
	}
	r.wrong(n, fmt.Sprintf("%s is %s", what, kindOf(n)), "write it as key: value")
	return false
}

// enter follows an alias, within bounds. It returns nil where they end. The
// caller calls done when it leaves the node.
func (r *reader) enter(n *yaml.Node) (_ *yaml.Node, done func()) {
	r.nested++
	done = func() { r.nested-- }
	if n.Kind == yaml.AliasNode {
		r.aliased++
		n = n.Alias
	}
	if r.aliased > 0 {
		r.aliased += len(n.Content)
	}
	if r.aliased > maxAliased || r.nested > maxNested {
		r.aliased = maxAliased + 1
		r.mistakeOnce(n)
		return nil, done
	}
	return n, done
}

// exhausted reports whether the bounds of aliases have been met: nothing more
// of the file is read then.
func (r *reader) exhausted() bool { return r.aliased > maxAliased }

func (r *reader) mistakeOnce(n *yaml.Node) {
	if !r.told {
		r.told, r.stop = true, true
		r.wrong(n, "aliases reach too much", fmt.Sprintf("repeat at most %d values by aliases, and none within itself", maxAliased))
	}
}

// items calls each for every item of a list.
func (r *reader) items(n *yaml.Node, what string, each func(item *yaml.Node)) {
	n, done := r.enter(n)
	defer done()
	if n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, fmt.Sprintf("%s is %s", what, kindOf(n)), "write it as a list: [a, b]")
		return
	}
	for _, item := range n.Content {
		each(item)
	}
}

// text reads one value.
func (r *reader) text(n *yaml.Node, what string) (located, bool) {
	n, done := r.enter(n)
	defer done()
	if n == nil {
		return located{}, false
	}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		r.wrong(n, fmt.Sprintf("%s is %s", what, kindOf(n)), "give it one value, or remove it")
		return located{}, false
	}
	return located{n.Value, r.at(n)}, true
}

// texts reads one value or a list of them.
func (r *reader) texts(n *yaml.Node, what string) (list []located) {
	if target(n).Kind == yaml.ScalarNode {
		if t, ok := r.text(n, what); ok {
			list = append(list, t)
		}
		return list
	}
	r.items(n, what, func(item *yaml.Node) {
		if t, ok := r.text(item, "an item of "+what); ok {
			list = append(list, t)
		}
	})
	return list
}

// someTexts is texts where an empty list could be read as all or as none.
func (r *reader) someTexts(n *yaml.Node, what string) []located {
	if t := target(n); t.Kind == yaml.SequenceNode && len(t.Content) == 0 {
		r.wrong(n, what+" is empty", "name at least one, or remove it")
	}
	return r.texts(n, what)
}

// choice reads one of a few words and returns its index, or 0.
func (r *reader) choice(n *yaml.Node, what string, words ...string) int {
	t, ok := r.text(n, what)
	if !ok {
		return 0
	}
	if i := slices.Index(words, t.text); i >= 0 {
		return i
	}
	r.mistake(t.at, fmt.Sprintf("%s: %.40q is not known", what, t.text), nearestMend(t.text, words))
	return 0
}

func nearestOf(name string, known []string) string {
	near, _ := suggest.Name(name, known)
	return near
}

// target is the node that an alias stands for, else the node itself.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// isValue reports whether one value stands here, rather than a mapping or a
// list, or nothing.
func isValue(n *yaml.Node) bool {
	n = target(n)
	return n.Kind == yaml.ScalarNode && n.Tag != "!!null"
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null" || n.Value == "":
		return "empty"
	}
	return fmt.Sprintf("%.40q", n.Value)
}
