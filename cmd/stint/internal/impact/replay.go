package impact

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/rule"
)

// Result is the effect of rules on the requests of a sample. The replay starts
// with no allowance used, so the change may deny slightly more than the result
// says.
type Result struct {
	Since    time.Time `json:"since,omitzero"`    // time of the first request
	Seen     uint64    `json:"seen"`              // approximate number of requests since then
	OneIn    uint64    `json:"one_caller_in"`     // one caller in this many is sampled
	Nodes    int       `json:"nodes"`             // number of nodes whose requests were sampled
	Requests int       `json:"requests"`          // sampled requests that were replayed
	Allowed  int       `json:"allowed"`           // replayed requests that were allowed originally
	Denied   int       `json:"denied"`            // of the allowed ones, denied by these rules
	Share    float64   `json:"share"`             // Denied as a share of Allowed
	Rules    []Count   `json:"rules,omitempty"`   // the rules that deny them, the most denials first
	Keys     []Count   `json:"keys,omitempty"`    // the denied keys, shortened, the most denials first
	Callers  int       `json:"callers,omitempty"` // number of denied callers, or of denied keys if these are more

	// Admitted is how many more requests of the same sample these rules allow than those in
	// force, both replayed from unused allowances: the sum over the callers that gain.
	Admitted        int     `json:"admitted"`
	AdmittedShare   float64 `json:"admitted_share"` // Admitted as a share of what the rules in force allow
	AdmittedKeys    []Count `json:"admitted_keys,omitempty"`
	AdmittedCallers int     `json:"admitted_callers,omitempty"`

	// Announced is the number of nodes that announce themselves in the source of the rules. The caller
	// sets it. If it is greater than Nodes, the requests of the other nodes are missing. 0: unknown.
	Announced int `json:"announced,omitempty"`

	// Limit is the greatest Share of a whole set that the server publishes unforced, and
	// AboveLimit reports that it refuses this one.
	Limit      float64 `json:"limit,omitempty"`
	AboveLimit bool    `json:"above_limit,omitempty"`
}

// Count is the number of denials of originally allowed requests, by rule or by
// rule and key; or the number of requests of a key that are allowed in addition, with the rule
// in force that denies them.
type Count struct {
	Rule     string `json:"rule"` // empty: a deny list
	Key      string `json:"key,omitempty"`
	Hash     string `json:"hash,omitempty"` // of the whole key, see [Sample]
	Denied   int    `json:"denied,omitempty"`
	Admitted int    `json:"admitted,omitempty"`
}

// mostShown is the longest list of a result.
const mostShown = 10

// Replay decides the requests of the sample under other rules, and under those in force, if
// they are not nil, to compare. The samples of other nodes, if any, count as part of the sample. The
// only error is that of ctx.
func (s *Sample) Replay(ctx context.Context, inForce, set *rule.Set, others ...*Part) (*Result, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // a nil sample has no result
	}
	all := s.merged(others)
	events := all.events
	r := replay{sample: s, rules: map[string]int{}, keys: map[Count]int{}, gained: map[spent]int64{},
		loads: map[uint64]load{}, losers: map[string]struct{}{}, gainers: map[gainer]struct{}{}, result: &Result{OneIn: all.mask + 1, Seen: all.seen, Nodes: 1 + len(others)}}
	if inForce != nil {
		if err := s.decide(ctx, inForce, events, r.before); err != nil {
			return nil, err
		}
	}
	if err := s.decide(ctx, set, events, r.event); err != nil {
		return nil, err
	}
	return r.finish(events), nil
}

// decide decides events under a set, from unused allowances, and calls each with the outcomes.
func (s *Sample) decide(ctx context.Context, set *rule.Set, events []event, each func(*event, *rule.Outcome, error)) error {
	if s.KeepPathEncoding {
		set = set.WithPathEncoding(rule.PathKeep)
	}
	var now int64
	store := stint.NewMemory(stint.MemoryOptions{KeepAll: true, Clock: func() time.Time { return time.UnixMicro(now) }})
	defer store.Close()
	var o rule.Outcome
	claims := 0
	unbound := context.WithoutCancel(ctx) // the deadline of the replay is not that of the requests
	for i := range events {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		now = events[i].t
		err := set.DecideInto(unbound, store, &events[i], events[i].cost, &o)
		each(&events[i], &o, err)
		if claims += len(o.Hits); claims > mostClaims {
			break
		}
	}
	return nil
}

// replay is the state of one replay.
type replay struct {
	sample  *Sample
	rules   map[string]int
	keys    map[Count]int // denials by rule and key
	gained  map[spent]int64
	loads   map[uint64]load     // by caller
	losers  map[string]struct{} // the denied callers, by event.who
	gainers map[gainer]struct{}
	decided []bool // whether the rules in force allow each event
	result  *Result
}

// spent identifies the allowance of one rule for one key.
type spent struct {
	rule *rule.Rule
	key  string
}

// load compares what two sets allow to one caller.
type load struct {
	more int   // requests that the new set allows, less those that the set in force allows
	who  Count // the rule in force that denies the caller, and its key
}

// gainer is a caller with a request that only the new set allows. The callers of loads are those of
// the sample: the key that the first rule counts. Those of a rule by path are many under one key, and
// who tells them apart.
type gainer struct {
	caller uint64
	who    string
}

// mostClaims bounds the time (about a second) and memory of a replay where a
// thousand rules match each request. Requests beyond the bound are not
// replayed.
const mostClaims = 1_000_000

