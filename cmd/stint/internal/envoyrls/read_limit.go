package envoyrls

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stintdev/stint"
)

// rawLimit is a rate_limit as written in the file.
type rawLimit struct {
	numbers

	at                             *yaml.Node
	name, unit, window, algorithm  string
	unlimited                      bool
	burst                          uint32
	unitAt, requestsAt, windowAt   *yaml.Node
	algorithmAt, burstAt, replaces *yaml.Node
	consistencyAt, failureAt       *yaml.Node
}

// maxLimits bounds the limits of one descriptor.
const maxLimits = 16

// limitNodes collects the nodes of a descriptor's limits: one mapping, or a list.
func (r *reader) limitNodes(to *[]*yaml.Node) field {
	return func(n *yaml.Node) {
		if *to = []*yaml.Node{n}; n.Kind == yaml.SequenceNode {
			*to = n.Content
		}
	}
}

// limits parses the limits of a descriptor, and records mistakes.
func (r *reader) limits(d *rawDescriptor, path string) (made []*limit) {
	if len(d.limits) > maxLimits {
		r.mistake(d.at, fmt.Sprintf("there are %d limits", len(d.limits)), fmt.Sprintf("a descriptor may have %d", maxLimits))
		return nil
	}
	r.nodes += max(0, len(d.limits)-1)
	kinds := map[string]bool{}
	for _, n := range d.limits {
		l := r.limit(d, target(n), path)
		switch {
		case len(d.limits) == 1:
		case l.unlimited:
			r.mistake(n, "unlimited means nothing beside other limits", "remove the one or the others")
		case l.kind != "" && kinds[l.kind]:
			r.mistake(n, "two limits of one descriptor count the same window", "keep the smaller one, or give one another window or algorithm")
		default:
			kinds[l.kind] = true
			l.path += ":" + l.label()
		}
		made = append(made, l)
	}
	return made
}

// label returns the name that distinguishes the limits of one descriptor.
func (l *limit) label() string {
	if l.name != "" || !l.counted.Valid() {
		return l.name
	}
	return l.counted.Name()
}

// limit parses one limit of a descriptor. If it has a mistake, which is recorded, the
// returned limit cannot count.
func (r *reader) limit(d *rawDescriptor, at *yaml.Node, path string) *limit {
	l := &rawLimit{at: at, numbers: numbers{policy: r.policy}}
	before := len(r.mistakes)
	r.mapping(at, "a rate_limit", r.limitFields(l))
	made := &limit{path: path, name: l.name, unlimited: l.unlimited, shadow: d.shadow, quota: d.quota}
	made.metadata = r.describe(d.metadata)
	made.replaces = r.replaces(l)
	r.period(l)
	if l.unlimited {
		r.warnUnlimited(l)
	} else {
		r.algorithm(l)
	}
	if l.failureAt != nil {
		l.policy.asksEnvoy = false
	}
	if len(r.mistakes) == before && !l.unlimited {
		r.compile(made, l)
	}
	r.file.limits = append(r.file.limits, made)
	return made
}

func (r *reader) limitFields(l *rawLimit) map[string]field {
	at := func(where **yaml.Node, read field) field {
		return func(n *yaml.Node) { *where = n; read(n) }
	}
	return map[string]field{
		"unit":              at(&l.unitAt, r.text("unit", &l.unit)),
		"requests_per_unit": at(&l.requestsAt, r.number("requests_per_unit", &l.requests)),
		"unlimited":         r.flag("unlimited", &l.unlimited),
		"name":              r.text("name", &l.name),
		"replaces":          func(n *yaml.Node) { l.replaces = n },
		"algorithm":         at(&l.algorithmAt, r.text("algorithm", &l.algorithm)),
		"burst":             at(&l.burstAt, r.number("burst", &l.burst)),
		"window":            at(&l.windowAt, r.text("window", &l.window)),
		"consistency":       at(&l.consistencyAt, choice(r, "consistency", []stint.Consistency{stint.Strict, stint.Leased, stint.Partitioned}, &l.policy.Consistency)),
		"on_store_failure":  at(&l.failureAt, choice(r, "on_store_failure", []stint.OnFailure{stint.FailOpen, stint.FailClosed, stint.FailLocal, stint.FailLastKnown}, &l.policy.OnFailure)),
	}
}

