package rule

import (
	"fmt"
	"math"
	"strings"

	"github.com/stintdev/stint"
)

// claims holds the claims and results of one decision. Its slices are reused.
type claims struct {
	enforced  []stint.Claim
	shadow    []stint.Claim
	hits      []Hit           // hits of the enforced claims
	shadows   []Hit           // hits of the shadow claims, and of shadow rules that deny without the store
	lists     [][]stint.Claim // the claims of each shadow rule
	group     [1]stint.Group  // the enforced claims, observed by lists
	decisions []stint.Decision
	any       uint8 // number of sets of alternatives so far
	denied    bool  // an enforced rule denies without the store
}

// reset empties the slices and keeps their capacity.
func (c *claims) reset() {
	clear(c.enforced)
	clear(c.shadow)
	clear(c.hits)
	clear(c.shadows)
	clear(c.lists)
	*c = claims{
		enforced: c.enforced[:0], shadow: c.shadow[:0], hits: c.hits[:0], shadows: c.shadows[:0],
		lists: c.lists[:0], decisions: c.decisions[:0],
	}
}

// claim adds the claims of the rule.
func (q *request) claim(r *Rule) {
	key, v := q.key(&r.identity)
	limits := q.limitsOf(r, key)
	if len(limits) == 0 || q.listed(&r.lists.allow) {
		return
	}
	if v == counted && r.denyAll {
		v = denied
	}
	switch v {
	case denied:
		q.deny(r, limits, key)
	case counted:
		if cost, ok := q.costOf(r); ok {
			q.count(r, limits, key, cost)
		}
	}
}

// deny adds one hit for a rule that denies without the store, under its first
// limit.
func (q *request) deny(r *Rule, limits []stint.Limit, key string) {
	never := stint.Decision{Limit: limits[0].Max(), RetryAfter: stint.Never, At: q.time()}
	if r.denyAll {
		never.Limit = 0
	}
	h := Hit{Rule: r, Limit: limits[0], Key: key, Shadow: r.Mode == Shadow, Decision: never}
	if h.Shadow {
		q.shadows = append(q.shadows, h)
		return
	}
	if !q.denied {
		q.denied, q.hits = true, q.hits[:0]
	}
	q.hits = append(q.hits, h)
}

// count adds a claim for each limit.
func (q *request) count(r *Rule, limits []stint.Limit, key string, cost int64) {
	shadow := r.Mode == Shadow
	claims, hits := &q.enforced, &q.hits
	if shadow {
		claims, hits = &q.shadow, &q.shadows
	} else if q.denied {
		return
	}
	set, ok := q.alternatives(r)
	local, v := q.standIn(r, key)
	if !ok || v != counted {
		return
	}
	for _, l := range limits {
		*claims = append(*claims, stint.Claim{Key: key, Limit: l, Cost: cost, Local: local, AnyOf: set, Policy: r.Policy})
		*hits = append(*hits, Hit{Rule: r, Limit: l, Key: key, Shadow: shadow})
	}
}

// alternatives returns the number of the rule's set of alternatives: limits of
// which one that admits is enough. 0 means that all limits must admit. The limits of
// a shadow rule are a shadow of their own, so their set is always 1.
func (q *request) alternatives(r *Rule) (set uint8, ok bool) {
	switch {
	case !r.any:
		return 0, true
	case r.Mode == Shadow:
		return 1, true
	case q.any == math.MaxUint8:
		q.fail(&stint.Error{Code: stint.CodeExhausted, Problem: "over 255 rules with combine: any match one request", Mend: "match more narrowly"})
		return 0, false
	}
	q.any++
	return q.any, true
}

// cost is the configured cost of a request: a fixed number, an attribute of the
// request, or the caller's value.
type cost struct {
	kind   costKind
	number int64
	slot   slot
}

type costKind uint8

const (
	costOfCaller costKind = iota
	costNumber
	costAttribute
)

// costOf returns the cost of the request under a rule. A peek costs 0 under
// every rule. An absent attribute is a cost of 1.
func (q *request) costOf(r *Rule) (n int64, ok bool) {
	switch {
	case q.cost == 0 || r.cost.kind == costOfCaller:
		return q.cost, true
	case r.cost.kind == costNumber:
		return r.cost.number, true
	}
	text, present := q.get(r.cost.slot)
	if !present {
		return 1, true
	}
	n, err := whole(q.set.slots.names[r.cost.slot], text, 0, stint.MaxCost)
	if err != nil {
		q.fail(&stint.Error{Code: stint.CodeInvalid, Problem: err.Error()})
		return 0, false
	}
	return n, true
}

