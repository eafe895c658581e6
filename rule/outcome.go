package rule

import "github.com/stintdev/stint"

// List tells which list a request is on.
type List uint8

// The lists.
const (
	ListNone  List = iota
	ListAllow      // admitted without being counted
	ListDeny       // denied without being counted: HTTP's 403
)

// Outcome is the answer of a rule set to a request.
type Outcome struct {
	List List
	// Decision is the combined decision of the enforced claims. It is allowed and
	// has a zero Limit when no enforced claim applied.
	Decision stint.Decision
	// Face is the index in Hits of the binding claim. It is −1 when no enforced
	// claim applied.
	Face int
	// Hits has one entry for each claim: first the claims of enforced rules, then
	// those of shadow rules, each in file order.
	Hits []Hit
}

// Hit is one claim of a rule together with its decision.
type Hit struct {
	Rule     *Rule
	Limit    stint.Limit
	Key      string // [KeyText] makes it readable
	Shadow   bool
	Decision stint.Decision
}

// Allowed reports whether the request is admitted.
func (o *Outcome) Allowed() bool {
	return o.List != ListDeny && o.Decision.Allowed
}
