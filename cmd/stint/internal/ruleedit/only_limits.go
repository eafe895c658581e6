package ruleedit

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
)

// limitFields are the fields of a rule or a tier that say nothing but what its limits are.
var limitFields = []string{
	"algorithm", "anchor", "buckets", "burst", "capacity", "limit", "limits", "max_wait", "override", "params",
	"penalty", "period", "queue", "refill_rate", "store", "temporary", "utc_offset", "version", "window",
}

// OnlyLimits reports whether nothing of after differs but the limits of the given rules, and
// those of tiers and defaults. It says nothing of which rules tiers and defaults reach:
// [LimitChanges] does.
func (c *Contents) OnlyLimits(after *Contents, rules []string) bool {
	changes := c.Changes(after)
	if changes.Moved || changes.Lists || len(changes.Rules.Added)+len(changes.Rules.Removed)+len(changes.Tiers.Added)+len(changes.Tiers.Removed) > 0 {
		return false
	}
	for _, id := range changes.Rules.Changed {
		if !slices.Contains(rules, id) || !sameButLimits(c.rules.text[id], after.rules.text[id]) {
			return false
		}
	}
	for _, name := range changes.Tiers.Changed {
		if !sameButLimits(c.tiers.text[name], after.tiers.text[name]) {
			return false
		}
	}
	return true
}

func sameButLimits(a, b string) bool {
	var one, other map[string]any
	if json.Unmarshal([]byte(a), &one) != nil || json.Unmarshal([]byte(b), &other) != nil {
		return false
	}
	for _, fields := range []map[string]any{one, other} {
		maps.DeleteFunc(fields, func(name string, _ any) bool { return slices.Contains(limitFields, name) })
	}
	return reflect.DeepEqual(one, other)
}
