package adminapi

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/ruleedit"
	"github.com/stintdev/stint/rule"
)

// forgiven ends the penalties of the callers that an entry names, after the change of the
// lists succeeded or found no entry. A caller that only a penalty kept out has no entry.
func (a *API) forgiven(r *request, entry ruleedit.ListEntry, answer any, err error) (any, error) {
	_, unlisted := errors.AsType[*ruleedit.NotFoundError](err)
	if dry, wrong := r.flag("dry_run"); dry || wrong != nil || err != nil && !unlisted {
		return answer, err
	}
	n, failed := a.forgive(r, entry)
	if failed != nil {
		return nil, failed
	}
	if n == 0 {
		return answer, err
	}
	if unlisted {
		_, now := a.Rules.Current()
		return &outcome{Version: now.Number, Hash: now.Hash, Penalties: n}, nil
	}
	if out, ok := answer.(*outcome); ok {
		out.Penalties = n
	}
	return answer, nil
}

// forgive ends the penalties of a key, by one rule or by every rule that counts it by one
// attribute, and returns their number.
func (a *API) forgive(r *request, entry ruleedit.ListEntry) (n int, err error) {
	set, _ := a.Rules.Current()
	var groups []stint.Group
	for _, one := range set.Rules() {
		by := set.By(one)
		if one.Penalty == nil || len(by) != 1 || entry.Rule != "" && entry.Rule != one.ID {
			continue
		}
		for _, key := range keysOf(set, one, by[0], entry.Match) {
			groups = append(groups, forgiving(one.Penalty, key)...)
		}
	}
	for some := range slices.Chunk(groups, 100*penaltyGroups) {
		out := make([]stint.Decision, len(some))
		if err = a.Store.TakeGroups(r.Context(), some, out); err != nil {
			err = a.ofStore(some[0].Claims[0].Limit, err) // one store has all penalties
			break
		}
		for i := 0; i < len(out); i += penaltyGroups {
			if out[i].ResetAfter > 0 {
				n++
			}
		}
	}
	if n > 0 {
		a.audit.add(a.entry(r, "end penalties of "+short(entry.Match), ""))
	}
	return n, err
}

// penaltyGroups is the number of groups that end one penalty.
const penaltyGroups = 4

// forgiving returns the groups that read a penalty and end it.
func forgiving(p *rule.Penalty, key string) []stint.Group {
	groups := []stint.Group{{Claims: []stint.Claim{{Key: key, Limit: p.Gate}}}}
	for _, l := range p.Limits() {
		groups = append(groups, stint.Group{Claims: []stint.Claim{{Key: key, Limit: l, Cost: stint.Forget}}})
	}
	return groups
}

// keysOf returns the keys under which a rule counts a name: as the rule's own
// attribute, and an address also as the substitute for a missing attribute. A
// name that the rule cannot count, such as a network, has no keys.
func keysOf(set *rule.Set, one *rule.Rule, by, name string) (keys []string) {
	who := []rule.Map{{by: name}}
	if _, err := netip.ParseAddr(name); err == nil && by != "ip" {
		who = append(who, rule.Map{"ip": name})
	}
	for _, attributes := range who {
		if claims, err := set.RuleClaims(one, attributes, 0); err == nil && len(claims) > 0 {
			keys = append(keys, claims[0].Key)
		}
	}
	return keys
}
