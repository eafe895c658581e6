package storekit

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/groupcall"
)

// TakeOne decides one claim by the method TakeGroups of a store. It is the method Take
// of a store that has no faster way for one claim.
func TakeOne(ctx context.Context, store stint.Store, c stint.Claim) (stint.Decision, error) {
	var out [1]stint.Decision
	err := store.TakeGroups(ctx, []stint.Group{{Claims: []stint.Claim{c}}}, out[:])
	errs, whole := PartErrors(err, 1)
	if errs != nil {
		whole = errs[0]
	}
	return out[0], whole
}

// EachGroup calls decide with one group after the other, and the places of its decisions
// in out. It returns the error of TakeGroups. It is for a store that decides each group in
// an atomic step of its own. An error of decide that is not a [*stint.GroupsError] is the
// error of the group and of its shadows.
func EachGroup(groups []stint.Group, out []stint.Decision, decide func(group []stint.Group, out []stint.Decision) error) error {
	if err := CheckOut(groups, out); err != nil {
		return err
	}
	if len(groups) == 1 {
		return decide(groups, out)
	}
	var failed Errors
	part := 0
	for i := range groups {
		group := groups[i : i+1]
		claims, parts := stint.Sizes(group)
		errs, whole := PartErrors(decide(group, out[:claims]), parts)
		for j := range parts {
			err := whole
			if errs != nil {
				err = errs[j]
			}
			failed.Set(part+j, groups, err)
		}
		part, out = part+parts, out[claims:]
	}
	return failed.Err()
}

// CheckOut returns the error that every store returns if the length of out is not the
// number of claims, or nil.
func CheckOut(groups []stint.Group, out []stint.Decision) error {
	if claims, _ := stint.Sizes(groups); claims != len(out) {
		problem, mend := groupcall.WrongLength(claims, len(out))
		return &stint.Error{Code: stint.CodeInvalid, Problem: problem, Mend: mend}
	}
	return nil
}

// Errors collects the errors of the parts of a call of TakeGroups. The zero value has
// none, and allocates nothing until a part fails.
type Errors struct{ parts groupcall.Errors }

// Set records the error of one part of the groups. It ignores nil.
func (e *Errors) Set(part int, groups []stint.Group, err error) {
	e.parts.Set(part, func() int { _, parts := stint.Sizes(groups); return parts }, err)
}

// Of returns the error of a part, or nil.
func (e *Errors) Of(part int) error {
	if e.parts == nil {
		return nil
	}
	return e.parts[part]
}

// Err returns the errors as the error of TakeGroups: a [*stint.GroupsError], or nil if
// there are none.
func (e *Errors) Err() error {
	if e.parts == nil {
		return nil
	}
	return &stint.GroupsError{Errs: e.parts}
}

// PartErrors splits the error of a call of TakeGroups by the parts of its groups. errs
// has an entry for each part if only some parts failed, and is nil otherwise. whole is the
// error of a call that decided nothing. [stint.Sizes] counts the parts.
func PartErrors(err error, parts int) (errs []error, whole error) {
	if some, ok := errors.AsType[*stint.GroupsError](err); ok && len(some.Errs) == parts {
		return some.Errs, nil
	}
	return nil, err
}

// Claims returns the claims of the groups and of their shadows, in the order of their
// decisions.
func Claims(groups []stint.Group) iter.Seq[*stint.Claim] {
	return func(yield func(*stint.Claim) bool) {
		for i := range groups {
			for part := range groups[i].Parts() {
				claims := groups[i].Part(part)
				for j := range claims {
					if !yield(&claims[j]) {
						return
					}
				}
			}
		}
	}
}

// MapClaims returns a copy of the groups after change has changed each claim. A store
// that wraps another must not change the groups that it gets: they are the caller's.
func MapClaims(groups []stint.Group, change func(c *stint.Claim)) []stint.Group {
	changed := slices.Clone(groups)
	for i := range changed {
		g := &changed[i]
		g.Claims, g.Shadows = slices.Clone(g.Claims), slices.Clone(g.Shadows)
		for j := range g.Shadows {
			g.Shadows[j] = slices.Clone(g.Shadows[j])
		}
	}
	for c := range Claims(changed) {
		change(c)
	}
	return changed
}
