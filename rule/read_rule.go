package rule

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var namePattern = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)

var numbersFields = withNumbers(fields[numbers]{}, func(n *numbers) *numbers { return n })

var tierFields = withNumbers(fields[rawTier]{
	"api_key_pattern": func(r *reader, n *yaml.Node, t *rawTier) { t.pattern, _ = r.text(n, "api_key_pattern") },
}, func(t *rawTier) *numbers { return &t.numbers })

var ruleFields = withLists(withNumbers(fields[rawRule]{
	"id":      func(r *reader, n *yaml.Node, d *rawRule) { d.id, _ = r.text(n, "id") },
	"version": func(r *reader, n *yaml.Node, d *rawRule) { d.version, _ = r.text(n, "version") },
	"tier":    func(r *reader, n *yaml.Node, d *rawRule) { d.tier, _ = r.text(n, "tier") },
	"match": func(r *reader, n *yaml.Node, d *rawRule) {
		readFields(r, n, "match", matchFields, &d.match)
	},
	"by":       func(r *reader, n *yaml.Node, d *rawRule) { d.by = r.texts(n, "by") },
	"override": readOverride,
	"temporary": func(r *reader, n *yaml.Node, d *rawRule) {
		r.items(n, "temporary", func(item *yaml.Node) { readTemporary(r, item, d) })
	},
	"missing": func(r *reader, n *yaml.Node, d *rawRule) {
		d.missing = missing(r.choice(n, "missing", "ip", "skip", "deny", "shared"))
	},
	"combine": func(r *reader, n *yaml.Node, d *rawRule) { d.any = r.choice(n, "combine", "all", "any") == 1 },
	"mode": func(r *reader, n *yaml.Node, d *rawRule) {
		d.mode = Mode(r.choice(n, "mode", modeNames...))
	},
	"consistency": func(r *reader, n *yaml.Node, d *rawRule) {
		d.consistency, d.consistencyAt = r.choice(n, "consistency", "strict", "leased", "partitioned"), r.at(n)
	},
	"on_store_failure": readFailure,
	"store":            func(r *reader, n *yaml.Node, d *rawRule) { d.store, _ = r.text(n, "store") },
	"replicas":         func(r *reader, n *yaml.Node, d *rawRule) { d.replicas, _ = r.text(n, "replicas") },
	"retry_jitter":     func(r *reader, n *yaml.Node, d *rawRule) { d.retryJitter, _ = r.text(n, "retry_jitter") },
	"penalty":          readPenalty,
	"headers":          func(r *reader, n *yaml.Node, d *rawRule) { d.dialect = r.choice(n, "headers", dialects()...) },
	"cost":             func(r *reader, n *yaml.Node, d *rawRule) { d.cost, _ = r.text(n, "cost") },
	"deny_all":         func(r *reader, n *yaml.Node, d *rawRule) { d.denyAll = r.choice(n, "deny_all", "false", "true") == 1 },
}, func(d *rawRule) *numbers { return &d.numbers }), func(d *rawRule) *rawLists { return &d.lists })

var matchFields = fields[rawMatch]{
	"api_key_pattern": func(r *reader, n *yaml.Node, m *rawMatch) { m.apiKey, _ = r.text(n, "api_key_pattern") },
	"endpoint_regex":  func(r *reader, n *yaml.Node, m *rawMatch) { m.regex, _ = r.text(n, "endpoint_regex") },
	"path":            func(r *reader, n *yaml.Node, m *rawMatch) { m.path, _ = r.text(n, "path") },
	"path_prefix":     func(r *reader, n *yaml.Node, m *rawMatch) { m.prefix, _ = r.text(n, "path_prefix") },
	"host":            func(r *reader, n *yaml.Node, m *rawMatch) { m.host, _ = r.text(n, "host") },
	"methods":         func(r *reader, n *yaml.Node, m *rawMatch) { m.methods = r.texts(n, "methods") },
	"cidr":            func(r *reader, n *yaml.Node, m *rawMatch) { m.cidrs = r.texts(n, "cidr") },
	"headers": func(r *reader, n *yaml.Node, m *rawMatch) {
		r.pairs(n, "headers", func(key, value *yaml.Node) {
			if t, ok := r.text(value, "a header"); ok {
				m.headers = append(m.headers, rawPair{located{strings.ToLower(key.Value), r.at(key)}, t})
			}
		})
	},
}

