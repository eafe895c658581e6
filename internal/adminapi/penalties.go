package adminapi

import (
	"errors"
	"net/netip"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// openOrShut shows the gate of a penalty as what it is to a caller: one request
// at a time while it is open, none until the penalty is over.
func openOrShut(d stint.Decision) stint.Decision {
	d.Limit, d.Remaining = 1, 1
	if d.ResetAfter > 0 {
		d.Remaining = 0
	}
	return d
}

// forgiven ends the penalties of whom an entry names, once the change of the
// lists is made or there was none to make. What only punishments kept out has
// no entry.
func (a *API) forgiven(r *request, entry rule.ListEntry, answer any, err error) (any, error) {
	_, unlisted := errors.AsType[*rule.NotFoundError](err)
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

// forgive ends the penalties of a key, by every rule that counts it by one
// attribute, or by one rule.
func (a *API) forgive(r *request, entry rule.ListEntry) (n int, err error) {
	set, _ := a.Rules.Current()
	for _, one := range set.Rules() {
		by := set.By(one)
		if one.Penalty == nil || len(by) != 1 || entry.Rule != "" && entry.Rule != one.ID {
			continue
		}
		for _, key := range keysOf(set, one, by[0], entry.Match) {
			punished, err := a.forgiveOne(r, one, key)
			if err != nil {
				return n, err
			}
			n += punished
		}
	}
	if n > 0 {
		e := a.entry(r, "end penalties of "+short(entry.Match), "")
		a.audit.add(e)
	}
	return n, nil
}

// keysOf is under what a rule counts whom a name stands for: an address also
// where a request without the rule's own attribute counts as one. A name that
// the rule could not count, such as a network, has none.
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

// forgiveOne ends the penalty that one rule has for a key, and returns how many
// there were.
func (a *API) forgiveOne(r *request, one *rule.Rule, key string) (n int, err error) {
	d, err := a.Store.Take(r.Context(), stint.Claim{Key: key, Limit: one.Penalty.Gate})
	if err == nil && d.ResetAfter > 0 {
		n = 1
	}
	for _, l := range one.Penalty.Limits() {
		if err == nil {
			_, err = a.Store.Take(r.Context(), stint.Claim{Key: key, Limit: l, Cost: stint.Forget})
		}
	}
	return n, err
}
