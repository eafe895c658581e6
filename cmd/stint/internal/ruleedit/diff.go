package ruleedit

import (
	"slices"

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
	// Lists means that the top-level lists differ. Defaults means that the defaults
	// or ipv6_prefix differ.
	Lists, Defaults bool
}

// NameChanges lists the names that were added, removed or changed.
type NameChanges struct{ Added, Removed, Changed []string }

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
	e.eachRule(func(s site) bool {
		if id := lookup(s.read(), "id"); id != nil {
			c.rules.add(target(id).Value, s.read())
		}
		return true
	})
	for _, top := range e.tops {
		for _, root := range top.Content {
			if !isRule(root) {
				c.addTop(target(root))
			}
		}
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
type FreshLimit struct{ Rule, Limit string }

// Fresh returns the limits of after that start with empty state although their
// rule exists in before. A limit with another name, algorithm, window, bucket
// count, period or anchor is a new limit. A limit of which only the numbers
// change keeps its state.
func Fresh(before, after *rule.Set) (fresh []FreshLimit) {
	had := map[string]map[stint.Limit]bool{}
	for _, r := range before.Rules() {
		states := map[stint.Limit]bool{}
		for _, l := range limitsInOrder(before, r) {
			states[l] = true
		}
		had[r.ID] = states
	}
	for _, r := range after.Rules() {
		states, known := had[r.ID]
		if !known {
			continue
		}
		for _, l := range limitsInOrder(after, r) {
			one := FreshLimit{r.ID, l.Name()}
			if !hasState(states, l) && !slices.Contains(fresh, one) {
				fresh = append(fresh, one)
			}
		}
	}
	return fresh
}

func limitsInOrder(s *rule.Set, r *rule.Rule) (limits []stint.Limit) {
	for _, e := range r.Effective(s) {
		limits = append(limits, e.Limits...)
	}
	return limits
}

func hasState(states map[stint.Limit]bool, l stint.Limit) bool {
	for known := range states {
		if known.Name() == l.Name() && known.Shape() == l.Shape() {
			return true
		}
	}
	return states[l]
}