var limitFields = withParameters(fields[rawLimit]{
	"name":   func(r *reader, n *yaml.Node, l *rawLimit) { l.name, _ = r.text(n, "name") },
	"params": func(r *reader, n *yaml.Node, l *rawLimit) { readLevel(r, n, &l.level) },
}, func(l *rawLimit) **level { return &l.level })

var localFields = withParameters(fields[rawLocal]{
	"by": func(r *reader, n *yaml.Node, l *rawLocal) { l.by = r.texts(n, "by") },
}, func(l *rawLocal) **level { return &l.level })

// withNumbers adds the fields that define limits: the parameters of one limit,
// directly or in params, or a list of limits.
func withNumbers[T any](known fields[T], of func(*T) *numbers) fields[T] {
	known["params"] = func(r *reader, n *yaml.Node, into *T) { readLevel(r, n, &of(into).level) }
	known["limits"] = func(r *reader, n *yaml.Node, into *T) { readLimits(r, n, of(into)) }
	return withParameters(known, func(into *T) **level { return &of(into).level })
}

func readLimits(r *reader, n *yaml.Node, into *numbers) {
	r.items(n, "limits", func(item *yaml.Node) {
		l := rawLimit{at: r.at(item)}
		if isValue(item) {
			r.parameter("limit", item, &l.level)
		} else {
			readFields(r, item, "a limit", limitFields, &l)
		}
		into.limits = append(into.limits, l)
	})
	if n = target(n); n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.wrong(n, "limits is an empty list", "name a limit, or remove it")
	}
	if given := len(into.limits); given > maxOfRule && !r.exhausted {
		into.limits = nil
		r.wrong(n, fmt.Sprintf("limits is a list of %d", given), fmt.Sprintf("name at most %d: each is counted for every request", maxOfRule))
	}
}

func readOverride(r *reader, n *yaml.Node, d *rawRule) {
	r.pairs(n, "override", func(key, value *yaml.Node) {
		o := rawOverride{key: located{key.Value, r.at(key)}}
		o.numbers.at = o.key.at
		if isValue(value) {
			r.parameter("limit", value, &o.numbers.level)
		} else {
			readFields(r, value, "an override", numbersFields, &o.numbers)
		}
		d.override = append(d.override, o)
	})
}

func readFailure(r *reader, n *yaml.Node, d *rawRule) {
	if isValue(n) {
		d.onFailure = r.choice(n, "on_store_failure", failurePolicies...)
		return
	}
	readFields(r, n, "on_store_failure", failureFields, d)
}

var failureFields = fields[rawRule]{
	"local": func(r *reader, n *yaml.Node, d *rawRule) {
		d.onFailure, d.local = localPolicy, &rawLocal{at: r.at(n)}
		readFields(r, n, "local", localFields, d.local)
	},
}

// checkName rejects text that is not a valid name of a rule or a tier. The URLs of the admin API
// have names in their path, and clients remove the segments . and .. from a path.
func (f *findings) checkName(t located, what string) {
	switch {
	case !namePattern.MatchString(t.text):
		f.mistake(t.at, fmt.Sprintf("%s %.80q is not a name", what, t.text), "use 1 to 64 letters, digits and _ . : -")
	case t.text == "." || t.text == "..":
		f.mistake(t.at, fmt.Sprintf("%s %q cannot be in a URL", what, t.text), "use a letter or a digit too")
	}
}
