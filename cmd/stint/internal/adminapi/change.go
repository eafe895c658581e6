package adminapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// edit is one requested change of the rules.
type edit struct {
	what string // for the audit log, such as "put rule orders"
	why  string // the reason, if the request has no comment
	// whole means that the change replaces the whole set. It is refused if it would
	// deny too much, because a person does not see that in a large set.
	whole bool
	// part means that the change is one of a rule or a tier. A canary tries such changes, and
	// those of the whole set.
	part bool
	// others are the samples of other nodes, to find the impact on the requests of all.
	others []*impact.Part
	tag    tagger
	// make returns the files with the change made.
	make func(files []rule.File) ([]rule.File, *rule.Set, error)
}

// outcome is the answer to a change.
type outcome struct {
	Version  uint64    `json:"version"`
	Hash     string    `json:"hash"`
	Changed  bool      `json:"changed"` // false: the rules were the same already, and no version was published
	DryRun   bool      `json:"dry_run,omitempty"`
	Warnings []problem `json:"warnings,omitempty"`
	Diff     *diff     `json:"diff,omitempty"`
	// Impact is the effect of the rules on the requests of the last minutes.
	Impact *impact.Result `json:"impact,omitempty"`
	// Penalties is the number of penalties that were ended.
	Penalties int `json:"penalties,omitempty"`
	// Canary is how the change is tried; nil: it is for all callers.
	Canary *canaryPlan `json:"canary,omitempty"`
}

// attempts bounds how often an unconditional change is repeated after somebody
// else has published a version. The pause before a repetition is random up to
// maxPause, so that concurrent changes do not stay in step.
const (
	attempts = 50
	maxPause = 20 * time.Millisecond
)

// change makes an edit of the newest rules and publishes the result. After a
// conflict it repeats the edit on the new version. With If-Match it does so only
// while the edited part is the one that the caller has seen.
func (a *API) change(r *request, e edit) (any, error) {
	o, err := r.options()
	o.comment = cmp.Or(o.comment, e.why)
	o.force = o.force || e.whole && slices.Contains([]string{impactReport, impactOff}, o.impact)
	if err == nil && o.canary != nil {
		e.what, err = fmt.Sprintf("%s as a canary for %.4g %% of the callers", e.what, 100*o.canary.Share), a.checkCanary(&e)
	}
	if err != nil {
		a.audited(r, e.what, &o, nil, err)
		return nil, err
	}
	if err := a.changing.take(r.Context()); err != nil {
		return nil, err
	}
	defer a.changing.end()
	for range attempts {
		answer, err := a.attempt(r, &e, &o)
		if _, conflict := errors.AsType[*ruleset.ConflictError](err); !conflict {
			a.audited(r, e.what, &o, answer, err)
			if err != nil {
				return nil, err // not the typed nil pointer
			}
			return answer, nil
		}
		select {
		case <-r.Context().Done():
		case <-time.After(rand.N(maxPause)):
		}
	}
	err = &apiError{Status: http.StatusConflict, Code: "CONFLICT", Message: "the change was not made: another version was published before it at every attempt (try again)"}
	a.audited(r, e.what, &o, nil, err)
	return nil, err
}

// attempt makes the edit on the version that is newest now.
func (a *API) attempt(r *request, e *edit, o *options) (*outcome, error) {
	base, newest, err := a.Rules.Base(r.Context())
	if _, behind := errors.AsType[*ruleset.BehindError](err); err != nil && (!behind || !e.whole) {
		return nil, err
	}
	was := contentsOf(base.Files)
	if err := a.precondition(r, e, o, base, was); err != nil {
		return nil, err
	}
	files, set, err := e.make(base.Files)
	if err != nil {
		return nil, err
	}
	warnings, err := a.warnings(set)
	if err != nil {
		return nil, err
	}
	is := contentsOf(files)
	all, plan := set, (*canaryPlan)(nil)
	if o.canary != nil {
		if set, plan, err = planCanary(base, files, all, o.canary); err != nil {
			return nil, err
		}
	}
	d := a.compareRead(base, ruleset.Version{Number: base.Number, Files: files}, was, is, set)
	changed := d.Changed || base.Number == 0 || base.Number != newest.Number || base.Hash != newest.Hash
	out := &outcome{Version: base.Number, Hash: base.Hash, Changed: changed, DryRun: o.dryRun, Warnings: warnings, Diff: d, Canary: plan}
	if plan != nil {
		if err := plan.triesSomething(d, was, is); err != nil {
			return nil, err
		}
	}
	if !changed {
		return out, sendTag(r, e, was)
	}
	if out.Impact, err = a.impact(r, e, o, all); err != nil {
		return nil, err
	}
	if o.dryRun {
		out.Hash = ruleset.HashOf(files)
		return out, nil
	}
	published, err := a.Rules.Publish(r.Context(), ruleset.Change{Files: files, Set: all, Author: r.who.name, Comment: o.comment, After: newest.Number, Canary: o.canary})
	if err != nil {
		return nil, &changeError{err: err}
	}
	out.Version, out.Hash, d.To = published.Number, published.Hash, published.Number
	return out, sendTag(r, e, is)
}

