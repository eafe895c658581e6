package ruleedit

import (
	"encoding/json"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint/rule"
)

// PutOverride sets the limits of one key, pattern or network in place of the
// rule's own. The body is a mapping such as {"limit":500}, or one limit such as
// "500/m", in JSON or YAML. A temporary override ends at until, or at the RFC
// 3339 time in the mapping's own until field, and may give a reason. It takes
// precedence over a permanent override for the same key and leaves that
// override unchanged. A zero until sets no end.
func PutOverride(id, key string, body []byte, until time.Time) Edit {
	return Edit{"override", func(e *editor) (*change, error) {
		n, err := e.body(body)
		if err != nil {
			return nil, err
		}
		if err := checkRepeatedKeys(n); err != nil {
			return nil, err
		}
		holder, err := e.rule(id)
		if err != nil {
			return nil, err
		}
		if json.Valid(body) && n.Kind != yaml.ScalarNode {
			n.Style |= yaml.FlowStyle
		}
		if !until.IsZero() {
			if n.Kind == yaml.ScalarNode {
				n = expanded(n)
			}
			setEntry(n, textNode("until"), quotedNode(until.UTC().Format(time.RFC3339)))
		}
		if lookup(n, "until") != nil {
			n.Content = append([]*yaml.Node{textNode("match"), textNode(key)}, n.Content...)
			if found, ok := holder.item("temporary", key); ok {
				return found.replace(n), nil
			}
			return holder.add([]string{"temporary"}, yaml.SequenceNode, n), nil
		}
		if found, ok := holder.override(key); ok {
			return found.replace(n), nil
		}
		return holder.add([]string{"override"}, yaml.MappingNode, textNode(key), n), nil
	}}
}

// override finds the permanent override of a key in the rule here.
func (s site) override(key string) (site, bool) {
	overrides, ok := s.key("override")
	if !ok {
		return site{}, false
	}
	return overrides.key(key)
}

// DeleteOverride removes the temporary override of a key and, unless temporary
// is true, also the permanent one.
func DeleteOverride(id, key string, temporary bool) Edit {
	return Edit{"override", func(e *editor) (*change, error) {
		holder, err := e.rule(id)
		if err != nil {
			return nil, err
		}
		if found, ok := holder.item("temporary", key); ok {
			return found.remove(nil), nil
		}
		if found, ok := holder.override(key); ok && !temporary {
			return found.remove(nil), nil
		}
		return nil, &NotFoundError{"an override of this key in rule " + id}
	}}
}

// item finds the entry for a key in a list of the mapping here.
func (s site) item(list, key string) (found site, ok bool) {
	s.eachIn(list, func(item site) bool {
		if matchOf(item.read()) == key {
			found, ok = item, true
		}
		return !ok
	})
	return found, ok
}

// matchOf returns the key, pattern or network that an entry applies to.
func matchOf(n *yaml.Node) string {
	if n.Kind == yaml.MappingNode {
		if n = lookup(n, "match"); n == nil {
			return ""
		}
	}
	return target(n).Value
}

// ListEntry is one entry of an allow or deny list.
type ListEntry struct {
	Rule   string    `json:"rule,omitempty"` // the rule that has the list; empty: the whole set
	Deny   bool      `json:"deny"`           // false: allow list
	Match  string    `json:"match"`          // a key, a pattern of keys, an address or a network
	Until  time.Time `json:"until,omitzero"` // zero: permanent
	Reason string    `json:"reason,omitempty"`
}

// PutEntry adds an entry to a list and replaces entries with the same match.
func PutEntry(entry ListEntry) Edit {
	return Edit{"entry", func(e *editor) (*change, error) {
		n := entry.node()
		found, ok, err := e.entry(entry)
		switch {
		case err != nil:
			return nil, err
		case ok:
			return found.replace(n), nil
		case entry.Rule == "":
			return e.addTop(listNames(entry.Deny), yaml.SequenceNode, n), nil
		}
		holder, _ := e.rule(entry.Rule)
		return holder.add(listNames(entry.Deny), yaml.SequenceNode, n), nil
	}}
}

// DeleteEntry removes the entry with this match from a list.
func DeleteEntry(entry ListEntry) Edit {
	return Edit{"entry", func(e *editor) (*change, error) {
		found, ok, err := e.entry(entry)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, &NotFoundError{"this entry of the " + listNames(entry.Deny)[0] + " list"}
		}
		if found.path[len(found.path)-1].in.Kind == yaml.MappingNode {
			return found.replace(emptyList()), nil // the list is written as its only entry
		}
		return found.remove(emptyList), nil
	}}
}

func (entry *ListEntry) node() *yaml.Node {
	if entry.Until.IsZero() && entry.Reason == "" {
		return textNode(entry.Match)
	}
	n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{textNode("match"), textNode(entry.Match)}}
	if !entry.Until.IsZero() {
		n.Content = append(n.Content, textNode("until"), quotedNode(entry.Until.UTC().Format(time.RFC3339)))
	}
	if entry.Reason != "" {
		n.Content = append(n.Content, textNode("reason"), quotedNode(entry.Reason))
	}
	return n
}

func quotedNode(text string) *yaml.Node {
	n := textNode(text)
	n.Style = yaml.DoubleQuotedStyle
	return n
}

// entry finds the entry with the same match in the same list.
func (e *editor) entry(entry ListEntry) (found site, ok bool, err error) {
	find := func(s site) {
		for _, name := range listNames(entry.Deny) {
			if ok {
				return
			}
			if found, ok = s.item(name, entry.Match); !ok {
				found, ok = s.only(name, entry.Match)
			}
		}
	}
	if entry.Rule != "" {
		holder, err := e.rule(entry.Rule)
		if err != nil {
			return site{}, false, err
		}
		find(holder)
		return found, ok, nil
	}
	for s := range e.documents() {
		find(s)
	}
	return found, ok, nil
}

// only finds a list that is written as its only entry, without brackets.
func (s site) only(list, match string) (site, bool) {
	if n := lookup(s.read(), list); n == nil || target(n).Kind == yaml.SequenceNode || matchOf(target(n)) != match {
		return site{}, false
	}
	return s.key(list)
}

// ListEntries returns the entries of all lists: first those of the set, then
// those of its rules, in file order.
func ListEntries(files []rule.File) (entries []ListEntry, err error) {
	e, err := newEditor(files)
	if err != nil {
		return nil, err
	}
	for s := range e.documents() {
		entries = appendEntries(entries, s.read(), "")
	}
	for s := range e.rules() {
		if id := lookup(s.read(), "id"); id != nil {
			entries = appendEntries(entries, s.read(), target(id).Value)
		}
	}
	return entries, nil
}

func appendEntries(entries []ListEntry, holder *yaml.Node, id string) []ListEntry {
	for _, deny := range []bool{true, false} {
		for _, name := range listNames(deny) {
			list := lookup(holder, name)
			if list == nil {
				continue
			}
			items := []*yaml.Node{list}
			if list = target(list); list.Kind == yaml.SequenceNode {
				items = list.Content
			}
			for _, item := range items {
				entries = append(entries, entryOf(target(item), id, deny))
			}
		}
	}
	return entries
}

func entryOf(n *yaml.Node, id string, deny bool) ListEntry {
	entry := ListEntry{Rule: id, Deny: deny, Match: matchOf(n)}
	if until := lookup(n, "until"); until != nil {
		entry.Until, _ = time.Parse(time.RFC3339, target(until).Value) // the time is valid: the set has been parsed
	}
	if reason := lookup(n, "reason"); reason != nil {
		entry.Reason = target(reason).Value
	}
	return entry
}