func (c *compiler) compileLocal(d *rawRule, r *Rule) {
	if d.local == nil {
		return
	}
	r.local = r.identity
	if len(d.local.by) > 0 {
		r.local = identity{by: c.identityBy(d.local.by)}
	}
	for i := range d.local.by {
		r.LocalBy = append(r.LocalBy, c.set.slots.names[r.local.by[i]])
	}
	if d.local.level == nil {
		c.mistake(d.local.at, "local names no limit", "give it limit and window, or write on_store_failure: local")
		return
	}
	plan := plannedLimit{at: d.local.at, name: located{"local", d.local.at}, near: []*level{d.local.level}, must: true}
	if l, ok := c.compileLimit(&plan, d.id.text); ok {
		r.Local = l
		c.checkCost(d, []stint.Limit{l})
	}
}

// standIn returns the local limit that replaces the rule's limits while the
// store fails, or nil when the rule has none. All claims of a rule share one
// *stint.Local, by which stores know to count it once.
func (q *request) standIn(r *Rule, key string) (*stint.Local, keyStatus) {
	if !r.Local.Valid() {
		return nil, counted
	}
	if len(r.LocalBy) > 0 {
		var v keyStatus
		if key, v = q.key(&r.local); v != counted {
			return nil, v
		}
	}
	return &stint.Local{Key: key, Limit: r.Local}, counted
}

// By returns the names of the attributes in the identity of a rule of this set.
func (s *Set) By(r *Rule) []string {
	s = s.orZero()
	names := make([]string, len(r.identity.by))
	for i, slot := range r.identity.by {
		names[i] = s.slots.names[slot]
	}
	return names
}

// Rule returns the rule with the id, or nil when the set has none.
func (s *Set) Rule(id string) *Rule {
	for _, r := range s.Rules() {
		if r.ID == id {
			return r
		}
	}
	return nil
}

// RuleClaims returns the claims that a rule makes for a request, whether or not
// the rule matches the request: one claim of the given cost for each limit that
// applies to this caller and for each limit of the rule's penalty. Use it to
// inspect or correct the stored state of one caller. The error, a
// [*stint.Error], names the missing attribute.
func (s *Set) RuleClaims(r *Rule, a Attributes, cost int64) ([]stint.Claim, error) {
	q := s.borrow(a, cost)
	defer s.release(q)
	key, v := q.key(&r.identity)
	if q.err != nil {
		return nil, q.err
	}
	if v != counted {
		return nil, &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("rule %s does not count such a request", r.ID),
			Mend: "give its " + strings.Join(s.By(r), ", ")}
	}
	var claims []stint.Claim
	for _, l := range q.limitsOf(r, key) {
		claims = append(claims, stint.Claim{Key: key, Limit: l, Cost: cost, Policy: r.Policy})
	}
	if r.Penalty != nil && len(claims) > 0 {
		for _, l := range r.Penalty.Limits() {
			claims = append(claims, stint.Claim{Key: key, Limit: l, Cost: cost})
		}
	}
	return claims, nil
}

// RuleList returns the list that applies to a request when the rule matches it:
// a list of the whole set or of the rule. The deny list wins over the allow
// list.
func (s *Set) RuleList(r *Rule, a Attributes) List {
	q := s.borrow(a, 0)
	defer s.release(q)
	if q.listed(&q.set.lists.deny) || q.deniedByRule(r) {
		return ListDeny
	}
	return listIf(q.listed(&q.set.lists.allow) || q.listed(&r.lists.allow))
}

// EntryMatches reports whether an entry of an allow or deny list (a key, a pattern of keys,
// an address or a network) matches a request of the set. It is for tools that explain a
// list; decisions look all entries up at once.
func (s *Set) EntryMatches(entry string, a Attributes) bool {
	q := s.borrow(a, 0)
	defer s.release(q)
	var one selector
	one.add(entry, 0)
	return q.listed(&one)
}
