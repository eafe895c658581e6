package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/internal/suggest"
)

// Bounds on the input, so that a hostile file stays cheap.
const (
	maxFile    = 16 << 20  // bytes of a file
	maxTiers   = 1_000     // tiers of a set
	maxRules   = 100_000   // rules of a set
	maxLimits  = 500_000   // limits of a set, counted for every tier and override
	maxOfRule  = 32        // limits in one list, and parts of one identity
	maxAliased = 1_000_000 // nodes reached through aliases
	maxNested  = 64        // aliases and merges inside one another
)

// reader walks the YAML nodes of one file.
type reader struct {
	*findings
	file    int32
	aliased int // number of nodes reached through aliases so far
	nested  int
	// exhausted means that the alias bounds are exceeded. Nothing more of the file
	// is read then.
	exhausted bool
	denying   bool // inside a rule that denies everything: its limits do not matter
}

// fields maps each allowed field of a mapping to the function that reads it.
type fields[T any] map[string]func(r *reader, n *yaml.Node, into *T)

// readFields reads a mapping. what names the mapping in messages, such as "a
// rule".
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

func (r *reader) at(n *yaml.Node) position {
	return position{r.file, int32(min(n.Line, 1<<30)), int32(min(n.Column, 1<<30))}
}

func (r *reader) wrong(n *yaml.Node, what, mend string) { r.mistake(r.at(n), what, mend) }

func (r *reader) unknown(key *yaml.Node, what string, known []string) {
	name := key.Value
	if nearestOf(name, known) == "" {
		name = shortened(name)
	}
	r.wrong(key, fmt.Sprintf("%s has no key %.40q", what, name), nearestMend(key.Value, known))
}

// longestName is an upper bound on the length of field names in rule files.
const longestName = 18

// shortened truncates an unknown field name for a message. Messages are logged,
// and the name may be an API key that is not indented far enough.
func shortened(name string) string {
	if letters := []rune(name); len(letters) > longestName {
		return string(letters[:min(len(letters)/3, 8)]) + "…"
	}
	return name
}

// nearestMend suggests the known name that was probably meant, or lists all of
// them.
func nearestMend(name string, known []string) string {
	if near := nearestOf(name, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "use one of " + strings.Join(known, ", ")
}

// pairs calls each for every key and value of a mapping, including those merged
// in by <<. A key of the mapping itself wins over a merged one.
func (r *reader) pairs(n *yaml.Node, what string, each func(key, value *yaml.Node)) {
	(&merging{reader: r, what: what, each: each, first: make(map[string]place)}).mapping(n)
}

// merging reads one mapping and the mappings merged into it.
type merging struct {
	*reader
	what     string
	each     func(key, value *yaml.Node)
	mappings int // mappings read so far, including the mapping itself
	first    map[string]place
}

// place is where a key was read: the number of the mapping and the line.
type place struct{ mapping, line int }

func (m *merging) mapping(n *yaml.Node) {
	n, done := m.enter(n)
	defer done()
	if n == nil {
		return
	}
	if n.Kind != yaml.MappingNode {
		m.wrong(n, fmt.Sprintf("%s is %s", m.what, kindOf(n)), "write it as key: value")
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

// merge reads the value of <<: a mapping, or a list of mappings in which
// earlier ones win.
func (m *merging) merge(n *yaml.Node) {
	n, done := m.enter(n)
	defer done()
	if n == nil {
		return
	}
	if n.Kind != yaml.SequenceNode {
		m.mapping(n)
		return
	}
	for _, source := range n.Content {
		m.mapping(source)
	}
}

// isFirst reports whether this is the first key of its name, which is the one
// to read. A key that occurs twice in one mapping is a mistake. The message
// does not repeat the key, because the key of an override may be an API key.
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

// enter follows an alias. It returns nil when an alias bound is exceeded. The
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
		if !r.exhausted {
			r.exhausted, r.stop = true, true
			r.wrong(n, "aliases expand to too many values", fmt.Sprintf("repeat at most %d values by aliases, and none within itself", maxAliased))
		}
		r.aliased = maxAliased + 1
		return nil, done
	}
	return n, done
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

// text reads one scalar value.
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

// texts reads one scalar value or a list of them. An empty list is ambiguous: it
// could mean all or none.
func (r *reader) texts(n *yaml.Node, what string) (list []located) {
	if t := target(n); t.Kind == yaml.SequenceNode && len(t.Content) == 0 {
		r.wrong(n, what+" is empty", "name at least one, or remove it")
	}
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

// choice reads one of the words and returns its index, or 0 on a mistake.
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

// target returns the node that an alias stands for, or the node itself.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// isValue reports whether the node is a scalar, as opposed to a mapping, a list
// or nothing.
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
