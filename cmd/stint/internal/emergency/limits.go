package emergency

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/suggest"
	"github.com/stintdev/stint/rule"
)

// Rule is the id of the rule that an emergency adds to the rules in force. No rule file may
// have a rule of this id.
const Rule = "emergency"

// HeaderName is the header field of denials that the emergency has caused.
const HeaderName = "X-Stint-Emergency"

// CheckSet returns an error for rules that use the id of the emergency.
func CheckSet(set *rule.Set) rule.Problems {
	return set.CheckIDs(func(id string) error {
		if id != Rule {
			return nil
		}
		return errors.New("the id " + Rule + " is reserved for stint emergency (give the rule another id)")
	})
}

// InForce is an emergency with its limits compiled. It is immutable.
//
// Requests with attributes are counted by the attribute of the record, under a rule of the
// rule set. A take of the check API has only a key, which stands in for the attribute. The
// keys of takes count under limits of their own: otherwise a caller that takes under the
// key "203.0.113.7" could exhaust what the client of that address has left. Limits that
// callers brought are FromCaller, so their counts have the callers' budget of keys.
type InForce struct {
	State

	// Set is the rules in force with the rule of the emergency.
	Set *rule.Set
	// Header is the header fields of denials that the emergency has caused.
	Header http.Header

	file           rule.File // the rule of the emergency
	rule           *rule.Rule
	trusted, taken stint.Limit
}

// policy is the policy of the claims. They are leased, so that a group whose other claims
// are leased is decided without a round trip; a group with a strict claim is strict. While
// the store fails, this node's share decides.
var policy = stint.Policy{Consistency: stint.Leased, OnFailure: stint.FailLocal}

// Apply returns the emergency on top of the rules in the given files.
func Apply(s State, files []rule.File) (*InForce, error) {
	limit, err := ParseLimit(s.Limit)
	if err != nil {
		return nil, err
	}
	f := &InForce{State: s, file: s.file(limit), Header: http.Header{HeaderName: {"until=" + s.Until.UTC().Format(time.RFC3339)}}}
	set, err := f.Parse(files)
	if err != nil {
		return nil, err
	}
	f.Set, f.rule = set, set.Rule(Rule)
	spec := f.rule.Effective(set)[0].Limits[0].Spec()
	spec.Name = "key"
	if f.trusted, err = spec.Compile(); err != nil {
		return nil, err
	}
	spec.FromCaller = true
	f.taken, err = spec.Compile()
	return f, err
}

// Parse returns the rules in the given files with the rule of the emergency.
func (f *InForce) Parse(files []rule.File) (*rule.Set, error) {
	set, err := rule.Parse(append(slices.Clone(files), f.file)...)
	if err != nil {
		return nil, fmt.Errorf("emergency: %w", err)
	}
	return set, nil
}

// file returns the rule of the emergency as a rule file. It has every field that a rule
// without it would take from the defaults of the set.
func (s *State) file(limit stint.Limit) rule.File {
	spec := limit.Spec()
	text, _ := json.Marshal(map[string]any{"rules": []any{map[string]any{ //nolint:errchkjson // texts and numbers
		"id": Rule, "by": []string{s.By}, "missing": "shared", "headers": "standard", "retry_jitter": 0.2,
		"consistency": policy.Consistency.String(), "on_store_failure": policy.OnFailure.String(),
		"limits": []any{map[string]any{"algorithm": "token_bucket", "limit": spec.Limit, "window": spec.Window.String(), "capacity": spec.Limit}},
	}}})
	return rule.File{Name: Rule, Data: text}
}

// Join returns the claim that joins a group of claims which bring their limits. ok is false
// if none does: the group refunds or forgets, or the claims come from another Stint that has
// added its own emergency. (Only trusted callers can name a rule.)
func (f *InForce) Join(claims []stint.Claim) (c stint.Claim, ok bool) {
	for i := range claims {
		if claims[i].Limit.Rule() == Rule {
			return stint.Claim{}, false
		}
		if claims[i].Cost >= 0 && !ok {
			c, ok = f.ByKey(claims[i].Key, claims[i].Cost, claims[i].Limit.FromCaller()), true
		}
	}
	return c, ok
}

// ByKey returns the claim of a request of which only a key is known.
func (f *InForce) ByKey(key string, cost int64, fromCaller bool) stint.Claim {
	c := stint.Claim{Key: key, Limit: f.trusted, Cost: cost, Policy: policy}
	if fromCaller {
		c.Limit = f.taken
	}
	return c
}

// ByAttributes returns the claim of a request with the given attributes.
func (f *InForce) ByAttributes(a rule.Attributes, cost int64) (stint.Claim, error) {
	claims, err := f.Set.RuleClaims(f.rule, a, cost)
	if err != nil {
		return stint.Claim{}, err
	}
	return claims[0], nil
}

// CheckBy returns an error for an attribute that no request has. An emergency by a
// misspelled attribute would count all requests together. usable says which attributes
// requests have; known are names to suggest.
func CheckBy(by string, known []string, usable func(name string) error) error {
	if by == "" {
		return errors.New("by: is missing (give an attribute, such as ip)")
	}
	if len(by) > maxName {
		return fmt.Errorf("by: is longer than %d bytes", maxName)
	}
	name := rule.AttributeName(by)
	if slices.Contains(known, name) {
		return nil
	}
	err := usable(name)
	if err == nil {
		return nil
	}
	if near, ok := suggest.Name(by, known); ok {
		return fmt.Errorf("by: %.60q is not an attribute that requests have (did you mean %s?)", by, near)
	}
	return fmt.Errorf("by: %.60q is not an attribute that requests have: %w", by, err)
}
