package server

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"sync/atomic"

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
	by      string
	seed    string
	below   uint64 // a caller whose hash is less belongs to the canary
}

// of returns the version that decides a request: control, or that of the canary.
func (c *canary) of(control *version, a rule.Attributes) *version {
	if c.has(control.set.Caller(a, c.by)) {
		return c.version
	}
	return control
}

// has reports whether a caller belongs to the canary. The hash is cryptographic and the seed
// secret from callers, so nobody can compute which keys belong to it. A client that can make up
// keys can still try some until it meets the side that it prefers.
func (c *canary) has(caller string) bool {
	var room [128]byte
	sum := sha256.Sum256(append(append(room[:0], c.seed...), caller...))
	return binary.BigEndian.Uint64(sum[:8]) < c.below
}

// Of implements [decide.Rules].
func (v *surfaceRules) Of(a rule.Attributes) decide.Rules {
	if v.canary == nil {
		return v
	}
	return &v.canary.of(v.version, a).surfaces[v.surface]
}

// CountError implements [decide.Rules].
func (v *surfaceRules) CountError() {
	if v.counts != nil {
		v.counts.requests.Add(1)
		v.counts.errors.Add(1)
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
	own, err := r.newVersion(set)
	if err != nil {
		return err
	}
	own.warned = v.warned
	for name := range own.headers {
		v.headers[name] = true
	}
	counts := r.canaries.of(from.Number)
	v.counts, own.counts = &counts.control, &counts.canary
	c := from.Canary
	v.canary = &canary{version: own, by: c.By, seed: c.Seed, below: uint64(c.Share * math.MaxUint64)}
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
	return float64(v.canary.below) / math.MaxUint64
}

// canaryCounts are the counts of the newest canary. They outlive the versions that are made of
// one canary when an emergency begins or ends, and when the rules are read again.
type canaryCounts struct{ newest atomic.Pointer[twoCounts] }

type twoCounts struct {
	number          uint64
	control, canary sideCounts
}

// sideCounts are the counts of the requests of one side.
type sideCounts struct{ requests, denied, errors atomic.Uint64 }

// of returns the counts of a canary, which are new if it is another one than before. Calls must
// not be concurrent.
func (c *canaryCounts) of(number uint64) *twoCounts {
	if now := c.newest.Load(); now != nil && now.number == number {
		return now
	}
	now := &twoCounts{number: number}
	c.newest.Store(now)
	return now
}

// announced returns the counts for the other nodes, or nil without a canary.
func (r *rules) announced() *ruleset.CanaryCounts {
	now := r.canaries.newest.Load()
	if _, v := r.manager.Current(); now == nil || v.Canary == nil || v.Number != now.number {
		return nil
	}
	return &ruleset.CanaryCounts{Version: now.number, Control: now.control.read(), Canary: now.canary.read()}
}

// read returns the counts. It reads those that are parts of the requests first, so that no part
// is greater than the whole.
func (c *sideCounts) read() (counts ruleset.Counts) {
	counts.Denied, counts.Errors = c.denied.Load(), c.errors.Load()
	counts.Requests = c.requests.Load()
	return counts
}

// add counts an outcome. A peek is no request. A decision without the store is an error,
// whatever it says.
func (c *sideCounts) add(cost int64, o *rule.Outcome) {
	if cost == 0 {
		return
	}
	c.requests.Add(1)
	switch {
	case o.Decision.Degraded:
		c.errors.Add(1)
	case !o.Allowed():
		c.denied.Add(1)
	}
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
