package rule

import "github.com/stintdev/stint"

// Mode says what a rule does when its limits exceed.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota // denies
	Shadow              // decides and counts, never denies
	Off                 // is not looked at
)

// Rule is one rule of a [Set]. It never changes.
type Rule struct {
	ID      string
	Version string // of this rule, as its file says; may be empty
	Tier    string // the tier or label that the file names; may be empty
	Mode    Mode
	// Headers is the dialect of response headers: "standard" (the default),
	// "ietf", "ietf-03", "x-ratelimit" or "none".
	Headers string
	// RetryJitter is the share of the retry time, 0 to 1, that is added to
	// it at random on a denial. 0 adds none.
	RetryJitter float64
	// Policy travels with every claim of the rule.
	Policy stint.Policy
	// Local is the limit that stands in for the rule's own while the store
	// fails, and LocalBy its identity. Local is invalid when the rule names
	// none; LocalBy is empty when it is the rule's own identity.
	Local   stint.Limit
	LocalBy []string
}
