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
	// and writes one decision per claim into out: of each group first the
	// claims of the group itself, then those of each of its shadows. The
	// length of out must be the number of claims, as [Sizes] returns it.
	// [Combine] returns the answer of a group from its decisions.
	//
	// A [*GroupsError] means that some groups or shadows have no decision;
	// the decisions of the others are valid. Any other error means that
	// nothing was decided.
	TakeGroups(ctx context.Context, groups []Group, out []Decision) error
}
