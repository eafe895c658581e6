package yamlfile

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

	"github.com/stintdev/stint/internal/suggest"
	"github.com/stintdev/stint/rule"
)

// Reader reads the values of nodes and collects the mistakes of a file. A method that finds
// a mistake returns the zero value, as if the value were left out, so that no check of the
// value reports the mistake again.
type Reader struct {
	Path     string // of the file, for the mistakes
	Mistakes rule.Problems
}

// Field reads the value of one key.
type Field[T any] func(r *Reader, n *yaml.Node, into *T)

// Fields reads a mapping, and returns the values by their keys. what names the mapping in
// messages.
func Fields[T any](r *Reader, n *yaml.Node, what string, known map[string]Field[T], into *T) map[string]*yaml.Node {
	at := map[string]*yaml.Node{}
	r.Pairs(n, what, func(key, value *yaml.Node) {
		read, ok := known[key.Value]
		if !ok {
			names := slices.Sorted(maps.Keys(known))
			r.Mistake(key, fmt.Sprintf("%s has no key %.40q", what, key.Value), Nearest(key.Value, names))
			return
		}
		at[key.Value] = value
		read(r, value, into)
	})
	return at
}

// Mistake records a mistake at a node, and how to correct it.
func (r *Reader) Mistake(n *yaml.Node, what, mend string) {
	r.Mistakes = append(r.Mistakes, rule.Problem{File: r.Path, Line: n.Line, Column: n.Column, What: what, Mend: mend})
}

// Check records an error that says how to correct it.
func (r *Reader) Check(n *yaml.Node, err error) {
	if err != nil {
		r.Mistake(n, err.Error(), "")
	}
}

// CheckEach records the lines of an error, each at the value of the key that it begins
// with.
func (r *Reader) CheckEach(n *yaml.Node, at map[string]*yaml.Node, err error) {
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		key, _, _ := strings.Cut(line, ":")
		r.Mistake(cmp.Or(at[key], n), line, "")
	}
}

// Sort orders the mistakes by their places.
func (r *Reader) Sort() {
	slices.SortStableFunc(r.Mistakes, func(a, b rule.Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
}

// Nearest says how to correct an unknown name.
func Nearest(name string, known []string) string {
	if near, ok := suggest.Name(name, known); ok {
		return "did you mean " + near + "?"
	}
	return "use one of " + strings.Join(known, ", ")
}

// Pairs calls each for every key and value of a mapping.
func (r *Reader) Pairs(n *yaml.Node, what string, each func(key, value *yaml.Node)) {
	n = Target(n)
	if n.Kind != yaml.MappingNode {
		r.Mistake(n, what+" must be keys and values", "write it as key: value")
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], Target(n.Content[i+1])
		switch {
		case key.Tag == "!!merge":
			r.Mistake(key, "a key << is not merged", "write the keys out")
		case key.Kind != yaml.ScalarNode:
			r.Mistake(key, "a key is not text", "write key: value")
		case lines[key.Value] > 0:
			r.Mistake(key, fmt.Sprintf("%s has the key %.40q a second time", what, key.Value), fmt.Sprintf("remove it, or the one in line %d", lines[key.Value]))
		default:
			lines[key.Value] = key.Line
			each(key, value)
		}
	}
}

// Items calls each for every item of a list.
func (r *Reader) Items(n *yaml.Node, what string, each func(item *yaml.Node)) {
	n = Target(n)
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		r.Mistake(n, what+" must be a list", "write it as [a, b], or remove it")
		return
	}
	for _, item := range n.Content {
		each(Target(item))
	}
}

// Text reads one value that is not empty.
func (r *Reader) Text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || n.Value == "" {
		r.Mistake(n, what+" has no value", "give it one value, or remove it")
		return ""
	}
	return n.Value
}

// Choice reads one of the words and returns its index.
func (r *Reader) Choice(n *yaml.Node, what string, words ...string) int {
	text := r.Text(n, what)
	i := slices.Index(words, text)
	if i < 0 && text != "" {
		r.Mistake(n, fmt.Sprintf("%s: %.40q is not known", what, text), "use one of "+strings.Join(words, ", "))
	}
	return max(0, i)
}

// Duration reads a duration above 0.
func (r *Reader) Duration(n *yaml.Node, what string) time.Duration {
	text := r.Text(n, what)
	d, err := time.ParseDuration(text)
	if text != "" && (err != nil || d <= 0) {
		r.Mistake(n, fmt.Sprintf("%s: %.40q is not a duration above 0", what, text), "write it as 500ms or 2s")
		return 0
	}
	return d
}

// Share reads a share above 0, at most 1, as a percentage or a number.
func (r *Reader) Share(n *yaml.Node, what string) float64 {
	text := r.Text(n, what)
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if text != "" && (err != nil || !(share > 0 && share <= 1)) {
		r.Mistake(n, fmt.Sprintf("%s: %.40q is not a share above 0, at most 1", what, text), "write it as 50% or 0.5")
		return 0
	}
	return share
}

// Positive reads a whole number above 0.
func (r *Reader) Positive(n *yaml.Node, what string) int {
	text := r.Text(n, what)
	i, err := strconv.Atoi(text)
	if text != "" && (err != nil || i <= 0) {
		r.Mistake(n, fmt.Sprintf("%s: %.40q is not a whole number above 0", what, text), "write it as 3")
		return 0
	}
	return i
}

// URL reads a URL. Messages do not repeat it, because it may hold a password.
func (r *Reader) URL(n *yaml.Node) *url.URL {
	text := r.Text(n, "url")
	u, err := url.Parse(text)
	if text != "" && (err != nil || u.Host == "") {
		r.Mistake(n, "a server is not a URL", "write it as http://10.0.0.1:9000")
	}
	return u
}
