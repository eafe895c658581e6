package rule

import "go.yaml.in/yaml/v3"

// numbers holds the limits from one place in a file: the parameters of one
// limit, or a list of limits.
type numbers struct {
	at     position
	level  *level
	limits []rawLimit
}

func (n *numbers) namesLimits() bool { return n != nil && len(n.limits) > 0 }

// parameters returns the level, or nil when n is nil.
func (n *numbers) parameters() *level {
	if n == nil {
		return nil
	}
	return n.level
}

// rawLimit is one item of a list of limits.
type rawLimit struct {
	at    position
	name  located
	level *level
}

// rawTier is a declared tier.
type rawTier struct {
	name    located
	pattern located
	numbers numbers
}

// rawOverride is one override: a key and its limits.
type rawOverride struct {
	key     located
	numbers numbers
	until   int64 // end, in µs; 0: no end
}

// rawLists holds the list entries of a file or a rule.
type rawLists struct{ allow, deny []rawEntry }

// rawEntry is one list entry.
type rawEntry struct {
	located

	until int64 // end, in µs; 0: no end
}

// rawFile holds the top-level contents of the files of a set.
type rawFile struct {
	version    located
	defaults   *numbers
	tiers      []rawTier
	rules      []*rawRule
	lists      rawLists
	ipv6Prefix located
	identity   []located // nil: not given
}

// rawRule is a rule as its file states it.
type rawRule struct {
	at                position
	id, version, tier located
	match             rawMatch
	by                []located
	missing           missing
	numbers           numbers
	override          []rawOverride
	temporary         []rawOverride
	any               bool
	mode              Mode
	consistency       int
	consistencyAt     position
	onFailure         int
	local             *rawLocal
	replicas          located
	store             located
	retryJitter, cost located
	dialect           int
	penalty           *rawPenalty
	denyAll           bool
	lists             rawLists
	flawed            bool // reading found a mistake
}

// rawMatch holds the match conditions of a rule.
type rawMatch struct {
	apiKey, regex, path, prefix, host located
	methods, cidrs                    []located
	headers                           []rawPair
}

type rawPair struct{ name, value located }

// rawLocal is the limit that applies while the store fails.
type rawLocal struct {
	at    position
	level *level
	by    []located
}

// localPolicy is the index of "local" among the failure policies.
const localPolicy = 2

var failurePolicies = []string{"open", "closed", "local", "last_known"}

// dialects returns the valid values of a rule's headers field. The first is the
// default.
func dialects() []string {
	return []string{"standard", "ietf", "ietf-03", "x-ratelimit", "unix-reset", "none"}
}

func readLevel(r *reader, n *yaml.Node, into **level) {
	readFields(r, n, "params", levelFields, into)
}

var levelFields = withParameters(fields[*level]{}, func(l **level) **level { return l })
