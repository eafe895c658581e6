package envoyrls

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/suggest"
	"github.com/stintdev/stint/rule"
)

// Bounds of a configuration file.
const (
	maxFile     = 8 << 20  // bytes
	maxDepth    = 64       // levels of nested descriptors
	maxNodes    = 200_000  // descriptors of one file, those of aliases included, and their further limits; names in replaces
	maxMerge    = 4        // nesting of <<, and mappings in the list of one <<
	maxNames    = 64 << 20 // bytes of the names of all its limits, and as many of its metadata
	maxKeys     = 100      // keys of a mapping, duplicates included
	maxProblems = 100      // mistakes, and as many warnings, that are reported one by one
)

// file is a parsed configuration file.
type file struct {
	name   string
	domain string
	at     *yaml.Node // where the domain is named
	top    *node
	limits []*limit
}

// reader parses one file and collects its mistakes.
type reader struct {
	name     string
	file     *file
	nodes    int
	names    int                             // bytes of the names of limits
	details  int                             // bytes of metadata
	replaced int                             // names in replaces
	merging  int                             // current depth of <<
	metadata map[*yaml.Node]*structpb.Struct // metadata by node; aliases share it
	policy   policy                          // of limits that name none
	mistakes rule.Problems
	warnings rule.Problems
}

// parse parses a file. It returns an error if the file has a mistake; a file with only
// warnings is usable. consistency is that of limits that name none.
func parse(name string, data []byte, consistency stint.Consistency) (f *file, warnings rule.Problems, err error) {
	r := &reader{name: name, file: &file{name: name}, metadata: map[*yaml.Node]*structpb.Struct{}, policy: defaultPolicy(consistency)}
	if top := r.document(data); top != nil {
		r.root(top)
	}
	if len(r.mistakes) > 0 {
		return nil, r.warnings, r.mistakes
	}
	return r.file, r.warnings, nil
}

func (r *reader) problem(n *yaml.Node, what, mend string) rule.Problem {
	p := rule.Problem{File: r.name, What: what, Mend: mend}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	return p
}

func (r *reader) mistake(n *yaml.Node, what, mend string) {
	r.mistakes = appendProblem(r.mistakes, r.problem(n, what, mend))
}

func (r *reader) warn(n *yaml.Node, what, mend string) {
	r.warnings = appendProblem(r.warnings, r.problem(n, what, mend))
}

// appendProblem appends a problem, up to maxProblems and a last entry that says that there are
// more.
func appendProblem(all rule.Problems, one rule.Problem) rule.Problems {
	switch len(all) {
	case maxProblems:
		return append(all, rule.Problem{File: one.File, Line: one.Line, Column: one.Column, What: "there is more from here on"})
	case maxProblems + 1:
		return all
	}
	return append(all, one)
}

// document returns the first YAML document of a file. It warns about a second one.
func (r *reader) document(data []byte) *yaml.Node {
	if len(data) > maxFile {
		r.mistake(nil, fmt.Sprintf("is %d bytes long", len(data)), fmt.Sprintf("split it; a file may have %d", maxFile))
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil {
		r.syntax(err)
		return nil
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) && !empty(&second) {
		r.warn(&second, "there is a second document, which is not read", "write it into a file of its own")
	}
	return first.Content[0]
}

// empty reports whether a document is empty, such as the one after a final ---.
func empty(document *yaml.Node) bool {
	return len(document.Content) == 1 && document.Content[0].Tag == "!!null"
}

func (r *reader) syntax(err error) {
	if errors.Is(err, io.EOF) {
		r.mistake(nil, "is empty", "write a domain and its descriptors, or remove the file")
		return
	}
	text, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
		_, text, _ = strings.Cut(text, ": ")
	}
	r.mistake(&yaml.Node{Line: line, Column: 1}, "not YAML: "+text, "mend the syntax here or nearby")
}

// field parses the value of one key of a mapping.
type field func(value *yaml.Node)

