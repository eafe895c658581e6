package rule

import "github.com/stintdev/stint"

// List says which list a request was found on.
type List uint8

// The lists.
const (
	ListNone  List = iota
	ListAllow      // admitted without being counted
	ListDeny       // denied without being counted: HTTP's 403
)

// Outcome is what a rule set says of a request.
type Outcome struct {
	List List
	// Decision is the face of the enforced claims. It is allowed, with a
	// zero Limit, when none applied.
	Decision stint.Decision
	// Face is the index in Hits of the claim that decided, −1 when no
	// enforced claim applied.
	Face int
	// Hits has one entry a claim: the enforced ones first, then those of
	// shadow rules, each in the order of the files.
	Hits []Hit
}

// Hit is one claim that a rule made, and its decision.
type Hit struct {
	Rule     *Rule
	Limit    stint.Limit
	Key      string // show it by [KeyText]
	Shadow   bool
	Decision stint.Decision
}

// Allowed reports whether the request may go on.
func (o *Outcome) Allowed() bool {
	return o.List != ListDeny && o.Decision.Allowed
}
