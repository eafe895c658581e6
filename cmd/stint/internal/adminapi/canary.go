package adminapi

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// canaryOptions say how a canary tries its rules.
type canaryOptions struct {
	Control    uint64  `json:"control"` // the version whose rules the other callers have
	Share      float64 `json:"share"`
	By         string  `json:"by"`
	Soak       string  `json:"soak,omitempty"` // empty: it is promoted by hand
	AbortAbove float64 `json:"abort_above"`
}

func optionsOf(c *ruleset.Canary) *canaryOptions {
	o := &canaryOptions{Control: c.Control, Share: c.Share, By: c.By, AbortAbove: c.AbortAbove}
	if c.Soak > 0 {
		o.Soak = c.Soak.String()
	}
	return o
}

// canaryPlan says what a canary does not try.
type canaryPlan struct {
	canaryOptions

	// RulesKept are the rules that keep their limits until the promotion, because callers of
	// both sides share their counts. KeptLimits says in words what they have and will have.
	RulesKept  []string               `json:"rules_kept,omitempty"`
	KeptLimits []ruleedit.LimitChange `json:"kept_limits,omitempty"`
}

// canary reads the options of a canary from the query; nil: there are none.
func (r *request) canary() (*ruleset.CanaryOptions, error) {
	q := r.URL.Query()
	if !q.Has("canary") {
		if q.Has("soak") || q.Has("abort_above") {
			return nil, badRequest("soak and abort_above: are for a canary (send canary too, such as ?canary=5%%25)")
		}
		return nil, nil //nolint:nilnil // there is no canary
	}
	o := &ruleset.CanaryOptions{AbortAbove: ruleset.DefaultAbortAbove}
	var err error
	if o.Share, err = share("canary", q.Get("canary")); err != nil {
		return nil, err
	}
	if text := q.Get("abort_above"); text != "" {
		if o.AbortAbove, err = share("abort_above", text); err != nil {
			return nil, err
		}
	}
	if text := q.Get("soak"); text != "" {
		if o.Soak, err = span(text); err != nil {
			return nil, badRequest("soak: %v", err)
		}
		if o.Soak == 0 {
			return nil, badRequest("soak: 0 is out of range (give 1s to 720h, or leave it out to promote by hand)")
		}
	}
	if err := o.Validate(); err != nil {
		return nil, badRequest("%v", err)
	}
	return o, nil
}

// share parses a share such as 5% or 0.05.
func share(name, text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		n /= 100
	}
	if err != nil || math.IsNaN(n) || n < 0 || n > 1 {
		return 0, badRequest("%s: %.40q is not a share (write it as 5%% or 0.05)", name, text)
	}
	return n, nil
}

// checkCanary returns why a change cannot be tried by a canary.
func (a *API) checkCanary(e *edit) error {
	if !e.whole && !e.part {
		return badRequest("canary: it tries changes of rules and tiers, and other changes are for all callers (leave canary out)")
	}
	return a.Rules.CheckCanary()
}

// planCanary returns the rules that the callers of a canary get, and what it does not try.
func planCanary(base ruleset.Version, files []rule.File, set *rule.Set, o *ruleset.CanaryOptions) (*rule.Set, *canaryPlan, error) {
	next := ruleset.Version{Files: files, Hash: ruleset.HashOf(files)}
	v, err := ruleset.NewCanary(base, next, *o)
	if err != nil {
		return nil, nil, err
	}
	trial, kept, err := v.Trial()
	if err != nil {
		return nil, nil, err
	}
	plan := &canaryPlan{canaryOptions: *optionsOf(v.Canary), RulesKept: kept}
	plan.KeptLimits, _ = ruleedit.LimitChanges(trial, set, mostLimitChanges)
	return trial, plan, nil
}

// triesSomething refuses a canary whose rules are those in force for all of its callers.
func (p *canaryPlan) triesSomething(d *diff, was, is *contents) error {
	if !d.Changed || was.err != nil || is.err != nil || len(d.Limits) > 0 || !was.parts.OnlyLimits(is.parts, p.RulesKept) {
		return nil //nolint:nilerr // files that cannot be compared by name may try something
	}
	what := "it changes nothing but comments"
	if len(p.RulesKept) > 0 {
		what = fmt.Sprintf("it changes only limits whose counts all callers share (%.200s), and these stay as they are until the promotion", strings.Join(p.RulesKept, ", "))
	}
	return &apiError{Status: http.StatusConflict, Code: "CANARY_EMPTY", Message: "canary: it would try nothing, because " + what + " (publish the rules to all callers)"}
}

