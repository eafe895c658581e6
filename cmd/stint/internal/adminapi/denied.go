package adminapi

import (
	"errors"
	"slices"
	"time"

	"github.com/stintdev/stint/cmd/stint/internal/denials"
	"github.com/stintdev/stint/cmd/stint/internal/emergency"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/rule"
)

const (
	defaultDenied = 100
	defaultWhy    = 20
)

var errNoDenials = notFound("this server keeps no denials (ask a server that runs stint serve)")

// denied answers GET /v1/denied?rule=orders&hash=…&since=…&after=…&limit=100 with the last
// denials of this node, the newest first.
func (a *API) denied(r *request) (any, error) {
	if a.Denials == nil {
		return nil, errNoDenials
	}
	q, err := a.deniedQuery(r)
	if err != nil {
		return nil, err
	}
	page, err := a.readDenials(r, q)
	if err == nil && len(page.Items) == 0 && q.After == "" && q.Rule != nil && !a.hasDenials(*q.Rule) {
		err = notFound("rule: there is no rule %.40q, and no denial by it (GET /rules shows the rules; leave it out for all)", *q.Rule)
	}
	return page, err
}

// hasDenials reports whether a denial may have this rule. Denials by rules that are no longer in
// force, or only in a canary, are shown too, but their rules are not in the set.
func (a *API) hasDenials(id string) bool {
	return id == denials.Envoy || id == emergency.Rule || a.hasRule(id)
}

func (a *API) deniedQuery(r *request) (q denials.Query, err error) {
	query := r.URL.Query()
	q.Hash, q.After = query.Get("hash"), query.Get("after")
	if id := query.Get("rule"); query.Has("rule") {
		q.Rule = &id
	}
	if text := query.Get("since"); text != "" {
		if q.Since, err = timeOf("since", text, a.now()); err != nil {
			return q, err
		}
	}
	if query.Has("id") {
		if !r.who.role.allows(Admin) {
			return q, badRequest("id: is for the role admin (give hash, which the answer shows)")
		}
		if q.ID, err = r.number("id", 0, 1, ^uint64(0)); err != nil {
			return q, err
		}
	}
	limit, err := r.number("limit", defaultDenied, 1, denials.MaxLimit)
	q.Limit = int(limit)
	return q, err
}

// timeOf reads a time, or a duration before now, from a query parameter.
func timeOf(name, text string, now time.Time) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, badRequest("%s: %.40q is neither a time nor a duration (write 2026-11-30T12:00:00Z, or 10m for ten minutes ago)", name, text)
	}
	return at, nil
}

// readDenials returns denials as the role of the sender may see them. The id of a key could be
// tried out for guessed keys.
func (a *API) readDenials(r *request, q denials.Query) (denials.Page, error) {
	page, err := a.Denials.Read(q)
	if err != nil {
		return page, badRequest("%s", err.Error())
	}
	if !r.who.role.allows(Admin) {
		for i := range page.Items {
			page.Items[i].ID = 0
		}
	}
	return page, nil
}

// whyBody is why a key was denied, and what it has now.
type whyBody struct {
	keyBody

	Denials []denials.Denial `json:"denials"`
	LeftOut int              `json:"left_out,omitempty"`
	// Hint says why there are no limits.
	Hint string `json:"hint,omitempty"`
}

// why answers POST /v1/why with the last denials of a key by this node, with the numbers at
// that time, and with the answer of /v1/peek. It charges nothing.
func (a *API) why(r *request) (any, error) {
	if a.Denials == nil {
		return nil, errNoDenials
	}
	k, err := readKey(r, nil)
	if err != nil {
		return nil, err
	}
	limit, err := r.number("limit", defaultWhy, 1, denials.MaxLimit)
	if err != nil {
		return nil, err
	}
	set, on := a.Rules.Current()
	sets := []*rule.Set{set}
	if on.Canary != nil {
		if tried, _, err := on.Trial(); err == nil {
			sets = append(sets, tried)
		}
	}
	q := denials.Query{Keys: hashesOf(k, sets), Part: k.key, Limit: int(limit)}
	switch {
	case k.limit.Valid():
		takes := denials.Takes
		q.Rule = &takes
	case k.rule != everyRule:
		q.Rule = &k.rule
	}
	page, err := a.readDenials(r, q)
	if err != nil {
		return nil, err
	}
	lists, err := a.listsOf(r, k)
	if err != nil {
		return nil, err
	}
	body := whyBody{Denials: page.Items, LeftOut: page.LeftOut}
	body.keyBody, err = a.states(r, k)
	if body.Lists = lists; errors.Is(err, errNoRule) { // limits that callers bring, or Envoy's, may count the key
		body.Hint, err = asError(err).Message, nil
	}
	return body, err
}

// hashesOf returns the hashes of the keys by which rules count a request: those of the
// attributes or, for a key alone, those that each rule by one attribute would have for it. An
// address may stand for a missing attribute, too. During a canary both sets count requests.
func hashesOf(k *keyRequest, sets []*rule.Set) []uint64 {
	keys := map[string]bool{}
	if k.key != "" {
		keys[k.key] = true
	}
	for _, set := range sets {
		for _, one := range set.Rules() {
			if k.limit.Valid() || k.rule != everyRule && k.rule != one.ID {
				continue
			}
			for _, attributes := range k.readings(set.By(one)) {
				if key := keyOf(set, one, attributes); k.attributes != nil || key != keyOf(set, one, rule.Map{}) { // not one for all callers
					keys[key] = true
				}
			}
		}
	}
	for _, name := range []string{"api_key", "ip"} {
		if value := k.attributes[name]; value != "" { // of a deny list
			keys[value] = true
		}
	}
	hashes := make([]uint64, 0, len(keys))
	for key := range keys {
		hashes = append(hashes, topkeys.Hash(key))
	}
	slices.Sort(hashes)
	return hashes
}

// keyOf returns the key by which a rule counts a request, or "" if it does not count it.
func keyOf(set *rule.Set, one *rule.Rule, attributes rule.Map) string {
	claims, err := set.RuleClaims(one, attributes, 0)
	if err != nil || len(claims) == 0 {
		return ""
	}
	return claims[0].Key
}

// readings returns the requests that a key may stand for in a rule that counts by the given
// attributes.
func (k *keyRequest) readings(by []string) (all []rule.Map) {
	if k.attributes != nil {
		return []rule.Map{k.attributes}
	}
	if len(by) == 1 {
		all = append(all, rule.Map{by[0]: k.key})
	}
	if k.isAddress() {
		all = append(all, rule.Map{"ip": k.key})
	}
	return all
}