// replaces parses the names of the limits that this one replaces.
func (r *reader) replaces(l *rawLimit) (names []string) {
	if l.replaces == nil {
		return nil
	}
	if l.replaces.Kind != yaml.SequenceNode {
		r.mistake(l.replaces, "replaces must be a list", "write it as - name: …")
		return nil
	}
	if r.replaced += len(l.replaces.Content); r.replaced > maxNodes {
		r.mistake(l.replaces, fmt.Sprintf("the lists of replaces have more than %d entries", maxNodes), "split the file")
		return nil
	}
	for _, one := range l.replaces.Content {
		var name string
		r.mapping(one, "an entry of replaces", map[string]field{"name": r.text("name", &name)})
		switch name {
		case "":
			r.mistake(one, "should not have an empty replaces entry", "name the limit that this one replaces")
		case l.name:
			r.mistake(one, "replaces should not contain name of same descriptor", "name another limit")
		}
		names = append(names, name)
	}
	return names
}

// period parses the time that the limit counts over: a unit, or a window.
func (r *reader) period(l *rawLimit) {
	u, valid := parseUnit(l.unit)
	switch {
	case l.unlimited && (valid || l.windowAt != nil):
		r.mistake(l.at, "should not specify rate limit unit when unlimited", "remove the one or the other")
	case l.unlimited:
	case l.windowAt != nil && l.unitAt != nil:
		r.mistake(l.windowAt, "unit and window both say how long to count", "keep one")
	case l.windowAt != nil:
		r.window(l)
	case !valid:
		r.mistake(cmp.Or(l.unitAt, l.at), fmt.Sprintf("invalid rate limit unit '%s'", l.unit), "use second, minute, hour, day, week, month or year")
	default:
		l.numbers.window = lengthOf(u)
	}
}

func (r *reader) window(l *rawLimit) {
	window, err := time.ParseDuration(l.window)
	if err != nil || window < time.Second || window%time.Second != 0 || window > stint.MaxWindow {
		r.mistake(l.windowAt, fmt.Sprintf("%q is not a window", l.window), "write whole seconds, such as 30s, 5m or 1h30m, up to 9600h")
		return
	}
	l.numbers.window = window
}

// algorithm parses how the limit counts. The default is a fixed window, as in Envoy's
// service.
func (r *reader) algorithm(l *rawLimit) {
	l.numbers.algorithm, l.numbers.burst = stint.FixedWindow, int64(l.burst)
	if l.algorithm != "" {
		a, err := stint.ParseAlgorithm(l.algorithm)
		if err != nil {
			r.mistake(l.algorithmAt, err.Error(), "")
		}
		l.numbers.algorithm = a
	}
	switch l.numbers.algorithm {
	case stint.Quota:
		r.mistake(l.algorithmAt, "a quota needs a period, which these files do not have", "use fixed_window, or a rule file")
	case stint.LeakyBucket:
		r.mistake(l.algorithmAt, "a leaky_bucket delays requests, which Envoy does not", "use token_bucket or gcra")
	case stint.TokenBucket, stint.GCRA:
	default:
		if l.burstAt != nil {
			r.mistake(l.burstAt, "burst means nothing to "+l.numbers.algorithm.String(), "remove it, or use algorithm: token_bucket")
		}
	}
}

// warnUnlimited warns about keys that say how a limit counts.
func (r *reader) warnUnlimited(l *rawLimit) {
	for _, at := range []struct {
		key  string
		node *yaml.Node
	}{{"algorithm", l.algorithmAt}, {"burst", l.burstAt}, {"consistency", l.consistencyAt}, {"on_store_failure", l.failureAt}} {
		if at.node != nil {
			r.warn(at.node, at.key+" means nothing beside unlimited", "remove the one or the other")
		}
	}
}

func (r *reader) compile(made *limit, l *rawLimit) {
	if err := made.count(l.numbers); err != nil {
		r.refused(l, err)
		return
	}
	switch {
	case l.requestsAt == nil:
		r.warn(l.at, "requests_per_unit is missing, which denies every request", "say so with requests_per_unit: 0, or give a number")
	case int64(l.requests) > stint.MaxLimit:
		r.warn(l.requestsAt, fmt.Sprintf("requests_per_unit counts as %d, the greatest limit", stint.MaxLimit), "use unlimited: true if that is meant")
	}
}

// refused records an error of the limit at the field that caused it.
func (r *reader) refused(l *rawLimit, err error) {
	at := l.at
	if wrong, ok := errors.AsType[*stint.LimitError](err); ok {
		for field, node := range map[string]*yaml.Node{"capacity": l.burstAt, "window": l.windowAt, "limit": l.requestsAt} {
			if field == wrong.Field && node != nil {
				at = node
			}
		}
	}
	r.mistake(at, err.Error(), "")
}
