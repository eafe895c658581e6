package adminapi

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/stintdev/stint/cmd/stint/internal/ruleset"
	"github.com/stintdev/stint/rule"
)

// During a canary two sets of rules are in force, and each caller has one of them. An operator who
// asks about a key wants to know what decides its requests now, and what would after the end of the
// canary. So the answer has the limits of both sets, and says which of them decides.

// keyCanary is the state of a key under the rules of a canary.
type keyCanary struct {
	Version uint64 `json:"version"`
	// By is the attribute whose values the canary splits: api_key, or an address in place of a
	// missing one; or ip.
	By string `json:"by"`
	// Decides says that the canary has the caller: its rules decide, and the others do not. It is nil
	// if the request does not name the caller by By.
	Decides *bool `json:"decides,omitempty"`
	// Keyless says that Decides is about the requests of an address that have no API key.
	Keyless bool        `json:"keyless,omitempty"`
	Limits  []limitBody `json:"limits"`
}

// states returns what a key has left under the rules in force, and during a canary also under its
// rules. A rule may be in one of both sets only. It charges nothing.
func (a *API) states(r *request, k *keyRequest) (keyBody, error) {
	set, on := a.Rules.Current()
	read := func(c claim) (limitBody, error) { return a.state(r, c) }
	body, err := k.eachState(set, read)
	body.Hash = a.hashOf(k.name())
	if on.Canary == nil || k.limit.Valid() {
		return body, err
	}
	tried, _, invalid := on.Trial()
	if invalid != nil {
		return body, err
	}
	other, otherErr := k.eachState(tried, read)
	body.Canary = &keyCanary{Version: on.Number, By: on.Canary.By, Limits: other.Limits}
	body.Canary.find(k, set, tried, on.Canary)
	switch {
	case k.uncounted(set, err):
		err = otherErr
	case err == nil && !k.uncounted(tried, otherErr):
		err = otherErr
	}
	return body, err
}

// uncounted reports whether the error of eachState is that the set has no rule for the key.
func (k *keyRequest) uncounted(set *rule.Set, err error) bool {
	return errors.Is(err, errNoRule) || k.rule != everyRule && set.Rule(k.rule) == nil
}

// find finds out which rules decide the requests of the caller.
func (c *keyCanary) find(k *keyRequest, set, tried *rule.Set, split *ruleset.Canary) {
	caller := k.caller(set, tried)
	if text := set.Caller(caller, c.By); text != "" {
		has := split.Has(text)
		c.Decides, c.Keyless = &has, c.By != "ip" && caller["api_key"] == ""
	}
}

// caller returns what is known of the caller. A key alone is the value of the attribute by which
// its rule counts or, for every rule, an API key or an address.
func (k *keyRequest) caller(set, tried *rule.Set) rule.Map {
	if k.attributes != nil {
		return k.attributes
	}
	for _, in := range []*rule.Set{set, tried} {
		if one := in.Rule(k.rule); k.rule != everyRule && one != nil && len(in.By(one)) == 1 {
			return rule.Map{in.By(one)[0]: k.key}
		}
	}
	if k.isAddress() {
		return rule.Map{"ip": k.key}
	}
	return rule.Map{"api_key": k.key}
}

func (k *keyRequest) isAddress() bool {
	_, err := netip.ParseAddr(k.key)
	return err == nil
}

// errNoRule is joined with the error of a key that no rule counts.
var errNoRule = errors.New("no rule counts the key")

// noRule returns the error of a key that no rule of the set counts. It names the attributes that
// rules count by.
func (k *keyRequest) noRule(set *rule.Set) error {
	const most = 5
	var all []string
	known := map[string]bool{}
	for _, one := range set.Rules() {
		by := strings.Join(set.By(one), " and ")
		if one.Mode == rule.Off || known[by] {
			continue
		}
		if known[by] = true; len(all) == most {
			all = append(all, "other attributes")
			break
		}
		all = append(all, by)
	}
	subject := "an API key alone"
	switch {
	case len(all) == 0:
		return errors.Join(badRequest("rule: no rule is in force, so no key is counted"), errNoRule)
	case k.attributes != nil:
		subject = "these attributes alone"
	case k.isAddress():
		subject = "an API key or an address alone"
	}
	return errors.Join(badRequest("rule: no rule counts by %s: rules count by %s (give the attributes of one of them)", subject, strings.Join(all, ", by ")), errNoRule)
}
