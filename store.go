package stint

import "context"

// Store keeps the state of keys and takes claims atomically. It is safe for
// use by many goroutines at once.
//
// State belongs to the scope of a limit (namespace, rule, name) and a key.
// An error is an [*Error] and means that no decision could be made; a denial
// is a [Decision].
type Store interface {
	// Take decides one claim and charges it when allowed. It is what
	// TakeGroups does with one group of one claim.
	Take(ctx context.Context, c Claim) (Decision, error)

	// TakeGroups decides the groups one after the other, each atomically,
	// and writes one decision per claim into out, in order. The length of
	// out must be the number of claims. Whether a group was admitted, and
	// its face, is read from its decisions with [Combine]. An error of one
	// group leaves the decisions of the others valid: it is a
	// [*GroupsError]; any other error means that no group was decided.
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
