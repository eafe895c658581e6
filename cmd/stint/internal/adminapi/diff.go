package adminapi

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// diff is how two versions differ: which names, and the lines.
type diff struct {
	From     uint64      `json:"from"`
	To       uint64      `json:"to"`
	Changed  bool        `json:"changed"` // anything at all, be it a comment
	Rules    nameDiff    `json:"rules"`
	Tiers    nameDiff    `json:"tiers"`
	Moved    bool        `json:"rules_moved,omitempty"`
	Lists    bool        `json:"lists,omitempty"`
	Defaults bool        `json:"defaults,omitempty"`
	Fresh    []freshDiff `json:"starts_fresh,omitempty"`
	Text     string      `json:"text"` // unified, as diff -u writes it
}

// freshDiff is a limit whose counts begin anew.
type freshDiff struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
}

type nameDiff struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// compare says how two versions differ.
func (a *API) compare(from, to ruleset.Version) *diff {
	return a.compareRead(from, to, contentsOf(from.Files), contentsOf(to.Files), nil)
}

// compareRead is compare where both were read. after is the set of the second,
// nil when nobody has parsed it yet. Of files that cannot be compared by name it
// tells the lines alone.
func (a *API) compareRead(from, to ruleset.Version, was, is *contents, after *rule.Set) *diff {
	d := &diff{From: from.Number, To: to.Number, Text: unified(from, to)}
	d.Changed = d.Text != ""
	if !d.Changed || was.err != nil || is.err != nil {
		return d
	}
	c := was.said.Changes(is.said)
	d.Rules, d.Tiers = nameDiff(c.Rules), nameDiff(c.Tiers)
	d.Moved, d.Lists, d.Defaults = c.Moved, c.Lists, c.Defaults
	before := a.setOf(from)
	if after == nil {
		after = a.setOf(to)
	}
	if before != nil && after != nil {
		for _, f := range ruleedit.Fresh(before, after) {
			d.Fresh = append(d.Fresh, freshDiff(f))
		}
	}
	return d
}

// setOf is the rules of a version; nil of one that rules have outgrown.
func (a *API) setOf(v ruleset.Version) *rule.Set {
	if set, now := a.Rules.Current(); now.Number == v.Number && now.Hash == v.Hash {
		return set
	}
	set, err := v.Set()
	if err != nil {
		return nil
	}
	return set
}

// unified writes the difference of each file, in order of both sets.
func unified(from, to ruleset.Version) string {
	var b strings.Builder
	old := map[string]string{}
	for _, f := range from.Files {
		old[f.Name] = string(f.Data)
	}
	for _, f := range to.Files {
		text, known := old[f.Name]
		b.WriteString(lineDiff(label(f.Name, known), f.Name, text, string(f.Data)))
		delete(old, f.Name)
	}
	for _, f := range from.Files {
		if text, gone := old[f.Name]; gone {
			b.WriteString(lineDiff(f.Name, "/dev/null", text, ""))
		}
	}
	return b.String()
}

func label(name string, known bool) string {
	if known {
		return name
	}
	return "/dev/null"
}

func lineDiff(oldName, newName, before, after string) string {
	if before == after && oldName == newName {
		return ""
	}
	if before == after {
		return "--- " + oldName + "\n+++ " + newName + "\n"
	}
	text, err := udiff.ToUnified(oldName, newName, before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if err != nil {
		return "--- " + oldName + "\n+++ " + newName + "\n"
	}
	return text
}

// diff answers GET /rules/diff?from=1&to=2; to is the version in force unless
// given.
func (a *API) diff(r *request) (any, error) {
	_, now := a.Rules.Current()
	to, err := r.number("to", now.Number, 0, ruleset.MaxNumber)
	if err != nil {
		return nil, err
	}
	if r.URL.Query().Get("from") == "" {
		return nil, badRequest("from: is missing: say which version, such as /rules/diff?from=1&to=2")
	}
	from, err := r.number("from", 0, 0, ruleset.MaxNumber)
	if err != nil {
		return nil, err
	}
	older, err := a.Rules.Get(r.Context(), from)
	if err != nil {
		return nil, err
	}
	newer, err := a.Rules.Get(r.Context(), to)
	if err != nil {
		return nil, err
	}
	if err := a.reading.take(r.Context()); err != nil {
		return nil, err
	}
	defer a.reading.end()
	d := a.compare(older, newer)
	if r.wantsYAML() {
		return plainText{"text/plain; charset=utf-8", []byte(d.Text)}, nil
	}
	return d, nil
}
