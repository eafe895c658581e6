package rulecase

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/yamlfile"
	"github.com/stintdev/stint/rule"
)

// defaultStart is the time at which a case starts that names none. It is the start of a
// year, so it is also the start of every window and period in UTC.
var defaultStart = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Read reads a file of cases. load reads the rules that the file names. Errors say where
// each mistake is and how to correct it.
func Read(path string, load func(path string) (*rule.Set, error)) (*File, error) {
	root, err := yamlfile.Read(path)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, fmt.Errorf("%s: is empty (write rules and tests)", path)
	}
	r := &yamlfile.Reader{Path: path}
	d := document{start: defaultStart}
	yamlfile.Fields(r, root, "the file", map[string]yamlfile.Field[document]{
		"rules": func(r *yamlfile.Reader, n *yaml.Node, d *document) { d.rules = r.Text(n, "rules") },
		"start": func(r *yamlfile.Reader, n *yaml.Node, d *document) { d.start = readStart(r, n) },
		"tests": func(r *yamlfile.Reader, n *yaml.Node, d *document) { r.Items(n, "tests", d.add) },
	}, &d)
	if d.rules == "" && len(r.Mistakes) == 0 {
		r.Mistake(root, "the file has no rules", "write rules: and the rule file, as seen from the folder of this file")
	}
	if len(d.cases) == 0 && len(r.Mistakes) == 0 {
		r.Mistake(root, "the file has no tests", "write tests: and a list of cases, each with name and requests")
	}
	if len(d.cases) > MaxCases {
		r.Mistake(root, fmt.Sprintf("there are %d tests", len(d.cases)), fmt.Sprintf("divide them into files of at most %d", MaxCases))
	}
	if len(r.Mistakes) > 0 {
		return nil, r.Mistakes
	}
	if !filepath.IsAbs(d.rules) {
		d.rules = filepath.Join(filepath.Dir(path), d.rules)
	}
	set, err := load(d.rules)
	if err != nil {
		return nil, err
	}
	return d.file(r, set)
}

// document is a file while it is read.
type document struct {
	rules string
	start time.Time
	cases []*yaml.Node // they are read when the rules are known
}

func (d *document) add(n *yaml.Node) { d.cases = append(d.cases, n) }

// file reads the cases of the document.
func (d *document) file(r *yamlfile.Reader, set *rule.Set) (*File, error) {
	f := &File{Path: r.Path, Set: set}
	lines := map[string]int{}
	for _, n := range d.cases {
		c := caseReader{start: d.start, set: set}
		yamlfile.Fields(r, n, "a test", map[string]yamlfile.Field[caseReader]{
			"name":  func(r *yamlfile.Reader, n *yaml.Node, c *caseReader) { c.Name, c.Line = r.Text(n, "name"), n.Line },
			"start": func(r *yamlfile.Reader, n *yaml.Node, c *caseReader) { c.start = readStart(r, n) },
			"requests": func(r *yamlfile.Reader, n *yaml.Node, c *caseReader) {
				r.Items(n, "requests", func(item *yaml.Node) { c.requests = append(c.requests, item) })
			},
		}, &c)
		c.read(r, n)
		if first := lines[c.Name]; first > 0 {
			r.Mistake(n, fmt.Sprintf("there is a second test named %.60q", c.Name), fmt.Sprintf("rename it, or the one in line %d", first))
		}
		lines[c.Name] = c.Line
		f.Cases = append(f.Cases, c.Case)
	}
	r.Sort()
	if len(r.Mistakes) > 0 {
		return nil, r.Mistakes
	}
	return f, nil
}

// caseReader reads a case. The requests are read after the keys beside them, since their
// times depend on the start.
type caseReader struct {
	Case

	start    time.Time
	set      *rule.Set
	requests []*yaml.Node
}

func (c *caseReader) read(r *yamlfile.Reader, n *yaml.Node) {
	found := len(r.Mistakes)
	sum := 0
	for _, item := range c.requests {
		s := c.readSeries(r, item)
		sum += min(s.times, MaxRequests+1)
		c.series = append(c.series, s)
		if sum > MaxRequests {
			r.Mistake(item, "the test has too many requests", fmt.Sprintf("use at most %d in one test", MaxRequests))
			return
		}
	}
	if len(r.Mistakes) > found {
		return
	}
	if c.Name == "" {
		r.Mistake(n, "a test has no name", "write name: and what the test shows")
	}
	if len(c.requests) == 0 {
		r.Mistake(n, "a test has no requests", "write requests: and a list, each with attributes and expect")
	}
}

