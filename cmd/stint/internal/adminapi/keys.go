package adminapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/rule"
)

// keyRequest names the state of one caller: by its key and a limit in the form of
// /v1/take, or by the rules that count its requests.
type keyRequest struct {
	key        string
	limit      stint.Limit
	rule       string
	attributes rule.Map
	units      int64
	why        string
}

// claim addresses the state of one limit for a key.
type claim struct {
	stint.Claim

	rule    string
	by      []string // the attributes by which the rule counts
	gate    bool     // the limit is the gate of a penalty
	penalty bool     // the limit is one of those by which a penalty counts
	list    rule.List
	shadow  bool // the rule is in shadow mode
	any     bool // one limit of the rule is enough
}

// limitBody is the state of one limit for a key.
type limitBody struct {
	Rule         string `json:"rule,omitempty"`
	Name         string `json:"name"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	Before       *int64 `json:"remaining_before,omitempty"` // set by a grant
	Degraded     bool   `json:"degraded,omitempty"`
	Listed       string `json:"listed,omitempty"` // deny or allow: the key is on that list and is not counted
	Shadow       bool   `json:"shadow,omitempty"` // the rule is in shadow mode: it denies nothing
	Any          bool   `json:"any,omitempty"`    // the rule denies only if none of its limits admits
	Words        string `json:"words"`            // the limit in words
}

type keyBody struct {
	Key string `json:"key"` // shortened
	// Hash is a hash of the key, as in lists of denials and in the audit log. Links have it in
	// place of the key.
	Hash      string      `json:"hash,omitempty"`
	Forgotten bool        `json:"forgotten,omitempty"`
	Limits    []limitBody `json:"limits"`
	// Lists are the entries of lists that match the key, in force now. Canary is the state under
	// the rules of a canary, if one is on. Only peek and why fill them.
	Lists  []listed   `json:"lists,omitempty"`
	Canary *keyCanary `json:"canary,omitempty"`
}

// peek answers POST /v1/peek with the remaining allowance of a key and the entries of lists
// that match it. It charges nothing.
func (a *API) peek(r *request) (any, error) {
	k, err := readKey(r, nil)
	if err != nil {
		return nil, err
	}
	lists, err := a.listsOf(r, k)
	if err != nil {
		return nil, err
	}
	body, err := a.states(r, k)
	body.Lists = lists
	if errors.Is(err, errNoRule) && len(lists) > 0 {
		err = nil
	}
	return body, err
}

// listsOf returns the entries of lists that match the key of a request. A key that is an
// address also counts as the address of the caller. The files are read only if a list
// matches.
func (a *API) listsOf(r *request, k *keyRequest) (found []listed, err error) {
	attributes := k.attributes
	if attributes == nil {
		attributes = rule.Map{"api_key": k.key, "ip": k.key}
	}
	set, _ := a.Rules.Current()
	on := set.RuleList(&rule.Rule{}, attributes) != rule.ListNone
	for _, one := range set.Rules() {
		on = on || (k.rule == everyRule || k.rule == one.ID) && set.RuleList(one, attributes) != rule.ListNone
	}
	if !on || k.limit.Valid() {
		return nil, nil
	}
	all, err := a.listEntries(r)
	if err != nil {
		return nil, err
	}
	for _, e := range all.Entries {
		if !e.Ended && (e.Rule == "" || k.rule == everyRule || k.rule == e.Rule) && set.EntryMatches(e.Match, attributes) {
			found = append(found, e)
		}
	}
	return found, nil
}

// reset answers POST /v1/reset. It resets the state of a key.
func (a *API) reset(r *request) (any, error) {
	k, err := readKey(r, nil)
	if err != nil {
		return nil, err
	}
	set, _ := a.Rules.Current()
	body, err := k.changeEach(set, func(c claim) (limitBody, error) { return a.charge(r, c, stint.Forget) })
	a.auditedKey(r, "reset", k, err)
	body.Forgotten, body.Hash = true, a.hashOf(k.name())
	return body, err
}

// grant answers POST /v1/grant. It refunds units to a key, up to its full
// allowance.
func (a *API) grant(r *request) (any, error) {
	k, err := readKey(r, fields{})
	if err == nil && k.units == 0 {
		err = badRequest("units: is missing (give the number of units to refund)")
	}
	if err != nil {
		return nil, err
	}
	set, _ := a.Rules.Current()
	body, err := k.changeEach(set, func(c claim) (limitBody, error) {
		before, err := a.state(r, c)
		if err != nil {
			return before, err
		}
		after, err := a.charge(r, c, -k.units)
		after.Before = &before.Remaining
		return after, err
	})
	a.auditedKey(r, fmt.Sprintf("grant %d", k.units), k, err)
	body.Hash = a.hashOf(k.name())
	return body, err
}

// charge takes a cost from one state and returns the new state.
func (a *API) charge(r *request, c claim, cost int64) (limitBody, error) {
	c.Cost = cost
	if _, err := a.Store.Take(r.Context(), c.Claim); err != nil {
		return limitBody{}, &changeError{err: a.ofStore(c.Limit, err)}
	}
	after, err := a.state(r, c)
	if err != nil {
		return after, &changeError{err: err, made: true}
	}
	return after, nil
}

// grantable refuses algorithms that can refund units only if the time of the
// charge is known.
func grantable(list []claim) error {
	for _, c := range list {
		switch c.Limit.Algorithm() {
		case stint.SlidingWindowLog, stint.LeakyBucket, stint.SlidingWindowCounter:
			return badRequest("%s of rule %q cannot be granted units: its algorithm stores the time of each unit (name another rule, reset the key, or give it a temporary override)", c.Limit.Name(), c.rule)
		}
	}
	return nil
}

// state reads the state of a claim. It charges nothing. The gate of a penalty is
// shown as a caller sees it: open admits one request at a time, shut admits none
// until the penalty ends.
func (a *API) state(r *request, c claim) (limitBody, error) {
	c.Cost, c.At = 0, 0
	d, err := a.Store.Take(r.Context(), c.Claim)
	words := ruleedit.LimitInWords(c.Limit, c.by)
	if c.penalty {
		words = c.Limit.Name() + ": " + words
	}
	if c.gate {
		words = "the penalty, which denies all until it ends"
		d.Limit, d.Remaining = 1, 1
		if d.ResetAfter > 0 {
			d.Remaining = 0
		}
	}
	list := [...]string{rule.ListNone: "", rule.ListAllow: "allow", rule.ListDeny: "deny"}[c.list]
	return limitBody{Rule: c.rule, Name: c.Limit.Name(), Limit: d.Limit, Remaining: d.Remaining,
		ResetAfterMS: (d.ResetAfter.Microseconds() + 999) / 1000, Degraded: d.Degraded, Listed: list, Shadow: c.shadow, Any: c.any, Words: words}, a.ofStore(c.Limit, err)
}

// eachState calls do for every state that the request names. It calls it for none
// if one of them is not grantable.
func (k *keyRequest) eachState(set *rule.Set, do func(claim) (limitBody, error)) (keyBody, error) {
	body := keyBody{Key: short(k.name()), Limits: []limitBody{}}
	claims, err := k.claims(set)
	if err == nil && k.units > 0 {
		err = grantable(claims)
	}
	for _, c := range claims {
		if err != nil {
			return body, err
		}
		var one limitBody
		one, err = do(c)
		body.Limits = append(body.Limits, one)
	}
	return body, err
}

// changeEach is eachState with a change. A store that fails gets no further call, and the states
// in other stores are changed nevertheless. The error is the first one; it says whether a part
// is changed.
func (k *keyRequest) changeEach(set *rule.Set, do func(claim) (limitBody, error)) (keyBody, error) {
	var first error
	made, failed := false, map[string]bool{}
	body, err := k.eachState(set, func(c claim) (one limitBody, err error) {
		store := c.Limit.Store()
		if failed[store] {
			return one, nil
		}
		if one, err = do(c); err == nil {
			made = true
			return one, nil
		}
		failed[store] = true
		if first == nil {
			first = err
		}
		return one, nil
	})
	switch {
	case err != nil || first == nil:
		return body, err
	case made:
		return body, &changeError{err: first, made: true}
	}
	return body, first
}

// readKey reads the key of a request. With extra, the request may name units.
func readKey(r *request, extra fields) (*keyRequest, error) {
	k := &keyRequest{}
	known := fields{
		"key": textField(&k.key), "rule": textField(&k.rule),
		"limit": func(raw json.RawMessage) error {
			spec, err := rule.ParseSpec(raw)
			if err == nil {
				spec.FromCaller = true // /v1/take sets it too
				k.limit, err = spec.Compile()
			}
			return err
		},
		"attributes": func(raw json.RawMessage) (err error) {
			k.attributes, err = readAttributes(raw)
			return err
		},
	}
	if extra != nil {
		known["units"] = wholeField(&k.units, 1, stint.MaxCost)
	}
	err := r.decode(known)
	if err == nil {
		k.why, err = r.comment()
	}
	if err == nil {
		err = k.check()
	}
	return k, err
}

func readAttributes(raw json.RawMessage) (rule.Map, error) {
	var given map[string]string
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return nil, errors.New("must be an object of strings")
	}
	all := rule.Map{}
	for name, value := range given {
		all[rule.AttributeName(name)] = value
	}
	return all, nil
}

func (k *keyRequest) check() error {
	switch {
	case k.attributes == nil && k.key == "":
		return stint.ValidateKey(k.key)
	case !k.limit.Valid() && k.rule == "":
		return badRequest(`limit: is missing (or give "rule", or "rule":"*" for every rule that counts this key)`)
	case k.limit.Valid() && (k.rule != "" || k.attributes != nil):
		return badRequest("limit: excludes rule and attributes, because it names a key of /v1/take (give either limit or rule)")
	case k.attributes != nil && k.key != "":
		return badRequest("attributes: exclude key, because both name the caller (give one of them)")
	case k.attributes == nil:
		return stint.ValidateKey(k.key)
	}
	return nil
}

// name returns the key, or a text for the attributes. A single attribute is a key of its own,
// as in the denials of rules that count by it.
func (k *keyRequest) name() string {
	apiKey, ip := k.attributes["api_key"], k.attributes["ip"]
	if apiKey != "" && ip != "" {
		return stint.JoinKey(apiKey, ip)
	}
	return cmp.Or(k.key, apiKey, ip)
}

// everyRule stands for every rule that counts a caller.
const everyRule = "*"

// mostStates is the largest number of states that one request may name.
const mostStates = 1000

// claims returns the states that the request names: of its own limit, of one
// rule, or of every rule that counts the caller.
func (k *keyRequest) claims(set *rule.Set) (list []claim, err error) {
	if k.limit.Valid() {
		return []claim{{Claim: stint.Claim{Key: k.key, Limit: k.limit}}}, nil
	}
	if k.rule != everyRule {
		one := set.Rule(k.rule)
		if one == nil {
			return nil, notFound("rule %.80q is not in the rules", k.rule)
		}
		return k.ofRule(set, one)
	}
	for _, one := range set.Rules() {
		if one.Mode == rule.Off || !k.identifies(set.By(one)) {
			continue
		}
		found, err := k.ofRule(set, one)
		if err != nil {
			return nil, err
		}
		if list = append(list, found...); len(list) > mostStates {
			return nil, badRequest("rule: more than %d limits count this key (name one rule)", mostStates)
		}
	}
	if len(list) == 0 {
		return nil, k.noRule(set)
	}
	return list, nil
}

// identifies reports whether the request names every attribute of an identity. A key
// alone is an API key, and one that is an address is the address of a caller, too.
func (k *keyRequest) identifies(by []string) bool {
	if k.attributes == nil {
		return len(by) == 1 && (by[0] == "api_key" || by[0] == "ip" && k.isAddress())
	}
	return !slices.ContainsFunc(by, func(name string) bool { return k.attributes[name] == "" })
}

func (k *keyRequest) ofRule(set *rule.Set, one *rule.Rule) (list []claim, err error) {
	attributes := k.attributes
	if by := set.By(one); attributes == nil && len(by) == 1 {
		attributes = rule.Map{by[0]: k.key}
	} else if attributes == nil {
		return nil, badRequest(`key: rule %s counts by %s (give "attributes" with each of them)`, one.ID, strings.Join(by, ", "))
	}
	claims, err := set.RuleClaims(one, attributes, 0)
	on := set.RuleList(one, attributes)
	for _, c := range claims {
		if k.units > 0 && one.Penalty.Has(c.Limit) {
			continue // a refund does not end a penalty
		}
		penalty := one.Penalty.Has(c.Limit)
		list = append(list, claim{Claim: c, rule: one.ID, by: set.By(one), gate: one.Penalty != nil && c.Limit == one.Penalty.Gate, penalty: penalty, list: on, shadow: one.Mode == rule.Shadow, any: one.Any() && !penalty})
	}
	return list, err
}

// auditedKey records a change of the state of a key.
func (a *API) auditedKey(r *request, what string, k *keyRequest, err error) {
	r.key = k.name()
	what += " for " + short(r.key)
	if k.rule != "" {
		of := k.rule
		if err != nil {
			of = short(of) // it may be a key in place of a rule
		}
		what += " of rule " + of
	}
	e := a.entry(r, what, k.why)
	if err != nil {
		e.Result = asError(err).Code
	}
	a.audit.add(e)
}
