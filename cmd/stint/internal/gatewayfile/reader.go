package gatewayfile

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/cmd/stint/internal/yamlfile"
	"github.com/stintdev/stint/internal/suggest"
	"github.com/stintdev/stint/rule"
)

// reader walks the nodes of a file and collects its mistakes.
type reader struct {
	path     string
	form     func(string) (string, error)
	groups   map[string]*yaml.Node // by name: where it is named
	routes   []located
	mistakes rule.Problems
}

// field reads the value of one key.
type field[T any] func(r *reader, n *yaml.Node, into *T)

// readFields reads a mapping, and returns the values by their keys. what names the mapping
// in messages.
func readFields[T any](r *reader, n *yaml.Node, what string, known map[string]field[T], into *T) map[string]*yaml.Node {
	at := map[string]*yaml.Node{}
	r.pairs(n, what, func(key, value *yaml.Node) {
		read, ok := known[key.Value]
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			r.mistake(key, fmt.Sprintf("%s has no key %.40q", what, key.Value), nearest(key.Value, names))
			return
		}
		at[key.Value] = value
		read(r, value, into)
	})
	return at
}

func (r *reader) mistake(n *yaml.Node, what, mend string) {
	r.mistakes = append(r.mistakes, rule.Problem{File: r.path, Line: n.Line, Column: n.Column, What: what, Mend: mend})
}

// check records an error that says how to correct it.
func (r *reader) check(n *yaml.Node, err error) {
	if err != nil {
		r.mistake(n, err.Error(), "")
	}
}

// checkEach records the lines of an error, each at the value of the key that it begins
// with.
func (r *reader) checkEach(n *yaml.Node, at map[string]*yaml.Node, err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		key, _, _ := strings.Cut(line, ":")
		r.mistake(cmp.Or(at[key], n), line, "")
	}
}

// sort orders the mistakes by their places.
func (r *reader) sort() {
	slices.SortStableFunc(r.mistakes, func(a, b rule.Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
}

func (r *reader) nearest(group string) string {
	return nearest(group, slices.Sorted(maps.Keys(r.groups)))
}

func nearest(name string, known []string) string {
	if near, ok := suggest.Name(name, known); ok {
		return "did you mean " + near + "?"
	}
	return "use one of " + strings.Join(known, ", ")
}

// pairs calls each for every key and value of a mapping.
func (r *reader) pairs(n *yaml.Node, what string, each func(key, value *yaml.Node)) {
	n = yamlfile.Target(n)
	if n.Kind != yaml.MappingNode {
		r.mistake(n, what+" must be keys and values", "write it as key: value")
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], yamlfile.Target(n.Content[i+1])
		switch {
		case key.Tag == "!!merge":
			r.mistake(key, "a key << is not merged", "write the keys out")
		case key.Kind != yaml.ScalarNode:
			r.mistake(key, "a key is not text", "write key: value")
		case lines[key.Value] > 0:
			r.mistake(key, fmt.Sprintf("%s has the key %.40q a second time", what, key.Value), fmt.Sprintf("remove it, or the one in line %d", lines[key.Value]))
		default:
			lines[key.Value] = key.Line
			each(key, value)
		}
	}
}

// items calls each for every item of a list.
func (r *reader) items(n *yaml.Node, what string, each func(item *yaml.Node)) {
	n = yamlfile.Target(n)
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.mistake(n, what+" must be a list", "write it as [a, b], or remove it")
		return
	}
	for _, item := range n.Content {
		each(yamlfile.Target(item))
	}
}

// text reads one value that is not empty.
func (r *reader) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || n.Value == "" {
		r.mistake(n, what+" has no value", "give it one value, or remove it")
		return ""
	}
	return n.Value
}

// choice reads one of the words and returns its index.
func (r *reader) choice(n *yaml.Node, what string, words ...string) int {
	text := r.text(n, what)
	i := slices.Index(words, text)
	if i < 0 && text != "" {
		r.mistake(n, fmt.Sprintf("%s: %.40q is not known", what, text), "use one of "+strings.Join(words, ", "))
	}
	return max(0, i)
}

// duration reads a duration above 0. Like the readers below it returns 0 for a mistake, as
// if the value were left out, so that no check of the value reports it again.
func (r *reader) duration(n *yaml.Node, what string) time.Duration {
	text := r.text(n, what)
	d, err := time.ParseDuration(text)
	if text != "" && (err != nil || d <= 0) {
		r.mistake(n, fmt.Sprintf("%s: %.40q is not a duration above 0", what, text), "write it as 500ms or 2s")
		return 0
	}
	return d
}

// share reads a share above 0, at most 1, as a percentage or a number.
func (r *reader) share(n *yaml.Node, what string) float64 {
	text := r.text(n, what)
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if text != "" && (err != nil || !(share > 0 && share <= 1)) {
		r.mistake(n, fmt.Sprintf("%s: %.40q is not a share above 0, at most 1", what, text), "write it as 50% or 0.5")
		return 0
	}
	return share
}

// positive reads a whole number above 0.
func (r *reader) positive(n *yaml.Node, what string) int {
	text := r.text(n, what)
	i, err := strconv.Atoi(text)
	if text != "" && (err != nil || i <= 0) {
		r.mistake(n, fmt.Sprintf("%s: %.40q is not a whole number above 0", what, text), "write it as 3")
		return 0
	}
	return i
}

// url reads a URL. Messages do not repeat it, because it may hold a password.
func (r *reader) url(n *yaml.Node) *url.URL {
	text := r.text(n, "url")
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Host == "") {
		r.mistake(n, "a server is not a URL", "write it as http://10.0.0.1:9000")
	}
	return u
}
