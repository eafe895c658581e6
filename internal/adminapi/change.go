package adminapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/stintdev/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// edit is one change that somebody asks for.
type edit struct {
	what string // for the audit log, such as "put rule orders"
	// tag is the entity tag of what is changed, as the files have it; "" when
	// it is not there.
	tag func(files []rule.File) (string, error)
	// make returns the files with the change made.
	make func(files []rule.File) ([]rule.File, *rule.Set, error)
}

// outcome is the answer to a change.
type outcome struct {
	Version  uint64    `json:"version"`
	Hash     string    `json:"hash"`
	Changed  bool      `json:"changed"` // false: the rules said so already, and no version was published
	DryRun   bool      `json:"dry_run,omitempty"`
	Warnings []problem `json:"warnings,omitempty"`
	Diff     *diff     `json:"diff,omitempty"`
}

// attempts bounds how often an unconditional change is made anew on what
// others have published meanwhile.
const attempts = 10

// change makes an edit on the newest rules and publishes them. Without
// If-Match it is made anew when somebody else comes between; with it, only as
// long as what it changes is as the caller has seen it.
func (a *API) change(r *request, e edit) (any, error) {
	o, err := r.options()
	if err != nil {
		return nil, err
	}
	_, base := a.Rules.Current()
	for range attempts {
		answer, err := a.attempt(r, &e, &o, base)
		if answer != nil || err != nil {
			a.audited(r, e.what, &o, answer, err)
			if err == nil {
				return answer, nil
			}
		}
		conflict, ok := errors.AsType[*ruleset.ConflictError](err)
		if !ok {
			return nil, err
		}
		if base, err = a.Rules.Get(r.Context(), conflict.Newest.Number); err != nil {
			return nil, err
		}
	}
	return nil, &apiError{Status: http.StatusConflict, Code: "CONFLICT", Message: "others publish all the time (try again)"}
}

// attempt makes the edit on one version.
func (a *API) attempt(r *request, e *edit, o *options, base ruleset.Version) (*outcome, error) {
	if err := a.precondition(r, e, o, base); err != nil {
		return nil, err
	}
	files, set, err := e.make(base.Files)
	if err != nil {
		return nil, err
	}
	d, err := compare(base, ruleset.Version{Number: base.Number, Files: files})
	if err != nil {
		return nil, err
	}
	out := &outcome{Version: base.Number, Hash: base.Hash, Changed: d.Changed, DryRun: o.dryRun, Warnings: problemsOf(set.Warnings()), Diff: d}
	if !d.Changed && base.Number > 0 {
		return out, a.tell(r, e, base.Files)
	}
	if o.dryRun {
		out.Hash = ruleset.HashOf(files)
		return out, nil
	}
	published, err := a.Rules.Publish(r.Context(), ruleset.Change{Files: files, Author: r.who.name, Comment: o.comment, After: base.Number})
	if err != nil {
		return nil, err
	}
	out.Version, out.Hash, d.To = published.Number, published.Hash, published.Number
	return out, a.tell(r, e, files)
}

// tell says the new tag of what was changed.
func (a *API) tell(r *request, e *edit, files []rule.File) error {
	tag, err := e.tag(files)
	if tag != "" {
		r.w.Header().Set("ETag", tag)
	}
	return err
}

// precondition fails when what is to be changed is not what the caller has
// seen, with what somebody else has changed since.
func (a *API) precondition(r *request, e *edit, o *options, base ruleset.Version) error {
	if o.match == nil {
		return nil
	}
	tag, err := e.tag(base.Files)
	if err != nil || o.matches(tag) {
		return err
	}
	failed := &apiError{Status: http.StatusPreconditionFailed, Code: "PRECONDITION_FAILED", Version: base.Number,
		Message: "somebody else has changed it since you read it: look at diff, read it again and make your change on that"}
	if tag == "" {
		failed.Message = "it is not in the rules"
	} else {
		r.w.Header().Set("ETag", tag)
	}
	if seen, ok := a.seen(r.Context(), e, o); ok {
		failed.Diff, err = compare(seen, base)
	}
	return errors.Join(failed, err)
}

// lookBack is how many versions are searched for the one that a caller saw.
const lookBack = 50

// seen finds the version that a caller with these tags has read.
func (a *API) seen(ctx context.Context, e *edit, o *options) (ruleset.Version, bool) {
	listed, err := a.Rules.History(ctx, lookBack)
	if err != nil {
		return ruleset.Version{}, false
	}
	for _, v := range append(listed, ruleset.Version{}) { // 0: the built-in rules
		whole, err := a.Rules.Get(ctx, v.Number)
		if err != nil {
			continue
		}
		if tag, err := e.tag(whole.Files); err == nil && o.matches(tag) {
			return whole, true
		}
	}
	return ruleset.Version{}, false
}
