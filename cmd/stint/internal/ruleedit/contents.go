package ruleedit

import (
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// Changes describes how one rule set differs from another. Comments and layout
// do not count. Names are in file order.
type Changes struct {
	Rules, Tiers NameChanges
	// Moved means that rules in both sets have another order.
	Moved bool
	// Lists means that the top-level lists differ. Defaults means that the defaults,
	// ipv6_prefix or identity differ.
	Lists, Defaults bool
}

// NameChanges lists the names that were added, removed or changed.
type NameChanges struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// Changes returns the differences between c and after.
func (c *Contents) Changes(after *Contents) Changes {
	return Changes{
		Rules: c.rules.changes(&after.rules), Tiers: c.tiers.changes(&after.tiers),
		Moved: !slices.Equal(c.rules.also(&after.rules), after.rules.also(&c.rules)),
		Lists: !slices.Equal(c.lists, after.lists), Defaults: c.rest != after.rest,
	}
}

// Contents holds each part of a rule set as text, without comments and layout.
// It is safe for concurrent use.
type Contents struct {
	rules, tiers named
	lists        []string
	rest         string
}

// Rule returns a rule as [Text.JSON] does.
func (c *Contents) Rule(id string) (text string, ok bool) {
	text, ok = c.rules.text[id]
	return text, ok
}

// Tier returns a declared tier as [Text.JSON] does.
func (c *Contents) Tier(name string) (text string, ok bool) {
	text, ok = c.tiers.text[name]
	return text, ok
}

// named holds parts by name, in order.
type named struct {
	order []string
	text  map[string]string
}

func (p *named) add(name string, n *yaml.Node) {
	if _, known := p.text[name]; !known {
		p.order = append(p.order, name)
	}
	p.text[name] = string(Text{n}.JSON())
}

func (p *named) changes(after *named) (c NameChanges) {
	for _, name := range p.order {
		text, known := after.text[name]
		switch {
		case !known:
			c.Removed = append(c.Removed, name)
		case text != p.text[name]:
			c.Changed = append(c.Changed, name)
		}
	}
	for _, name := range after.order {
		if _, known := p.text[name]; !known {
			c.Added = append(c.Added, name)
		}
	}
	return c
}

// also returns the names that both have.
func (p *named) also(other *named) (list []string) {
	for _, name := range p.order {
		if _, known := other.text[name]; known {
			list = append(list, name)
		}
	}
	return list
}

// ReadContents parses files into their parts. The error is [rule.Problems] of files
// that are not valid YAML.
func ReadContents(files []rule.File) (*Contents, error) {
	e, err := newEditor(files)
	if err != nil {
		return nil, err
	}
	c := &Contents{rules: named{text: map[string]string{}}, tiers: named{text: map[string]string{}}}
	for s := range e.rules() {
		if id := lookup(s.read(), "id"); id != nil {
			c.rules.add(target(id).Value, s.read())
		}
	}
	for s := range e.documents() {
		c.addTop(s.read())
	}
	slices.Sort(c.lists)
	return c, nil
}

// addTop adds the top-level fields of a document.
func (c *Contents) addTop(root *yaml.Node) {
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i].Value, target(root.Content[i+1])
		switch key {
		case "tiers":
			for t := 0; value.Kind == yaml.MappingNode && t+1 < len(value.Content); t += 2 {
				c.tiers.add(value.Content[t].Value, value.Content[t+1])
			}
		case "rules", "version":
		case "allow", "whitelist", "deny", "blacklist":
			c.addList(key, value)
		default:
			c.rest += key + string(Text{value}.JSON())
		}
	}
}

func (c *Contents) addList(key string, value *yaml.Node) {
	list := listNames(key == "deny" || key == "blacklist")[0]
	if value.Kind != yaml.SequenceNode {
		value = &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{value}}
	}
	for _, item := range value.Content {
		c.lists = append(c.lists, list+string(Text{item}.JSON()))
	}
}

// listNames returns the field names of the allow or deny list.
func listNames(deny bool) []string {
	if deny {
		return []string{"deny", "blacklist"}
	}
	return []string{"allow", "whitelist"}
}

// FreshLimit names a limit of a rule.
type FreshLimit struct {
	Rule  string `json:"rule"`
	Limit string `json:"limit"`
	Words string `json:"words"` // the limit in words; of several with one name, the first
}

// Fresh returns the limits of after that start with empty state although their
// rule exists in before. A limit with another name, algorithm, window, bucket
// count, period or anchor is a new limit, and so is one that another store counts,
// or whose rule counts by other attributes. A limit of which only the numbers change
// keeps its state.
func Fresh(before, after *rule.Set) (fresh []FreshLimit) {
	type state struct{ rule, by, name, shape, store string }
	stateOf := func(s *rule.Set, r *rule.Rule, l stint.Limit) state {
		return state{r.ID, strings.Join(s.By(r), ","), l.Name(), l.Shape(), l.Store()}
	}
	had := map[state]bool{}
	for r, l := range everyLimit(before) {
		had[stateOf(before, r, l)] = true
	}
	for r, l := range everyLimit(after) {
		listed := func(f FreshLimit) bool { return f.Rule == r.ID && f.Limit == l.Name() }
		if before.Rule(r.ID) != nil && !had[stateOf(after, r, l)] && !slices.ContainsFunc(fresh, listed) {
			fresh = append(fresh, FreshLimit{r.ID, l.Name(), LimitInWords(l, after.By(r))})
		}
	}
	return fresh
}

// everyLimit visits the limits of a set in the order of its rules.
func everyLimit(s *rule.Set) iter.Seq2[*rule.Rule, stint.Limit] {
	return func(yield func(*rule.Rule, stint.Limit) bool) {
		for _, r := range s.Rules() {
			for _, e := range r.Effective(s) {
				for _, l := range e.Limits {
					if !yield(r, l) {
						return
					}
				}
			}
		}
	}
}

// Text is a part of a rule set as its file states it.
type Text struct{ n *yaml.Node }

// JSON returns the part as one line of JSON. Keys keep their order and numbers
// their text.
func (t Text) JSON() []byte { return appendJSON(nil, t.n) }

// YAML returns the part as YAML, with its comments.
func (t Text) YAML() []byte {
	text, err := encode(copied(t.n))
	if err != nil {
		return append(t.JSON(), '\n') // JSON is valid YAML
	}
	return text
}

// TextOfRule returns a rule as its file states it. The error is a
// [*NotFoundError], or [rule.Problems] of files that cannot be read.
func TextOfRule(files []rule.File, id string) (Text, error) {
	return textOf(files, id, (*editor).rule)
}

// TextOfTier is [TextOfRule] for a declared tier.
func TextOfTier(files []rule.File, tier string) (Text, error) {
	return textOf(files, tier, (*editor).tier)
}

func textOf(files []rule.File, name string, find func(e *editor, name string) (site, error)) (Text, error) {
	e, err := newEditor(files)
	if err != nil {
		return Text{}, err
	}
	found, err := find(e, name)
	if err != nil {
		return Text{}, err
	}
	return Text{found.read()}, nil
}
