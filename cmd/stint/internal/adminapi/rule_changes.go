package adminapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
)

// A source stores whole versions, and an operator asks when and by whom one rule was changed. So the
// answer needs the difference of each version and the one before it. Versions are immutable: a
// difference is computed once and kept. With 10,000 rules one takes about half a second, so a
// request computes differences for a bounded time, the newest first, and later requests go on from
// there. Until then the changes of older versions are unknown.

const (
	// mostCompared is the number of versions that are compared. Sources keep as many whole.
	mostCompared = 100
	// compareTime is the time after which a request begins no other comparison.
	compareTime = 300 * time.Millisecond
	// compareAgain is the pause after a failure of the source, so that requests do not wait for it one
	// after the other.
	compareAgain = 10 * time.Second
	// mostChanged bounds the ids in memory: beyond it no older version is compared or remembered.
	mostChanged = 200_000
)

// The ways in which a version changes a rule.
const (
	changeAdded   = "added"
	changeChanged = "changed"
	changeRemoved = "removed"
)

// ruleChange is a version that has changed a rule.
type ruleChange struct {
	versionBody

	Change   string `json:"change"`
	Previous uint64 `json:"previous"` // the version before it
}

// comparedVersion is a version with the rules that it changes.
type comparedVersion struct {
	versionBody

	previous uint64
	rules    map[string]string // the way of the change, by the id of the rule
}

// ruleChanges remembers the comparisons of versions.
type ruleChanges struct {
	mu    sync.Mutex
	of    string                      // guarded by mu; the hash of the version in force when list was made
	list  []ruleset.Version           // guarded by mu; the newest first
	known map[uint64]*comparedVersion // guarded by mu; by number
	pause time.Time                   // guarded by mu; until then the source is not asked
}

// compared returns the versions up to the one in force, the newest first, as far back as they are
// compared. all reports that the first version is among them.
func (a *API) compared(ctx context.Context) (versions []*comparedVersion, all bool) {
	if a.reading.take(ctx) != nil {
		return nil, false
	}
	defer a.reading.end()
	c := &a.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	began, ids := a.now(), 0
	// The comparisons are for later requests too. The client of this one may leave, and that is no
	// failure of the source.
	ctx = context.WithoutCancel(ctx)
	if err := c.listLocked(ctx, a.Rules, began); err != nil {
		c.pause = began.Add(compareAgain)
	}
	var newer *contents // of the version to compare, if it is read already
	for i, v := range c.list {
		one := c.known[v.Number]
		switch {
		case ids > mostChanged:
			c.forgetLocked(c.list[i:])
			return versions, false
		case one != nil && one.Hash == v.Hash:
			newer = nil
		case a.now().Sub(began) > compareTime, began.Before(c.pause):
			return versions, false
		default:
			var err error
			if one, newer, err = compareVersion(ctx, a.Rules, c.list, i, newer); err != nil {
				if !errors.Is(err, ruleset.ErrNone) {
					c.pause = began.Add(compareAgain)
				}
				return versions, false
			}
			c.known[v.Number] = one
		}
		ids += len(one.rules)
		versions = append(versions, one)
	}
	last := len(c.list) - 1
	return versions, last >= 0 && c.list[last].Number == 1
}

// listLocked lists the versions again if another one is in force.
func (c *ruleChanges) listLocked(ctx context.Context, rules Rules, at time.Time) error {
	_, now := rules.Current()
	if now.Number == 0 || c.of == now.Hash && len(c.list) > 0 && c.list[0].Number == now.Number || at.Before(c.pause) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodesTime)
	defer cancel()
	listed, err := rules.History(ctx, mostCompared)
	if err != nil {
		return err
	}
	for len(listed) > 0 && listed[0].Number > now.Number { // this node does not run it yet
		listed = listed[1:]
	}
	known := map[uint64]*comparedVersion{}
	for _, v := range listed {
		if one := c.known[v.Number]; one != nil {
			known[v.Number] = one
		}
	}
	c.of, c.list, c.known = now.Hash, listed, known
	return nil
}

// forgetLocked drops the comparisons of versions. Newer versions have taken their room.
func (c *ruleChanges) forgetLocked(versions []ruleset.Version) {
	for _, v := range versions {
		delete(c.known, v.Number)
	}
}

// compareVersion compares version i of a list with the next one, which is older. newer are the
// contents of version i, or nil. Beside the result it returns the contents of the older version.
// The error is [ruleset.ErrNone] if one of them is no longer kept.
func compareVersion(ctx context.Context, rules Rules, list []ruleset.Version, i int, newer *contents) (one *comparedVersion, older *contents, err error) {
	v := list[i]
	one = &comparedVersion{versionBody: versionOf(v), rules: map[string]string{}}
	switch {
	case i+1 < len(list):
		one.previous = list[i+1].Number
	case v.Number != 1: // an older version is not listed
		return nil, nil, ruleset.ErrNone
	}
	if newer == nil {
		newer, err = contentsOfVersion(ctx, rules, v.Number)
	}
	if err == nil {
		older, err = contentsOfVersion(ctx, rules, one.previous)
	}
	if err != nil {
		return nil, nil, err
	}
	names := older.parts.Changes(newer.parts).Rules
	for change, ids := range map[string][]string{changeAdded: names.Added, changeChanged: names.Changed, changeRemoved: names.Removed} {
		for _, id := range ids {
			one.rules[id] = change
		}
	}
	return one, older, nil
}

// contentsOfVersion returns the rules of a version that most callers have.
func contentsOfVersion(ctx context.Context, rules Rules, number uint64) (*contents, error) {
	ctx, cancel := context.WithTimeout(ctx, nodesTime)
	defer cancel()
	v, err := rules.Get(ctx, number)
	if err != nil {
		return nil, err
	}
	c := contentsOf(v.Files)
	return c, c.err
}

// lastChange is when the text of a rule in force has changed last.
type lastChange struct {
	Version uint64     `json:"version"`
	Time    *time.Time `json:"time,omitempty"`
	Author  string     `json:"author,omitempty"`
}

// lastChangeOf returns the newest change of a rule; nil: it is older than the versions.
func lastChangeOf(id string, versions []*comparedVersion) *lastChange {
	for _, v := range versions {
		if v.rules[id] != "" {
			return &lastChange{v.Version, v.Time, v.Author}
		}
	}
	return nil
}

// ruleHistoryBody is the history of one rule.
type ruleHistoryBody struct {
	Current  uint64       `json:"current"`
	Versions []ruleChange `json:"versions"`
	// Back is the oldest version whose changes are known; 0: all are.
	Back uint64 `json:"looked_back_to"`
}

// ruleHistory answers GET /rules/history?rule=orders with the versions that changed the rule.
func (a *API) ruleHistory(r *request, id string, n int) (any, error) {
	_, now := a.Rules.Current()
	versions, all := a.compared(r.Context())
	body := ruleHistoryBody{Current: now.Number, Versions: []ruleChange{}}
	if !all {
		body.Back = now.Number + 1
	}
	for _, v := range versions {
		if !all {
			body.Back = v.Version
		}
		if change := v.rules[id]; change != "" && len(body.Versions) < n {
			body.Versions = append(body.Versions, ruleChange{v.versionBody, change, v.previous})
		}
	}
	return body, nil
}
