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
	Requests int       `json:"requests"`          // sampled requests that were replayed
	Allowed  int       `json:"allowed"`           // replayed requests that were allowed originally
	Denied   int       `json:"denied"`            // of the allowed ones, denied by these rules
	Share    float64   `json:"share"`             // Denied as a share of Allowed
	Rules    []Count   `json:"rules,omitempty"`   // the rules that deny them, the most denials first
	Keys     []Count   `json:"keys,omitempty"`    // the denied keys, shortened, the most denials first
	Callers  int       `json:"callers,omitempty"` // number of denied callers
}

// Count is the number of denials of originally allowed requests, by rule or by
// rule and key.
type Count struct {
	Rule   string `json:"rule"` // empty: a deny list
	Key    string `json:"key,omitempty"`
	Denied int    `json:"denied"`
}

// mostShown is the longest list of a result.
const mostShown = 10

// Replay decides the requests of the sample under other rules. The only error
// is that of ctx.
func (s *Sample) Replay(ctx context.Context, set *rule.Set) (*Result, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // a nil sample has no result
	}
	if s.KeepPathEncoding {
		set = set.WithPathEncoding(rule.PathKeep)
	}
	events, mask, seen := s.recent()
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.t, b.t) })
	r := replay{set: set, rules: map[string]int{}, keys: map[Count]int{}, gained: map[spent]int64{}, result: &Result{OneIn: mask + 1, Seen: seen}}
	store := stint.NewMemory(stint.MemoryOptions{KeepAll: true, Clock: func() time.Time { return time.UnixMicro(r.now) }})
	defer store.Close()
	for i := range events {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.event(ctx, store, &events[i])
		if r.result.Requests++; r.claims > mostClaims {
			break
		}
	}
	return r.finish(events), nil
}

// replay is the state of one replay.
type replay struct {
	set     *rule.Set
	now     int64
	outcome rule.Outcome
	rules   map[string]int
	keys    map[Count]int // denials by rule and key
	gained  map[spent]int64
	claims  int // number of claims so far
	result  *Result
}

// spent identifies the allowance of one rule for one key.
type spent struct {
	rule *rule.Rule
	key  string
}

// mostClaims bounds the time (about a second) and memory of a replay where a
// thousand rules match each request. Requests beyond the bound are not
// replayed.
const mostClaims = 1_000_000

func (r *replay) event(ctx context.Context, store stint.Store, e *event) {
	r.now = e.t
	err := r.set.DecideInto(ctx, store, e, e.cost, &r.outcome)
	r.claims += len(r.outcome.Hits)
	switch allowed := r.outcome.Allowed(); {
	case err != nil: // an invalid request under these rules does not count
	case !e.allowed && allowed:
		r.gain(e)
	case e.allowed:
		r.result.Allowed++
		if !allowed && !r.exchanged(e) {
			r.denied(e)
		}
	}
}

// gain records the allowance that an originally denied request uses now.
func (r *replay) gain(e *event) {
	for i := range r.outcome.Hits {
		if h := &r.outcome.Hits[i]; !h.Shadow {
			r.gained[spent{h.Rule, h.Key}] += e.cost
		}
	}
}

// exchanged reports whether a request is denied only because an earlier request
// of the same caller, which was originally denied, has used its allowance. The
// caller then loses nothing. A caller that keeps sending at its limit is
// admitted at different moments in every replay.
func (r *replay) exchanged(e *event) bool {
	if r.outcome.Binding < 0 || r.outcome.Decision.RetryAfter == stint.Never {
		return false
	}
	binding := &r.outcome.Hits[r.outcome.Binding]
	place := spent{binding.Rule, binding.Key}
	if r.gained[place] < e.cost {
		return false
	}
	r.gained[place] -= e.cost
	return true
}

// denied counts the denial of an originally allowed request.
func (r *replay) denied(e *event) {
	r.result.Denied++
	who := Count{}
	if r.outcome.Binding >= 0 {
		binding := &r.outcome.Hits[r.outcome.Binding]
		who.Rule, who.Key = binding.Rule.ID, rule.KeyText(binding.Key)
	} else if key, ok := e.Attribute("api_key"); ok {
		who.Key = key
	} else {
		who.Key, _ = e.Attribute("ip")
	}
	r.rules[who.Rule]++
	r.keys[who]++
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
	callers := map[string]bool{}
	for who, n := range r.keys {
		callers[who.Key] = true
		out.Keys = append(out.Keys, Count{Rule: who.Rule, Key: Shorten(who.Key), Denied: n})
	}
	out.Callers = len(callers)
	out.Rules, out.Keys = most(out.Rules), most(out.Keys)
	return out
}

func most(list []Count) []Count {
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(b.Denied-a.Denied, cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key))
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
// originally allowed requests. A sample of fewer than 100 allowed requests
// proves nothing.
func (r *Result) Refused(most float64) bool {
	return r != nil && r.Allowed >= leastAllowed && r.Share > most
}

const leastAllowed = 100