// known returns all keys of a configuration. Envoy's service accepts each of them at
// every level, and ignores it where it has no meaning.
func known() []string {
	return []string{
		"domain", "key", "value", "descriptors", "rate_limit", "rate_limits", "unit", "requests_per_unit", "unlimited", "name", "replaces",
		"shadow_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata", "quota_mode",
		"algorithm", "burst", "window", "consistency", "on_store_failure",
	}
}

// mapping parses the keys of a mapping by their fields. Keys that << merges in are
// parsed first, so that the mapping's own keys override them.
func (r *reader) mapping(n *yaml.Node, what string, fields map[string]field) {
	if n = target(n); n.Kind != yaml.MappingNode {
		r.mistake(n, what+" must be keys and values", "write it as key: value")
		return
	}
	if keys := len(n.Content) / 2; keys > maxKeys {
		r.mistake(n, fmt.Sprintf("%s has %d keys", what, keys), "give each once")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == "!!merge" {
			r.merge(target(n.Content[i+1]), what, fields)
		}
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Tag == "!!merge" {
			continue
		}
		if seen[key.Value] {
			r.warn(key, key.Value+" is given twice, of which the last counts", "keep one")
		}
		seen[key.Value] = true
		r.key(key, target(n.Content[i+1]), what, fields)
	}
}

// merge parses the mapping, or the list of mappings, of a <<.
func (r *reader) merge(n *yaml.Node, what string, fields map[string]field) {
	if r.merging++; r.merging > maxMerge {
		r.mistake(n, "<< is nested too deeply", "write out what it stands for")
	} else if n.Kind == yaml.SequenceNode {
		for _, one := range n.Content[:min(len(n.Content), maxMerge)] {
			r.mapping(one, what, fields)
		}
	} else {
		r.mapping(n, what, fields)
	}
	r.merging--
}

func (r *reader) key(key, value *yaml.Node, what string, fields map[string]field) {
	if read, ok := fields[key.Value]; ok {
		if value.Tag != "!!null" {
			read(value)
		}
		return
	}
	if slices.Contains(known(), key.Value) {
		r.warn(key, key.Value+" means nothing in "+what, "remove it, or move it to where it belongs")
		return
	}
	mend := "remove it"
	if near, ok := suggest.Name(key.Value, known()); ok {
		mend = "did you mean " + near + "?"
	}
	r.mistake(key, fmt.Sprintf("%q is not a key of a configuration", key.Value), mend)
}

// target resolves an alias.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// text parses a string. Integers, booleans and dates are taken as they are written.
func (r *reader) text(what string, to *string) field {
	return func(n *yaml.Node) {
		switch {
		case n.Kind != yaml.ScalarNode:
			r.mistake(n, what+" must be text", "write one word, or text in quotes")
		case n.Tag == "!!float" || n.Tag == "!!binary":
			r.mistake(n, fmt.Sprintf("%s is read as a number: %s", what, n.Value), fmt.Sprintf("put it into quotes: %q", n.Value))
		default:
			*to = n.Value
		}
	}
}

func (r *reader) flag(what string, to *bool) field {
	return func(n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Decode(to) != nil { // YAML 1.1: yes and on are true too
			r.mistake(n, what+" must be true or false", "")
		}
	}
}

func (r *reader) number(what string, to *uint32) field {
	return func(n *yaml.Node) {
		if n.Tag != "!!int" || n.Decode(to) != nil {
			r.mistake(n, what+" must be a whole number from 0 to 4294967295", "")
		}
	}
}

// choice parses one of the given values, by its name.
func choice[T fmt.Stringer](r *reader, what string, values []T, to *T) field {
	return func(n *yaml.Node) {
		var names []string
		for _, v := range values {
			if n.Value == v.String() {
				*to = v
				return
			}
			names = append(names, v.String())
		}
		problem := fmt.Sprintf("%s: %.40q is not known", what, n.Value)
		if n.Kind != yaml.ScalarNode {
			problem = what + " must be one word"
		}
		r.mistake(n, problem, "use "+strings.Join(names, ", "))
	}
}