func (c *caseReader) readSeries(r *yamlfile.Reader, n *yaml.Node) series {
	s := series{at: c.start.UnixMicro(), times: 1, cost: 1}
	given := yamlfile.Fields(r, n, "a request", map[string]yamlfile.Field[series]{
		"at": func(r *yamlfile.Reader, n *yaml.Node, s *series) {
			if after := readDuration(r, n, "at"); after != nil {
				s.at += after.Microseconds()
			}
		},
		"every":      func(r *yamlfile.Reader, n *yaml.Node, s *series) { s.every = r.Duration(n, "every") },
		"times":      func(r *yamlfile.Reader, n *yaml.Node, s *series) { s.times = r.Positive(n, "times") },
		"cost":       readCost,
		"attributes": func(r *yamlfile.Reader, n *yaml.Node, s *series) { c.readAttributes(r, n, s) },
		"expect":     func(r *yamlfile.Reader, n *yaml.Node, s *series) { c.readExpectation(r, n, s) },
	}, &s)
	switch {
	case given["expect"] == nil:
		r.Mistake(n, "a request expects nothing", "write expect: allow, expect: deny, or the fields of the decision")
	case given["every"] != nil && given["times"] == nil:
		r.Mistake(given["every"], "every without times", "write times: and the number of requests")
	case s.times > 1 && s.every > 0 && s.every > time.Duration(1<<62)/time.Duration(s.times):
		r.Mistake(given["every"], "the series lasts longer than 146 years", "use a shorter distance or fewer requests")
	case s.every%time.Microsecond != 0:
		r.Mistake(given["every"], "every is not a whole number of microseconds", "round it")
	}
	return s
}

// readCost reads a cost. 0 only looks.
func readCost(r *yamlfile.Reader, n *yaml.Node, s *series) {
	text := r.Text(n, "cost")
	cost, err := strconv.ParseInt(text, 10, 64)
	if text != "" && (err != nil || cost < 0) {
		r.Mistake(n, fmt.Sprintf("cost: %.40q is not a whole number from 0 on", text), "write it as 1")
	}
	s.cost = cost
}

// readAttributes reads the attributes of a request. It rejects names that no request has and
// no rule reads, because such a test would pass whatever the attribute is.
func (c *caseReader) readAttributes(r *yamlfile.Reader, n *yaml.Node, s *series) {
	s.attributes = rule.Map{}
	r.Pairs(n, "attributes", func(key, value *yaml.Node) {
		name := rule.AttributeName(key.Value)
		if mend := UnreadAttribute(c.set, name); mend != "" {
			r.Mistake(key, fmt.Sprintf("no rule reads the attribute %.40q", name), mend)
			return
		}
		s.attributes[name] = r.Text(value, name)
	})
}

// UnreadAttribute returns how to correct the name of an attribute that no HTTP request has
// and no rule of the set reads, or "" for other names.
func UnreadAttribute(set *rule.Set, name string) (mend string) {
	known := append([]string{"api_key", "ip", "method", "path", "host", "tier"}, set.Attributes()...)
	if strings.HasPrefix(name, "header:") || slices.Contains(known, name) {
		return ""
	}
	return yamlfile.Nearest(name, known)
}

var decisions = []string{"deny", "allow"}