// before notes what the rules in force decide from unused allowances.
func (r *replay) before(e *event, o *rule.Outcome, err error) {
	allowed := err == nil && o.Allowed()
	r.decided = append(r.decided, allowed)
	if l := r.loads[e.hash]; !allowed && l.who == (Count{}) {
		l.who = denier(e, o)
		r.loads[e.hash] = l
	}
}

func (r *replay) event(e *event, o *rule.Outcome, err error) {
	at := r.result.Requests
	r.result.Requests++
	allowed := err == nil && o.Allowed()
	if at < len(r.decided) && allowed != r.decided[at] {
		l := r.loads[e.hash]
		l.more--
		if allowed {
			l.more += 2
			r.gainers[gainer{e.hash, e.who()}] = struct{}{}
		}
		r.loads[e.hash] = l
	}
	switch {
	case err != nil: // an invalid request under these rules does not count
	case !e.allowed && allowed:
		r.gain(e, o)
	case e.allowed:
		r.result.Allowed++
		if !allowed && !r.exchanged(e, o) {
			r.denied(e, o)
		}
	}
}

// gain records the allowance that an originally denied request uses now.
func (r *replay) gain(e *event, o *rule.Outcome) {
	for i := range o.Hits {
		if h := &o.Hits[i]; !h.Shadow {
			r.gained[spent{h.Rule, h.Key}] += e.cost
		}
	}
}

// exchanged reports whether a request is denied only because an earlier request
// of the same caller, which was originally denied, has used its allowance. The
// caller then loses nothing. A caller that keeps sending at its limit is
// admitted at different moments in every replay.
func (r *replay) exchanged(e *event, o *rule.Outcome) bool {
	if o.Binding < 0 || o.Decision.RetryAfter == stint.Never {
		return false
	}
	binding := &o.Hits[o.Binding]
	place := spent{binding.Rule, binding.Key}
	if r.gained[place] < e.cost {
		return false
	}
	r.gained[place] -= e.cost
	return true
}

// denied counts the denial of an originally allowed request.
func (r *replay) denied(e *event, o *rule.Outcome) {
	r.result.Denied++
	who := denier(e, o)
	r.rules[who.Rule]++
	r.keys[who]++
	if who := e.who(); who != "" {
		r.losers[who] = struct{}{}
	}
}

// denier returns the rule that denies an event, and the key that it counts.
func denier(e *event, o *rule.Outcome) (who Count) {
	if o.Binding >= 0 {
		binding := &o.Hits[o.Binding]
		return Count{Rule: binding.Rule.ID, Key: rule.KeyText(binding.Key)}
	}
	return Count{Key: e.who()}
}

// who returns the API key of a request, or its address.
func (e *event) who() string {
	who, _ := e.Attribute("api_key")
	if who == "" {
		who, _ = e.Attribute("ip")
	}
	return who
}

// finish completes the result.
func (r *replay) finish(events []event) *Result {
	out := r.result
	if len(events) > 0 {
		out.Since = time.UnixMicro(events[0].t).UTC()
	}
	if out.Allowed > 0 {
		out.Share = float64(out.Denied) / float64(out.Allowed)
	}
	for id, n := range r.rules {
		out.Rules = append(out.Rules, Count{Rule: id, Denied: n})
	}
	keys := map[string]bool{}
	for who, n := range r.keys {
		keys[who.Key] = true
		out.Keys = append(out.Keys, r.shown(who, Count{Denied: n}))
	}
	out.Callers = max(len(keys), len(r.losers))
	gainers := map[uint64]int{}
	for g := range r.gainers {
		gainers[g.caller]++
	}
	for caller, l := range r.loads {
		if l.more > 0 {
			out.Admitted += l.more
			out.AdmittedCallers += max(1, gainers[caller])
			out.AdmittedKeys = append(out.AdmittedKeys, r.shown(l.who, Count{Admitted: l.more}))
		}
	}
	if out.Admitted > 0 {
		before := 0
		for _, allowed := range r.decided {
			if allowed {
				before++
			}
		}
		out.AdmittedShare = float64(out.Admitted) / float64(max(before, 1))
	}
	out.Rules, out.Keys, out.AdmittedKeys = most(out.Rules), most(out.Keys), most(out.AdmittedKeys)
	return out
}

// shown returns a count of a key that is shortened and hashed.
func (r *replay) shown(who, n Count) Count {
	n.Rule, n.Key = who.Rule, Shorten(who.Key)
	if r.sample.HashKey != nil {
		n.Hash = r.sample.HashKey(who.Key)
	}
	return n
}

func most(list []Count) []Count {
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(b.Denied-a.Denied, b.Admitted-a.Admitted, cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Hash, b.Hash))
	})
	return list[:min(len(list), mostShown)]
}

// Shorten returns the form of a key for answers and logs: the first third of
// each part, at most eight characters, without the marks that rules add.
func Shorten(key string) string {
	parts := stint.KeyParts(key)
	for i, part := range parts {
		letters := []rune(strings.TrimLeftFunc(strings.ToValidUTF8(part, "?"), unicode.IsControl))
		parts[i] = string(letters[:min(len(letters)/3, 8)]) + "…"
	}
	return strings.Join(parts, "|")
}

// Refused reports whether the change denies more than the given share of the
// originally allowed requests. A sample of fewer than [LeastAllowed] proves nothing.
func (r *Result) Refused(most float64) bool {
	return r != nil && r.Allowed >= LeastAllowed && r.Share > most
}

// LeastAllowed is the number of allowed requests from which on a sample refuses changes.
const LeastAllowed = 100
