package stint

import "context"

// Store keeps the state of keys and takes claims atomically. It is safe for
// use by many goroutines at once.
//
// A state belongs to the scope of a limit (namespace, rule, name) and a key.
// An error is an [*Error] and means that no decision could be made. A denial is
// not an error but a [Decision].
type Store interface {
	// Take decides one claim and charges it when allowed. It is shorthand for
	// TakeGroups with one group of one claim.
	Take(ctx context.Context, c Claim) (Decision, error)

	// TakeGroups decides the groups one after the other, each atomically,
	// and writes one decision per claim into out, in order. The length of
	// out must be the number of claims. [Combine] returns the answer of a
	// group from its decisions.
	//
	// A [*GroupsError] means that some groups have no decision; the decisions
	// of the others are valid. Any other error means that no group was
	// decided.
	TakeGroups(ctx context.Context, groups []Group, out []Decision) error
}

// GroupsError says which groups of one call have no decision, and why.
type GroupsError struct {
	// Errs has one entry per group of the call, nil for those decided.
	Errs []error
}

// Error returns the first of the errors.
func (e *GroupsError) Error() string {
	for _, err := range e.Errs {
		if err != nil {
			return err.Error()
		}
	}
	return "no group failed"
}

// Unwrap returns the errors of the groups that failed.
func (e *GroupsError) Unwrap() []error { return e.Errs }