func (c *caseReader) readExpectation(r *yamlfile.Reader, n *yaml.Node, s *series) {
	want := &s.want
	want.line, want.column = n.Line, n.Column
	if n.Kind == yaml.ScalarNode {
		want.each = decision(r, n)
		return
	}
	given := yamlfile.Fields(r, n, "expect", map[string]yamlfile.Field[expectation]{
		"allowed":  func(r *yamlfile.Reader, n *yaml.Node, e *expectation) { e.allowed = readNumber[int](r, n, "allowed") },
		"denied":   func(r *yamlfile.Reader, n *yaml.Node, e *expectation) { e.denied = readNumber[int](r, n, "denied") },
		"decision": func(r *yamlfile.Reader, n *yaml.Node, e *expectation) { e.last.allowed = decision(r, n) },
		"rule":     func(r *yamlfile.Reader, n *yaml.Node, e *expectation) { e.last.rule = c.ruleID(r, n) },
		"list": func(r *yamlfile.Reader, n *yaml.Node, e *expectation) {
			words := []string{"none", "allow", "deny"}
			e.last.list = &words[r.Choice(n, "list", words...)]
		},
		"limit": func(r *yamlfile.Reader, n *yaml.Node, e *expectation) {
			e.last.limit = readNumber[int64](r, n, "limit")
		},
		"remaining": func(r *yamlfile.Reader, n *yaml.Node, e *expectation) {
			e.last.remaining = readNumber[int64](r, n, "remaining")
		},
		"retry_after": readRetry,
		"reset_after": func(r *yamlfile.Reader, n *yaml.Node, e *expectation) {
			e.last.resetAfter = readDuration(r, n, "reset_after")
		},
		"delay":       func(r *yamlfile.Reader, n *yaml.Node, e *expectation) { e.last.delay = readDuration(r, n, "delay") },
		"shadow_deny": func(r *yamlfile.Reader, n *yaml.Node, e *expectation) { e.last.shadow = c.ruleIDs(r, n) },
	}, want)
	if len(given) == 0 {
		r.Mistake(n, "expect has no field", "write expect: allow, expect: deny, or the fields of the decision")
	}
	if want.allowed != nil && want.denied != nil && s.times > 0 && *want.allowed+*want.denied != s.times && s.times != 1 {
		r.Mistake(n, fmt.Sprintf("allowed and denied sum to %d", *want.allowed+*want.denied), fmt.Sprintf("the series has %d requests", s.times))
	}
}

func decision(r *yamlfile.Reader, n *yaml.Node) *bool {
	return new(r.Choice(n, "decision", decisions...) == 1)
}

func readRetry(r *yamlfile.Reader, n *yaml.Node, e *expectation) {
	if n.Value == "never" {
		e.last.retryAfter = new(stint.Never)
		return
	}
	e.last.retryAfter = readDuration(r, n, "retry_after")
}

// ruleID reads the id of a rule, or "" for the decision of no rule.
func (c *caseReader) ruleID(r *yamlfile.Reader, n *yaml.Node) *string {
	if n.Kind == yaml.ScalarNode && (n.Value == "" || n.Value == "none") && c.set.Rule(n.Value) == nil {
		return new(string)
	}
	id := r.Text(n, "rule")
	if id != "" && c.set.Rule(id) == nil {
		known := []string{}
		for _, one := range c.set.Rules() {
			known = append(known, one.ID)
		}
		r.Mistake(n, fmt.Sprintf("there is no rule %.40q", id), yamlfile.Nearest(id, known))
	}
	return &id
}

// ruleIDs reads a list of rules, which may be empty, and sorts it.
func (c *caseReader) ruleIDs(r *yamlfile.Reader, n *yaml.Node) *[]string {
	ids := map[string]bool{}
	if n.Kind != yaml.SequenceNode || len(n.Content) > 0 {
		r.Items(n, "shadow_deny", func(item *yaml.Node) { ids[*c.ruleID(r, item)] = true })
	}
	return new(slices.Sorted(maps.Keys(ids)))
}

func readNumber[T int | int64](r *yamlfile.Reader, n *yaml.Node, what string) *T {
	text := r.Text(n, what)
	number, err := strconv.ParseInt(text, 10, 64)
	if text != "" && (err != nil || number < 0) {
		r.Mistake(n, fmt.Sprintf("%s: %.40q is not a whole number from 0 on", what, text), "write it as 3")
		return nil
	}
	return new(T(number))
}

// readDuration reads a duration from 0 on, in whole microseconds. It returns nil for a
// mistake.
func readDuration(r *yamlfile.Reader, n *yaml.Node, what string) *time.Duration {
	text := r.Text(n, what)
	d, err := time.ParseDuration(cmp.Or(text, "0s"))
	if err != nil || d < 0 || d%time.Microsecond != 0 {
		r.Mistake(n, fmt.Sprintf("%s: %.40q is not a duration from 0 on in whole microseconds", what, text), "write it as 500ms or 2s")
		return nil
	}
	return &d
}

// The range of a start. The store's clock is in microseconds since the Unix epoch.
var earliest, latest = time.Unix(0, 0), time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)

func readStart(r *yamlfile.Reader, n *yaml.Node) time.Time {
	text := r.Text(n, "start")
	t, err := time.Parse(time.RFC3339Nano, text)
	if text != "" && (err != nil || t.Before(earliest) || t.After(latest)) {
		r.Mistake(n, fmt.Sprintf("start: %.40q is not a time from 1970 to 2200", text), "write it as 2026-01-31T12:00:00Z")
		return defaultStart
	}
	return t
}
