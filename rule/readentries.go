package rule

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// entryFields are the fields of a list entry.
var entryFields = fields[rawEntry]{
	"match":  func(r *reader, n *yaml.Node, e *rawEntry) { e.located, _ = r.text(n, "match") },
	"until":  func(r *reader, n *yaml.Node, e *rawEntry) { e.until = r.time(n, "until") },
	"reason": func(r *reader, n *yaml.Node, _ *rawEntry) { _, _ = r.text(n, "reason") },
}

// entries reads one entry or a list of entries. An entry is text, or a mapping
// with an end and a reason.
func (r *reader) entries(n *yaml.Node, what string) (list []rawEntry) {
	if target(n).Kind != yaml.SequenceNode {
		return r.entry(n, what, list)
	}
	r.items(n, what, func(item *yaml.Node) { list = r.entry(item, "an item of "+what, list) })
	return list
}

func (r *reader) entry(n *yaml.Node, what string, list []rawEntry) []rawEntry {
	if target(n).Kind != yaml.MappingNode {
		if t, ok := r.text(n, what); ok {
			list = append(list, rawEntry{located: t})
		}
		return list
	}
	var e rawEntry
	before := len(r.mistakes)
	readFields(r, n, "an entry of a list", entryFields, &e)
	switch {
	case len(r.mistakes) > before:
	case e.text == "":
		r.wrong(n, "an entry of a list says nobody", "give it match: a key, a pattern, an address or a network")
	default:
		list = append(list, e)
	}
	return list
}

// time reads a time as µs since the Unix epoch. It returns 0 for an invalid
// time.
func (r *reader) time(n *yaml.Node, what string) int64 {
	t, ok := r.text(n, what)
	if !ok {
		return 0
	}
	at, err := time.Parse(time.RFC3339, t.text)
	if err != nil || at.Year() < 1971 || at.Year() > 2200 {
		r.mistake(t.at, fmt.Sprintf("%s: %.40q is no time", what, t.text), "write it as 2026-01-31T12:00:00Z")
		return 0
	}
	return at.UnixMicro()
}

// temporaryFields are the fields of a temporary override.
var temporaryFields = withNumbers(fields[rawOverride]{
	"match":  func(r *reader, n *yaml.Node, o *rawOverride) { o.key, _ = r.text(n, "match") },
	"until":  func(r *reader, n *yaml.Node, o *rawOverride) { o.until = r.time(n, "until") },
	"reason": func(r *reader, n *yaml.Node, _ *rawOverride) { _, _ = r.text(n, "reason") },
}, func(o *rawOverride) *numbers { return &o.numbers })

func readTemporary(r *reader, n *yaml.Node, d *rawRule) {
	var o rawOverride
	o.numbers.at = r.at(n)
	before := len(r.mistakes)
	readFields(r, n, "a temporary override", temporaryFields, &o)
	switch {
	case len(r.mistakes) > before:
	case o.key.text == "":
		r.wrong(n, "a temporary override says for nobody", "give it match: a key, a pattern, an address or a network")
	case o.until == 0:
		r.wrong(n, "a temporary override has no end", "give it until: 2026-01-31T12:00:00Z, or write it under override")
	default:
		d.temporary = append(d.temporary, o)
	}
}