// warnings returns the warnings of a set, and those of this server about it. The error says
// why this server cannot apply the set.
func (a *API) warnings(set *rule.Set) ([]problem, error) {
	list := set.Warnings()
	if a.Trial != nil {
		more, err := a.Trial(set)
		if err != nil {
			return nil, err
		}
		list = slices.Concat(list, more)
	}
	return problemsOf(list), nil
}

// impact replays the requests of the last minutes under a set, and refuses a set
// that denies too many of them.
func (a *API) impact(r *request, e *edit, o *options, set *rule.Set) (*impact.Result, error) {
	if o.impact == impactOff {
		return nil, nil //nolint:nilnil // the replay is switched off
	}
	result, err := a.replay(r, set, e.others)
	refuse := (o.impact == impactRefuse || o.impact == "" && e.whole) && !o.force && !o.dryRun
	if err != nil || !refuse || !result.Refused(a.MostDenied) {
		return result, err
	}
	return nil, &apiError{Status: http.StatusConflict, Code: "IMPACT", Impact: result, Message: fmt.Sprintf(
		"the change was not made: these rules would have denied %.1f %% of the requests that were allowed in the last minutes, and the limit is %.1f %% (check the field impact, or send ?force=true)",
		100*result.Share, 100*a.MostDenied)}
}

// replay replays the requests of the last minutes under a set.
func (a *API) replay(r *request, set *rule.Set, others []*impact.Part) (*impact.Result, error) {
	inForce, _ := a.Rules.Current()
	result, err := a.Sample.Replay(r.Context(), inForce, set, others...)
	if result != nil {
		result.Limit = a.MostDenied
		result.AboveLimit = result.Refused(a.MostDenied)
		result.Announced = a.announced(r)
	}
	return result, err
}

// announced returns the number of nodes that announce themselves, or 0 if the source of the rules
// does not say.
func (a *API) announced(r *request) int {
	ctx, cancel := context.WithTimeout(r.Context(), nodesTime)
	defer cancel()
	nodes, err := a.Rules.Nodes(ctx)
	if err != nil {
		return 0
	}
	return len(nodes)
}

// sendTag sets the entity tag of the edited part in the answer.
func sendTag(r *request, e *edit, is *contents) error {
	tag, err := e.tag(is)
	if tag != "" {
		r.w.Header().Set("ETag", tag)
	}
	return err
}

// precondition fails if the edited part is not the one that the caller has seen.
// The error shows what has changed since.
func (a *API) precondition(r *request, e *edit, o *options, base ruleset.Version, was *contents) error {
	if o.match == nil && o.none == nil {
		return nil
	}
	tag, err := e.tag(was)
	switch {
	case err != nil:
		return err
	case among(o.none, tag):
		r.w.Header().Set("ETag", tag)
		return &apiError{Status: http.StatusPreconditionFailed, Code: "PRECONDITION_FAILED", Version: base.Number,
			Message: "the change was not made: If-None-Match is given and the object exists already (read it, and send its ETag in If-Match)"}
	case o.matches(tag):
		return nil
	}
	failed := &apiError{Status: http.StatusPreconditionFailed, Code: "PRECONDITION_FAILED", Version: base.Number,
		Message: "the change was not made: the object has changed since the version in If-Match (check the field diff, read the object again and change its new version)"}
	if tag == "" {
		failed.Message = "the change was not made: If-Match is given and the rules have no such object (send the request without If-Match to create it)"
	} else {
		r.w.Header().Set("ETag", tag)
	}
	if seen, ok := a.seen(r.Context(), e, o); ok {
		failed.Diff = a.compare(seen, base)
	}
	return failed
}

// Bounds on the search for the version that a caller saw.
const (
	lookBack     = 50
	lookBackTime = 2 * time.Second
)

// seen finds the version that the caller has read, by its tags.
func (a *API) seen(ctx context.Context, e *edit, o *options) (ruleset.Version, bool) {
	listed, err := a.Rules.History(ctx, lookBack)
	if err != nil {
		return ruleset.Version{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, lookBackTime)
	defer cancel()
	for _, v := range append(listed, ruleset.Version{}) { // 0: the built-in rules
		if ctx.Err() != nil {
			break
		}
		whole, err := a.Rules.Get(ctx, v.Number)
		if err != nil {
			continue
		}
		whole = whole.Tried()
		if tag, err := e.tag(contentsOf(whole.Files)); err == nil && o.matches(tag) {
			return whole, true
		}
	}
	return ruleset.Version{}, false
}