// canaryBody is the canary that is on.
type canaryBody struct {
	On bool `json:"on"`
	*canaryState
}

type canaryState struct {
	Version uint64 `json:"version"`
	canaryOptions

	Since     time.Time      `json:"since"`
	Author    string         `json:"author,omitempty"`
	Comment   string         `json:"comment,omitempty"`
	RulesKept []string       `json:"rules_kept,omitempty"`
	Requests  canaryRequests `json:"requests"`
	Nodes     int            `json:"nodes"` // number of nodes that count
	// Least is the number of requests that each side must have had before nodes end the canary.
	Least int `json:"least_requests"`
}

type canaryRequests struct {
	Control ruleset.Counts `json:"control"`
	Canary  ruleset.Counts `json:"canary"`
}

// canaryStatus answers GET /v1/canary.
func (a *API) canaryStatus(r *request) (any, error) {
	s, err := a.Rules.CanaryStatus(r.Context())
	if err != nil || s.Version.Canary == nil {
		return canaryBody{}, err
	}
	v := s.Version
	state := &canaryState{Version: v.Number, canaryOptions: *optionsOf(v.Canary), Since: v.Time.UTC(), Author: v.Author, Comment: v.Comment,
		Requests: canaryRequests{s.Control, s.Canary}, Nodes: s.Nodes, Least: ruleset.CanaryRequests}
	if err := a.reading.take(r.Context()); err != nil {
		return nil, err
	}
	defer a.reading.end()
	if whole, err := a.Rules.Get(r.Context(), v.Number); err == nil {
		_, state.RulesKept, _ = whole.Trial() // an older Stint may not read them; the rest is known
	}
	return canaryBody{true, state}, nil
}

func (a *API) promoteCanary(r *request) (any, error) { return a.endCanary(r, true) }

func (a *API) abortCanary(r *request) (any, error) { return a.endCanary(r, false) }

// endCanary answers POST /v1/canary/promote and POST /v1/canary/abort. Without ?version=13 it
// ends the canary that is on.
func (a *API) endCanary(r *request, promote bool) (any, error) {
	result := "aborted"
	if promote {
		result = "promoted"
	}
	var out *outcome
	o, err := r.options()
	if err == nil && (o.dryRun || o.force || o.impact != "" || o.canary != nil) {
		err = badRequest("dry_run, force, impact and canary: are for changes of the rules (leave them out)")
	}
	what := "canary " + result
	if err == nil {
		if err = a.changing.take(r.Context()); err != nil {
			return nil, err
		}
		defer a.changing.end()
		out, what, err = a.finishCanary(r, promote, result, o.comment)
	}
	a.audited(r, what, &o, out, err)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (a *API) finishCanary(r *request, promote bool, result, why string) (_ *outcome, what string, err error) {
	what = "canary " + result
	number, err := r.number("version", 0, 1, ruleset.MaxNumber)
	if err != nil {
		return nil, what, err
	}
	s, err := a.Rules.CanaryStatus(r.Context())
	if err != nil {
		return nil, what, err
	}
	number = cmp.Or(number, s.Version.Number)
	what = fmt.Sprintf("canary %d %s", number, result)
	if s.Version.Canary == nil || number != s.Version.Number {
		return nil, what, &ruleset.CanaryGoneError{Newest: s.Version}
	}
	before, err := a.Rules.Get(r.Context(), number)
	if err != nil {
		return nil, what, err
	}
	comment := what
	if why != "" {
		comment += ": " + why
	}
	comment = comment[:min(len(comment), maxWhy)]
	v, err := a.Rules.EndCanary(r.Context(), ruleset.CanaryEnd{Number: number, Promote: promote, Author: r.who.name, Comment: strings.ToValidUTF8(comment, "")})
	if err != nil {
		return nil, what, &changeError{err: err}
	}
	a.Rules.CanaryEnded(promote, ruleset.CanaryOperator)
	return &outcome{Version: v.Number, Hash: v.Hash, Changed: true, Diff: a.compareEnd(before, v, promote)}, what, nil
}

// compareEnd returns what the end of a canary changes: a promotion for the callers that had the
// old rules, an abort for those of the canary. Those had not all that the new rules say.
func (a *API) compareEnd(on, end ruleset.Version, promote bool) *diff {
	if promote {
		return a.compare(on, end)
	}
	d := a.compare(on.Tried(), end)
	trial, _, err := on.Trial()
	if control := a.setOf(end); err == nil && control != nil {
		d.Fresh = ruleedit.Fresh(trial, control)
		d.Limits, d.LimitsMore = ruleedit.LimitChanges(trial, control, mostLimitChanges)
	}
	return d
}
