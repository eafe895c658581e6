package adminapi

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// diff is the difference of two versions, by names and by lines.
type diff struct {
	From     uint64                `json:"from"`
	To       uint64                `json:"to"`
	Changed  bool                  `json:"changed"` // also true if only a comment differs
	Rules    ruleedit.NameChanges  `json:"rules"`
	Tiers    ruleedit.NameChanges  `json:"tiers"`
	Moved    bool                  `json:"rules_moved,omitempty"`
	Lists    bool                  `json:"lists,omitempty"`
	Defaults bool                  `json:"defaults,omitempty"`
	Fresh    []ruleedit.FreshLimit `json:"starts_fresh,omitempty"`
	// Limits are the limits in force that differ; LimitsMore is the number of those left out.
	Limits     []ruleedit.LimitChange `json:"limits,omitempty"`
	LimitsMore int                    `json:"limits_more,omitempty"`
	Text       string                 `json:"text"` // unified, as diff -u writes it
}

// mostLimitChanges bounds the limits that a difference lists. A new default may change those
// of every rule, tier and override.
const mostLimitChanges = 1000

// compare returns the difference of two versions.
func (a *API) compare(from, to ruleset.Version) *diff {
	return a.compareRead(from, to, contentsOf(from.Files), contentsOf(to.Files), nil)
}

// compareRead is compare for versions whose contents are already read. after is
// the set of the second, or nil if it is not parsed yet. For files that cannot be
// compared by name, the difference has only lines.
func (a *API) compareRead(from, to ruleset.Version, was, is *contents, after *rule.Set) *diff {
	d := &diff{From: from.Number, To: to.Number, Text: unified(from, to)}
	d.Changed = d.Text != ""
	if !d.Changed || was.err != nil || is.err != nil {
		return d
	}
	c := was.parts.Changes(is.parts)
	d.Rules, d.Tiers = c.Rules, c.Tiers
	d.Moved, d.Lists, d.Defaults = c.Moved, c.Lists, c.Defaults
	before := a.setOf(from)
	if after == nil {
		after = a.setOf(to)
	}
	if before != nil && after != nil {
		d.Fresh = ruleedit.Fresh(before, after)
		d.Limits, d.LimitsMore = ruleedit.LimitChanges(before, after, mostLimitChanges)
	}
	return d
}

// setOf returns the rules of a version, or nil if this Stint cannot parse them.
func (a *API) setOf(v ruleset.Version) *rule.Set {
	if set, now := a.Rules.Current(); now.Number == v.Number && now.Hash == v.Hash {
		return set
	}
	set, _ := v.Set()
	return set
}

// unified returns the difference of all files in the format of diff -u. A single file
// that replaces others is compared with their text as a whole, because an operator may have
// edited that text (stint rules show).
func unified(from, to ruleset.Version) string {
	if len(to.Files) == 1 && len(from.Files) > 0 && (len(from.Files) > 1 || from.Files[0].Name != to.Files[0].Name) {
		var names []string
		for _, f := range from.Files {
			names = append(names, f.Name)
		}
		return lineDiff(strings.Join(names, " "), to.Files[0].Name, string(oneText(from.Files)), string(to.Files[0].Data))
	}
	var b strings.Builder
	old := map[string]string{}
	for _, f := range from.Files {
		old[f.Name] = string(f.Data)
	}
	for _, f := range to.Files {
		oldName := f.Name
		text, known := old[f.Name]
		if !known {
			oldName = "/dev/null"
		}
		b.WriteString(lineDiff(oldName, f.Name, text, string(f.Data)))
		delete(old, f.Name)
	}
	for _, f := range from.Files {
		if text, gone := old[f.Name]; gone {
			b.WriteString(lineDiff(f.Name, "/dev/null", text, ""))
		}
	}
	return b.String()
}

func lineDiff(oldName, newName, before, after string) string {
	if before == after && oldName == newName {
		return ""
	}
	text, err := udiff.ToUnified(oldName, newName, before, udiff.Lines(before, after), udiff.DefaultContextLines)
	if err != nil || before == after {
		return "--- " + oldName + "\n+++ " + newName + "\n"
	}
	return text
}

// diff answers GET /rules/diff?from=1&to=2. By default, to is the version in
// force. A version with a canary is compared by the rules that it tries.
func (a *API) diff(r *request) (any, error) {
	_, now := a.Rules.Current()
	to, err := r.number("to", now.Number, 0, ruleset.MaxNumber)
	if err != nil {
		return nil, err
	}
	if r.URL.Query().Get("from") == "" {
		return nil, badRequest("from: is missing (name a version, such as /rules/diff?from=1&to=2)")
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
	d := a.compare(older.Tried(), newer.Tried())
	if r.wantsYAML() {
		return plainText{"text/plain; charset=utf-8", []byte(d.Text)}, nil
	}
	return d, nil
}
