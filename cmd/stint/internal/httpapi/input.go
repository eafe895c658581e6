package httpapi

import (
	"math/bits"
	"strings"

	"github.com/stintdev/stint"
)

// members is a set of the fields that a body, or an item of a batch, may contain.
type members uint8

const (
	memberAttributes members = 1 << iota
	memberKey
	memberLimit
	memberLimits
	memberCost
	memberAt
	memberOnFailure
)

// The fields that each endpoint accepts.
const (
	checkMembers    = memberAttributes | memberCost
	limitMembers    = memberKey | memberLimit | memberLimits | memberOnFailure
	takeMembers     = limitMembers | memberCost | memberAt
	peekMembers     = memberAttributes | limitMembers
	giveBackMembers = takeMembers
	itemMembers     = memberAttributes | takeMembers
)

var memberNames = [...]string{"attributes", "key", "limit", "limits", "cost", "at_us", "on_store_failure"}

// memberOf returns the member with this name, or 0 if there is none.
func memberOf(name []byte) members {
	for i, known := range memberNames {
		if string(name) == known {
			return 1 << i
		}
	}
	return 0
}

// names returns the names of the set's members.
func (m members) names() (names []string) {
	for ; m != 0; m &= m - 1 {
		names = append(names, memberNames[bits.TrailingZeros8(uint8(m))])
	}
	return names
}

// ask is one parsed request body or batch item. The fields are interpreted only after all
// of them have been read, because their meaning depends on each other.
type ask struct {
	given      members
	attributes attributes
	key        string
	limits     []stint.Limit
	onFailure  stint.OnFailure
	cost, at   []byte // digits as in the body; nil if absent
}

// reset clears the ask but keeps its allocated slices.
func (a *ask) reset() {
	a.attributes.reset()
	clear(a.limits)
	*a = ask{attributes: a.attributes, limits: a.limits[:0]}
}

// read parses a JSON object whose fields must be among the known members.
func (a *ask) read(raw []byte, known members, limits *limitCache, t *texts) error {
	return eachMember(raw, func(name, raw []byte) error {
		m := memberOf(name)
		if m&known == 0 {
			return unknownField(name, known.names())
		}
		a.given |= m
		return a.member(m, raw, limits, t)
	})
}

func (a *ask) member(m members, raw []byte, limits *limitCache, t *texts) (err error) {
	switch m {
	case memberAttributes:
		return within("attributes", a.attributes.read(raw, t))
	case memberKey:
		var key []byte
		key, err = jsonText(raw)
		a.key = t.keep(key)
		return within("key", err)
	case memberLimit:
		return a.limitField("limit", raw, limits)
	case memberLimits:
		return a.limitsField(raw, limits)
	case memberOnFailure:
		return failureField(raw, &a.onFailure)
	case memberCost:
		a.cost = raw
	case memberAt:
		a.at = raw
	}
	return nil
}

// isCheck reports whether the ask is a check against the rules rather than a take of
// limits that the caller brings.
func (a *ask) isCheck() (bool, error) {
	check, take := a.given&memberAttributes != 0, a.given&limitMembers != 0
	switch {
	case check && take:
		return false, badRequest("attributes: ask the rules, and %s brings a limit: give one or the other", strings.Join((a.given&limitMembers).names(), ", "))
	case !check && !take:
		return false, badRequest("attributes: is missing, and so is key: give attributes for the rules to decide, or a key and its limit")
	}
	return check, nil
}

// costWithin parses the cost, which must be at least least. It returns 1 if none is
// given.
func (a *ask) costWithin(least int64) (cost int64, err error) {
	if a.cost == nil {
		return 1, nil
	}
	err = wholeField("cost", &cost, least, stint.MaxCost)(a.cost)
	return cost, err
}
