package httpapi

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
	"github.com/stintdev/stint/internal/boundedcache"
	"github.com/stintdev/stint/rule"
)

// members is a set of the fields that a body, or an item of a batch, may contain.
type members uint16

const (
	memberAttributes members = 1 << iota
	memberKey
	memberLimit
	memberLimits
	memberCost
	memberAt
	memberOnFailure
	memberCombine
	memberRequestID
)

// The fields that the endpoints accept.
const (
	checkMembers = memberAttributes | memberCost | memberRequestID
	limitMembers = memberKey | memberLimit | memberLimits | memberOnFailure | memberCombine
	takeMembers  = limitMembers | memberCost | memberAt | memberRequestID
	peekMembers  = memberAttributes | limitMembers | memberRequestID // which a peek ignores
	itemMembers  = memberAttributes | takeMembers
)

var memberNames = [...]string{"attributes", "key", "limit", "limits", "cost", "at_us", "on_store_failure", "combine", "request_id"}

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
		names = append(names, memberNames[bits.TrailingZeros16(uint16(m))])
	}
	return names
}

// input is one parsed body or item of a batch. The fields are interpreted only after all
// of them have been read, because their meaning depends on each other.
type input struct {
	given      members
	attributes attributes  // the attributes of a check
	take       decide.Take // without its cost and time until readTake
	cost, at   []byte      // digits as in the body; nil if absent
	requestID  string      // empty: absent
}

// reset clears the input but keeps its allocated slices.
func (in *input) reset() {
	in.attributes.reset()
	clear(in.take.Limits)
	*in = input{attributes: in.attributes, take: decide.Take{Limits: in.take.Limits[:0]}}
}

// read parses a JSON object whose fields must be among the known members.
func (in *input) read(raw []byte, known members, k *work) error {
	return eachMember(raw, func(name, raw []byte) error {
		m := memberOf(name)
		if m&known == 0 {
			return unknownField(name, known.names())
		}
		in.given |= m
		return in.readMember(m, raw, k)
	})
}

func (in *input) readMember(m members, raw []byte, k *work) error {
	switch m {
	case memberAttributes:
		return within("attributes", in.attributes.read(raw, &k.strings))
	case memberKey:
		key, err := jsonText(raw)
		in.take.Key = k.strings.Keep(key)
		return within("key", err)
	case memberLimit:
		return in.readLimit("limit", raw, k.api.limits)
	case memberLimits:
		return in.readLimits(raw, k.api.limits)
	case memberOnFailure:
		return within("on_store_failure", in.readOnFailure(raw))
	case memberCombine:
		return within("combine", in.readCombine(raw))
	case memberRequestID:
		return within("request_id", in.readRequestID(raw))
	case memberCost:
		in.cost = raw
	case memberAt:
		in.at = raw
	}
	return nil
}

func (in *input) readLimit(field string, raw []byte, limits *limitCache) error {
	limit, err := limits.get(raw)
	if err != nil {
		return within(field, err)
	}
	in.take.Limits = append(in.take.Limits, limit)
	return nil
}

func (in *input) readLimits(raw []byte, limits *limitCache) error {
	n := countElements(raw)
	if n < 0 {
		return badRequest("limits: must be a list of limits")
	}
	if err := decide.CheckLimits(n); err != nil {
		return err
	}
	_, err := eachElement(raw, func(raw []byte) error {
		return in.readLimit(fmt.Sprintf("limits[%d]", len(in.take.Limits)), raw, limits)
	})
	return err
}

// readOnFailure parses the policy for store failures, in the words that rules use.
func (in *input) readOnFailure(raw []byte) error {
	i, err := oneOf(raw, "open", "closed", "local", "last_known")
	in.take.OnFailure = stint.OnFailure(i)
	return err
}

// readCombine parses how the limits decide together, in the words that rules use.
func (in *input) readCombine(raw []byte) error {
	i, err := oneOf(raw, "all", "any")
	in.take.Any = i == 1
	return err
}

func (in *input) readRequestID(raw []byte) error {
	id, err := jsonText(raw)
	if err != nil {
		return err
	}
	in.requestID = string(id)
	return decide.CheckRequestID(in.requestID)
}

// oneOf returns the index of a JSON string among the given words.
func oneOf(raw []byte, words ...string) (int, error) {
	word, err := jsonText(raw)
	if err != nil {
		return 0, err
	}
	i := slices.Index(words, string(word))
	if i < 0 {
		return 0, badRequest("%s is not known (use one of %s)", shown(string(word)), strings.Join(words, ", "))
	}
	return i, nil
}

// isCheck reports whether the input is a check of the rules rather than a take of limits
// that the caller sends.
func (in *input) isCheck() (bool, error) {
	check, take := in.given&memberAttributes != 0, in.given&limitMembers != 0
	switch {
	case check && take:
		return false, badRequest("attributes: cannot stand beside %s: give attributes for the rules to decide, or a key and its limit", strings.Join((in.given&limitMembers).names(), ", "))
	case !check && !take:
		return false, badRequest("attributes: is missing, and so is key: give attributes for the rules to decide, or a key and its limit")
	}
	return check, nil
}

// readTake completes the take with its cost and time.
func (in *input) readTake() (err error) {
	if (in.given&memberLimit == 0) == (in.given&memberLimits == 0) {
		return badRequest("limit: give either limit, or limits with a list of them")
	}
	if in.take.Cost, err = in.readCost(); err != nil || in.at == nil {
		return err
	}
	if in.take.At, err = wholeNumber("at_us", in.at); err == nil && in.take.At == 0 { // 0 would mean now
		err = badRequest("at_us: 0 is not a time")
	}
	return err
}

// readCost returns the cost of a request. The default is 1.
func (in *input) readCost() (int64, error) {
	if in.cost == nil {
		return 1, nil
	}
	return wholeNumber("cost", in.cost)
}

// wholeNumber parses an integer in decimal digits. It refuses fractions instead of
// rounding them: a cost of 0.5 that became 0 would be free.
func wholeNumber(field string, raw []byte) (int64, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, badRequest("%s: %.40s is not a whole number in range", field, raw)
	}
	return n, nil
}

// Bounds of a limitCache: the number of limits, and the length of a limit's text.
const (
	maxCachedLimits = 1024
	maxCachedText   = 512 // bytes
)

// limitCache caches the compiled limits of callers by their JSON text. Compiling costs
// microseconds, and most callers send the same few limits. A caller that keeps sending
// new ones only pays for compiling them.
type limitCache struct {
	*boundedcache.Cache[string, stint.Limit]
}

func newLimitCache() *limitCache {
	return &limitCache{boundedcache.New[string, stint.Limit](maxCachedLimits)}
}

// get returns the limit that the JSON text describes. It is safe for concurrent use.
func (c *limitCache) get(text []byte) (stint.Limit, error) {
	if limit, ok := boundedcache.GetText(c.Cache, text); ok {
		return limit, nil
	}
	spec, err := rule.ParseSpec(text)
	if err != nil {
		return stint.Limit{}, err
	}
	decide.MarkCaller(&spec, false)
	limit, err := spec.Compile()
	if err == nil && len(text) <= maxCachedText {
		c.Put(string(text), limit)
	}
	return limit, err
}
