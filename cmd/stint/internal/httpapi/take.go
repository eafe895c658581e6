package httpapi

import (
	"slices"
	"strings"

	"github.com/stintdev/stint"
)

// maxLimits bounds the limits of one request.
const maxLimits = 32

// take handles POST /v1/take: the caller supplies the key and its limits.
func (b *batch) take(body []byte) error { return b.read(body, takeMembers, (*batch).addTake) }

// addTake adds a take of the limits in an ask, or a refund if its cost is below 0.
func (b *batch) addTake(a *ask) error {
	cost, err := a.costWithin(-stint.MaxCost)
	if err != nil {
		return err
	}
	at, err := a.giveBackTime(cost < 0)
	if err != nil {
		return err
	}
	return b.addClaims(a, cost, at)
}

// addClaims adds one claim per limit.
func (b *batch) addClaims(a *ask, cost, at int64) error {
	if err := a.checkLimits(); err != nil {
		return err
	}
	from := len(b.claims)
	for _, limit := range a.limits {
		b.claims = append(b.claims, stint.Claim{Key: a.key, Limit: limit, Cost: cost, At: at, Policy: stint.Policy{OnFailure: a.onFailure}})
	}
	b.group(b.claims[from:len(b.claims):len(b.claims)])
	return nil
}

// checkLimits validates the fields in combination.
func (a *ask) checkLimits() error {
	if (a.given&memberLimit == 0) == (a.given&memberLimits == 0) {
		return badRequest("limit: give either limit, or limits with a list of them")
	}
	if err := stint.ValidateKey(a.key); err != nil {
		return err
	}
	for i, limit := range a.limits {
		for _, other := range a.limits[:i] {
			if limit.Name() == other.Name() {
				return badRequest("limits: two are named %s, so they would count in one state (give each a \"name\" of its own)", limit.Name())
			}
		}
	}
	return nil
}

// failureField parses the policy for store failures, in the words that rules use.
func failureField(raw []byte, out *stint.OnFailure) error {
	words := []string{"open", "closed", "local"}
	word, err := jsonText(raw)
	if err != nil {
		return within("on_store_failure", err)
	}
	i := slices.Index(words, string(word))
	if i < 0 {
		return badRequest("on_store_failure: %s is not known (use one of %s)", shown(string(word)), strings.Join(words, ", "))
	}
	*out = stint.OnFailure(i)
	return nil
}

func (a *ask) limitField(field string, raw []byte, limits *limitCache) error {
	limit, err := limits.get(raw)
	if err != nil {
		return within(field, err)
	}
	a.limits = append(a.limits, limit)
	return nil
}

func (a *ask) limitsField(raw []byte, limits *limitCache) error {
	switch n := countElements(raw); {
	case n < 0:
		return badRequest("limits: must be a list of limits")
	case n == 0 || n > maxLimits:
		return badRequest("limits: has %d limits (give 1 to %d)", n, maxLimits)
	}
	_, err := eachElement(raw, func(raw []byte) error {
		return a.limitField(indexed("limits", len(a.limits)), raw, limits)
	})
	return err
}
