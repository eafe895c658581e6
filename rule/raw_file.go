package rule

import "go.yaml.in/yaml/v3"

// numbers holds the limits from one place in a file: the parameters of one
// limit, or a list of limits.
type numbers struct {
	at     position
	level  *level
	limits []limitDraft
}

func (n *numbers) namesLimits() bool { return n != nil && len(n.limits) > 0 }

// parameters returns the level, or nil when n is nil.
func (n *numbers) parameters() *level {
	if n == nil {
		return nil
	}
	return n.level
}

// limitDraft is one item of a list of limits.
type limitDraft struct {
	at    position
	name  located
	level *level
}

// tierDraft is a declared tier.
type tierDraft struct {
	name    located
	pattern located
	numbers numbers
}

// overrideDraft is one override: a key and its limits.
type overrideDraft struct {
	key     located
	numbers numbers
	until   int64 // in µs; 0: for good
}

// listDraft holds the list entries of a file or a rule.
type listDraft struct{ allow, deny []entryDraft }

// entryDraft is one list entry.
type entryDraft struct {
	located

	until int64 // in µs; 0: for good
}

// fileDraft holds the top-level contents of the files of a set.
type fileDraft struct {
	version    located
	defaults   *numbers
	tiers      []tierDraft
	rules      []*ruleDraft
	lists      listDraft
	ipv6Prefix located
}

// ruleDraft is a rule as its file states it.
type ruleDraft struct {
	at                position
	id, version, tier located
	match             matchDraft
	by                []located
	missing           missing
	numbers           numbers
	override          []overrideDraft
	temporary         []overrideDraft
	any               bool
	mode              Mode
	consistency       int
	consistencyAt     position
	onFailure         int
	local             *localDraft
	replicas          located
	retryJitter, cost located
	dialect           int
	penalty           *penaltyDraft
	denyAll           bool
	lists             listDraft
	flawed            bool // reading found a mistake
}

// matchDraft holds the match conditions of a rule.
type matchDraft struct {
	apiKey, regex, path, prefix, host located
	methods, cidrs                    []located
	headers                           []pairDraft
}

type pairDraft struct{ name, value located }

// localDraft is the limit that applies while the store fails.
type localDraft struct {
	at    position
	level *level
	by    []located
}

// localPolicy is the index of "local" among the failure policies.
const localPolicy = 2

var failurePolicies = []string{"open", "closed", "local"}

// dialects returns the valid values of a rule's headers field. The first is the
// default.
func dialects() []string { return []string{"standard", "ietf", "ietf-03", "x-ratelimit", "none"} }

func readLevel(r *reader, n *yaml.Node, into **level) {
	readFields(r, n, "params", levelFields, into)
}

var levelFields = withParameters(fields[*level]{}, func(l **level) **level { return l })
