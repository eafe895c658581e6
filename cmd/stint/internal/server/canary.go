package server

import (
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// A canary is a second version of the rules beside the one in force. The caller of a request
// decides which of the two decides it, so one version decides a request from beginning to end,
// and all requests of a caller have the same version on every node. Requests pay one comparison
// with nil while there is none.

// canary is the version for a share of the callers.
type canary struct {
	version *version
	split   *ruleset.Canary
}

// of returns the version that decides a request: control, or that of the canary.
func (c *canary) of(control *version, a rule.Attributes) *version {
	if c.split.Has(control.set.Caller(a, c.split.By)) {
		return c.version
	}
	return control
}

// Of implements [decide.Rules].
func (v *surfaceRules) Of(a rule.Attributes) decide.Rules {
	if v.canary == nil {
		return v
	}
	return &v.canary.of(v.version, a).surfaces[v.surface]
}

// CountError implements [decide.Rules].
func (v *surfaceRules) CountError(a rule.Attributes) {
	if v.counts != nil {
		v.counts.addError(v.set.Caller(a, v.counts.by))
	}
}

// newBase returns the rules of a version, with its canary if it has one. The caller holds
// changing.
func (r *rules) newBase(set *rule.Set, from ruleset.Version) (*version, error) {
	v, err := r.newVersion(set)
	if err != nil || from.Canary == nil {
		return v, err
	}
	trial, _, err := from.Trial()
	if err != nil {
		return nil, err
	}
	return v, r.addCanary(v, trial, &from)
}

// joinCanary adds the canary of the rules in force to v, which is these rules with an emergency.
// The emergency matters more: if the new rules cannot have it, all callers get the old ones.
func (r *rules) joinCanary(v *version) {
	if r.from.Canary == nil {
		return
	}
	set, err := v.emergency.Parse(r.from.Canary.Files)
	if err == nil {
		set, _, err = v.set.Canary(set, r.from.Canary.By)
	}
	if err == nil {
		err = r.addCanary(v, set, &r.from)
	}
	if err != nil {
		r.log.Error("canary: its rules cannot have the emergency, so its callers get the old rules until the emergency ends", "canary", r.from.Number, "error", err)
		return
	}
	v.canary.version.emergency = v.emergency
}

// addCanary gives v the canary of a version, whose rules are in set.
func (r *rules) addCanary(v *version, set *rule.Set, from *ruleset.Version) error {
	own, err := r.newVersion(set, v.set)
	if err != nil {
		return err
	}
	own.warned = v.warned
	if own.recorder != nil {
		own.recorder.OfCanary(from.Number)
	}
	for name := range own.headers {
		v.headers[name] = true
	}
	counts := r.canaries.of(from)
	v.counts, own.counts = &counts.control, &counts.canary
	v.canary = &canary{version: own, split: from.Canary}
	return nil
}

// sets returns the rule set of a version, and that of its canary.
func (v *version) sets() []*rule.Set {
	if v.canary == nil {
		return []*rule.Set{v.set}
	}
	return []*rule.Set{v.set, v.canary.version.set}
}

// canaryShare returns the share of the callers that belong to a canary, 0 without one.
func (v *version) canaryShare() float64 {
	if v.canary == nil {
		return 0
	}
	return v.canary.split.Share
}

// logCanary logs the beginning or the end of a canary on this node.
func (r *rules) logCanary(before, now ruleset.Version) {
	switch {
	case now.Canary != nil && now.Number != before.Number:
		c := now.Canary
		_, kept, _ := now.Trial() // the version is in force, so it is valid
		r.log.Warn("canary on", "canary", now.Number, "share", c.Share, "by", c.By, "control", c.Control, "soak", c.Soak,
			"abort_above", c.AbortAbove, "author", now.Author, "rules_kept", kept)
	case before.Canary != nil && now.Canary == nil:
		r.log.Warn("canary ended", "canary", before.Number, "version", now.Number, "promoted", now.Hash == before.Canary.Hash,
			"author", now.Author, "reason", now.Comment)
	}
}
