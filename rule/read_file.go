package rule

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

var fileFields = withLists(fields[rawFile]{
	"version":  func(r *reader, n *yaml.Node, f *rawFile) { f.version, _ = r.text(n, "version") },
	"defaults": readDefaults,
	"tiers":    readTiers,
	"rules": func(r *reader, n *yaml.Node, f *rawFile) {
		if n.Tag != "!!null" {
			r.items(n, "rules", func(item *yaml.Node) { readRule(r, item, f) })
		}
	},
	"ipv6_prefix": readIPv6Prefix,
	"identity":    readIdentity,
}, func(f *rawFile) *rawLists { return &f.lists })

// readFile reads every document of one file into f.
func (r *reader) readFile(file File, f *rawFile) {
	if len(file.Data) > maxFile {
		r.mistake(position{file: r.file}, fmt.Sprintf("is %d bytes long", len(file.Data)), fmt.Sprintf("split it; a file may have %d", maxFile))
		return
	}
	before := len(r.mistakes)
	documents := r.documents(file)
	if len(documents) == 0 && len(r.mistakes) == before {
		r.warn(position{file: r.file}, "is empty, so that it limits nothing", "write rules: [] if that is meant")
	}
	for _, top := range documents {
		r.readDocument(top, f)
	}
}

// readDocument reads the top level of a file, or a document that is a single
// rule.
func (r *reader) readDocument(top *yaml.Node, f *rawFile) {
	switch {
	case top.Tag == "!!null":
	case lookup(top, "id") != nil:
		readRule(r, top, f)
	default:
		readFields(r, top, "a rule file", fileFields, f)
	}
}

// lookup returns the value of a key in a mapping, or nil.
func lookup(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func readDefaults(r *reader, n *yaml.Node, f *rawFile) {
	if f.defaults != nil {
		r.wrong(n, "defaults are given twice", "keep one, in one of the files")
		return
	}
	f.defaults = &numbers{at: r.at(n)}
	readFields(r, n, "defaults", numbersFields, f.defaults)
}

func readTiers(r *reader, n *yaml.Node, f *rawFile) {
	r.pairs(n, "tiers", func(key, value *yaml.Node) {
		if len(f.tiers) < maxTiers {
			f.tiers = append(f.tiers, readTier(r, key, value, f.tiers))
		} else if !r.stop {
			r.stop = true
			r.wrong(key, fmt.Sprintf("more than %d tiers", maxTiers), "use overrides in place of tiers with few keys")
		}
	})
}

func readTier(r *reader, key, value *yaml.Node, others []rawTier) rawTier {
	t := rawTier{name: located{key.Value, r.at(key)}}
	t.numbers.at = t.name.at
	r.checkName(t.name, "tier")
	for i := range others {
		if others[i].name.text == key.Value {
			r.wrong(key, fmt.Sprintf("tier %s is declared twice", key.Value), "keep one, in one of the files")
		}
	}
	if isValue(value) {
		r.parameter("limit", value, &t.numbers.level)
	} else {
		readFields(r, value, "a tier", tierFields, &t)
	}
	return t
}

func readRule(r *reader, n *yaml.Node, f *rawFile) {
	if r.stop {
		return
	}
	if len(f.rules) >= maxRules {
		r.stop = true
		r.wrong(n, fmt.Sprintf("more than %d rules", maxRules), "replace similar rules by tiers or overrides")
		return
	}
	d := &rawRule{at: r.at(n)}
	d.numbers.at = d.at
	before := len(r.mistakes)
	denyAll := lookup(target(n), "deny_all")
	r.denying = denyAll != nil && target(denyAll).Value == "true"
	readFields(r, n, "a rule", ruleFields, d)
	r.denying = false
	d.flawed = len(r.mistakes) > before
	if target(n).Kind == yaml.MappingNode && !r.exhausted {
		f.rules = append(f.rules, d)
	}
}

func readIPv6Prefix(r *reader, n *yaml.Node, f *rawFile) {
	t, ok := r.text(n, "ipv6_prefix")
	if !ok {
		return
	}
	if f.ipv6Prefix.text != "" && f.ipv6Prefix.text != t.text {
		r.mistake(t.at, "ipv6_prefix is given twice", "keep one, in one of the files")
	}
	f.ipv6Prefix = t
}

func readIdentity(r *reader, n *yaml.Node, f *rawFile) {
	if f.identity != nil {
		r.wrong(n, "identity is given twice", "keep one, in one of the files")
		return
	}
	f.identity = r.texts(n, "identity")
}

// withLists adds the fields of the allow list and the deny list.
func withLists[T any](known fields[T], of func(*T) *rawLists) fields[T] {
	allow := func(r *reader, n *yaml.Node, into *T) {
		of(into).allow = append(of(into).allow, r.entries(n, "the allow list")...)
	}
	deny := func(r *reader, n *yaml.Node, into *T) {
		of(into).deny = append(of(into).deny, r.entries(n, "the deny list")...)
	}
	known["allow"], known["whitelist"], known["deny"], known["blacklist"] = allow, allow, deny, deny
	return known
}

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
		r.wrong(n, "an entry of a list has no match", "give it match: a key, a pattern, an address or a network")
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
		r.mistake(t.at, fmt.Sprintf("%s: %.40q is not a time", what, t.text), "write it as 2026-01-31T12:00:00Z")
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
		r.wrong(n, "a temporary override has no match", "give it match: a key, a pattern, an address or a network")
	case o.until == 0:
		r.wrong(n, "a temporary override has no end", "give it until: 2026-01-31T12:00:00Z, or write it under override")
	default:
		d.temporary = append(d.temporary, o)
	}
}
