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

// Result is what rules would do to the requests of a sample. They begin with
// nothing used, so that a change may turn away a few more than it says.
type Result struct {
	Since    time.Time `json:"since,omitzero"`    // the first request
	Seen     uint64    `json:"seen"`              // about how many requests there were since
	OneIn    uint64    `json:"one_caller_in"`     // of which the requests were kept
	Requests int       `json:"requests"`          // of the sample that were tried
	Allowed  int       `json:"allowed"`           // of them, when they came
	Denied   int       `json:"denied"`            // of the allowed ones, by these rules
	Share    float64   `json:"share"`             // denied of allowed
	Rules    []Count   `json:"rules,omitempty"`   // which rules deny them, the most first
	Keys     []Count   `json:"keys,omitempty"`    // whom, shortened, the most first
	Callers  int       `json:"callers,omitempty"` // how many are denied
}

// Count is how often a rule, or a rule for a key, denies what was allowed.
type Count struct {
	Rule   string `json:"rule"` // empty: the deny list of the set
	Key    string `json:"key,omitempty"`
	Denied int    `json:"denied"`
}

// mostShown bounds the lists of a result.
const mostShown = 10

// Replay decides the requests of the sample by other rules. The error is that
// of ctx.
func (s *Sample) Replay(ctx context.Context, set *rule.Set) (*Result, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // nothing was kept, and nothing is known.
	}
	if s.KeepPathEncoding {
		set = set.KeepPathEncoding()
	}
	events, mask, seen := s.recent()
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.t, b.t) })
	r := replay{set: set, rules: map[string]int{}, keys: map[Count]int{}, gained: map[spent]int64{}, result: &Result{OneIn: mask + 1, Seen: seen}}
	store := stint.NewMemory(stint.MemoryOptions{KeepAll: true, Clock: func() int64 { return r.now }})
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
	return r.told(events), nil
}

// replay counts what comes out.
type replay struct {
	set     *rule.Set
	now     int64
	outcome rule.Outcome
	rules   map[string]int
	keys    map[Count]int // by rule and key
	gained  map[spent]int64
	claims  int // so far
	result  *Result
}

// spent is an allowance that requests use: that of a rule, for a key.
type spent struct {
	rule *rule.Rule
	key  string
}

// mostClaims bounds what a replay takes, in time (about a second) and memory,
// where a thousand rules count each request: the requests after it are not tried.
const mostClaims = 1_000_000

func (r *replay) event(ctx context.Context, store stint.Store, e *event) {
	r.now = e.t
	err := r.set.DecideInto(ctx, store, e, e.cost, &r.outcome)
	r.claims += len(r.outcome.Hits)
	switch allowed := r.outcome.Allowed(); {
	case err != nil: // a request that these rules cannot read is for them to refuse
	case !e.allowed && allowed:
		r.gain(e)
	case e.allowed:
		r.result.Allowed++
		if !allowed && !r.exchanged(e) {
			r.denied(e)
		}
	}
}

// gain notes what a request uses that was turned away when it came.
func (r *replay) gain(e *event) {
	for i := range r.outcome.Hits {
		if h := &r.outcome.Hits[i]; !h.Shadow {
			r.gained[spent{h.Rule, h.Key}] += e.cost
		}
	}
}

// exchanged reports whether a request is denied because one before it, which was
// turned away when it came, has its place: the caller loses nothing. Whoever
// hammers at a limit is let through at other moments each time it is told.
func (r *replay) exchanged(e *event) bool {
	if r.outcome.Face < 0 || r.outcome.Decision.RetryAfter == stint.Never {
		return false
	}
	face := &r.outcome.Hits[r.outcome.Face]
	place := spent{face.Rule, face.Key}
	if r.gained[place] < e.cost {
		return false
	}
	r.gained[place] -= e.cost
	return true
}

// denied counts a request that was allowed when it came.
func (r *replay) denied(e *event) {
	r.result.Denied++
	who := Count{}
	if r.outcome.Face >= 0 {
		face := &r.outcome.Hits[r.outcome.Face]
		who.Rule, who.Key = face.Rule.ID, rule.KeyText(face.Key)
	} else if key, ok := e.Attribute("api_key"); ok {
		who.Key = key
	} else {
		who.Key, _ = e.Attribute("ip")
	}
	r.rules[who.Rule]++
	r.keys[who]++
}

// told is the result in full.
func (r *replay) told(events []event) *Result {
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

// Shorten is how answers and logs show a key: the first third of each of its
// parts, at most eight characters, without the marks that rules put there.
func Shorten(key string) string {
	parts := stint.KeyParts(key)
	for i, part := range parts {
		letters := []rune(strings.TrimLeftFunc(strings.ToValidUTF8(part, "?"), unicode.IsControl))
		parts[i] = string(letters[:min(len(letters)/3, 8)]) + "…"
	}
	return strings.Join(parts, "|")
}

// Refused reports whether a change is to be refused that denies more than the
// given share of what was allowed. Fewer than a hundred requests say nothing.
func (r *Result) Refused(most float64) bool {
	return r != nil && r.Allowed >= leastAllowed && r.Share > most
}

const leastAllowed = 100
