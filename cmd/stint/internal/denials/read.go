package denials

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decisionlog"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/topkeys"
	"github.com/stintdev/stint/rule"
)

// MaxLimit is the greatest [Query].Limit.
const MaxLimit = 1000

// Query selects denials.
type Query struct {
	Rule  *string   // nil: all rules
	Since time.Time // zero: all times
	// Keys are the hashes of keys, by [topkeys.Hash]. Nil: all keys.
	Keys []uint64
	// Part also selects denials whose key is not that of one rule: by a limit of Envoy's
	// configuration whose key has this part, and by a deny list of a request from this address.
	Part string
	// Hash is that of a [Denial], or one by [Recent.HashID]; empty: all.
	Hash string
	ID   uint64 // as in package topkeys; 0: all
	// After is the Next of an earlier page: only later denials are selected. That of another
	// process, or an empty one, selects all.
	After string
	Limit int // the newest ones; at most MaxLimit
}

// Page is the answer to a query, the newest denials first.
type Page struct {
	Items []Denial `json:"items"`
	// Next is the After of a query for the denials since.
	Next string `json:"next"`
	// LeftOut is the number of selected denials beyond the limit.
	LeftOut int `json:"left_out,omitempty"`
	// Overwritten is the number of denials since After, of any key, that are no longer held.
	Overwritten uint64 `json:"overwritten,omitempty"`
}

// Denial is a denied request. Its key is shortened, and its path masked.
type Denial struct {
	Time time.Time `json:"time"`
	// Rule is that of the decision log: "(take)" for a limit that the caller brings, "" for a
	// deny list, or Envoy.
	Rule  string `json:"rule"`
	Limit string `json:"limit_name,omitempty"`
	Key   string `json:"key"`
	// Hash stands for the key, under the key of the decision log. ID stands for the key and the
	// rule, without a secret.
	Hash         string `json:"hash"`
	ID           uint64 `json:"id,omitempty,string"`
	Surface      string `json:"surface"`
	Path         string `json:"path,omitempty"`
	Cost         int64  `json:"cost"`
	Max          *int64 `json:"limit,omitempty"` // the numbers are absent if no limit decided
	Remaining    *int64 `json:"remaining,omitempty"`
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
	Never        bool   `json:"never,omitempty"` // the cost can never fit
	Degraded     bool   `json:"degraded,omitempty"`
	List         string `json:"list,omitempty"`
	Penalty      string `json:"penalty,omitempty"`
}

// Read returns the selected denials. One call at a time is answered, so that readers together
// use no more memory than one.
//
// Each read ends a turn. A denial has the number of the turn in which it was written, under the
// lock of its ring: a denial of the turn that ends is in its ring when the read gets that lock,
// and later ones belong to the next read. So no denial is missed, and no counter is written by
// all checks.
func (r *Recent) Read(q Query) (Page, error) {
	after, err := r.position(q.After)
	if err != nil {
		return Page{}, err
	}
	r.reading.Lock()
	defer r.reading.Unlock()
	r.mu.Lock() // shares stay as they are
	now := position{turn: r.turn.Add(1) - 1, written: r.mu.moved}
	s := selection{query: &q, after: after.turn, now: &now, recent: r}
	for _, share := range r.allLocked() {
		rings := *share.rings.Load()
		for i := range rings {
			s.add(share, &rings[i])
		}
	}
	r.mu.Unlock()
	s.cut()
	page := Page{Items: make([]Denial, len(s.found)), Next: r.next(now), LeftOut: s.leftOut}
	// A caller may have made up its position, with more entries than there are.
	if since := now.written - min(after.written, now.written); after.turn > 0 && since > s.held {
		page.Overwritten = since - s.held
	}
	for i := range s.found {
		page.Items[len(s.found)-1-i] = r.denial(&s.found[i])
	}
	return page, nil
}

// position is how far a reader has read.
type position struct {
	turn    uint64 // 0: nothing
	written uint64 // entries of all rings until then
}

// next returns a position as a text for readers.
func (r *Recent) next(p position) string {
	return fmt.Sprintf("%x-%d-%d", r.process, p.turn, p.written)
}

// position reads the text of a position. That of another process is the beginning.
func (r *Recent) position(after string) (p position, err error) {
	if after == "" {
		return p, nil
	}
	var process uint64
	if _, err := fmt.Sscanf(after, "%x-%d-%d", &process, &p.turn, &p.written); err != nil {
		return p, fmt.Errorf("after: %.60q is not the next of an answer (copy it from there)", after)
	}
	if process != r.process || p.turn >= r.turn.Load() {
		return position{}, nil
	}
	return p, nil
}

// found is an entry and the rule of its share.
type found struct {
	entry

	of string
}

// rule returns the rule of the denial.
func (f *found) rule() string {
	if f.lengths[rulePart] > 0 {
		return string(f.texts[:f.lengths[rulePart]])
	}
	return f.of
}

// identify returns the id of the key and the rule.
func (f *found) identify(parts *[partCount]string) uint64 {
	if f.id != 0 {
		return f.id
	}
	return topkeys.ID(f.keyHash(parts), topkeys.Hash(f.rule()), false)
}

// selection collects the newest entries that a query selects.
type selection struct {
	query   *Query
	after   uint64    // the last turn that the reader has seen
	now     *position // the turn that ends, and the entries until then
	recent  *Recent
	ring    []entry
	found   []found
	held    uint64 // entries of any key since after
	leftOut int
}

// add adds the entries of a ring. It copies them first, because denials wait for the ring
// meanwhile.
func (s *selection) add(of *share, r *ring) {
	r.mu.Lock()
	s.ring = append(append(s.ring[:0], r.entries[r.next:]...), r.entries[:r.next]...) // the oldest first
	s.now.written += r.written
	r.mu.Unlock()
	for i := range s.ring {
		e := &s.ring[i]
		if e.turn > s.now.turn {
			s.now.written-- // it belongs to the next read
		}
		if e.turn <= s.after || e.turn > s.now.turn {
			continue
		}
		if f := (found{*e, of.rule}); s.selects(&f) {
			s.found = append(s.found, f)
		}
		s.held++
	}
	if len(s.found) > 2*MaxLimit {
		s.cut()
	}
}

func (s *selection) selects(f *found) bool {
	q := s.query
	if !q.Since.IsZero() && f.at < q.Since.UnixMicro() || q.Rule != nil && *q.Rule != f.rule() {
		return false
	}
	if q.Keys == nil && q.ID == 0 && q.Hash == "" {
		return true
	}
	parts := f.parts()
	return (q.Keys == nil || slices.Contains(q.Keys, f.keyHash(&parts)) || q.Part != "" && f.hasPart(q.Part, &parts)) && (q.ID == 0 || f.identify(&parts) == q.ID) &&
		(q.Hash == "" || s.recent.hash(&f.entry) == q.Hash || s.recent.HashID(f.identify(&parts)) == q.Hash)
}

// hasPart reports whether a text is a part of the key of Envoy's limit, or the address of a
// request that a deny list denied.
func (f *found) hasPart(text string, parts *[partCount]string) bool {
	switch {
	case f.of == Envoy:
		return decisionlog.IsPart(parts[keyPart], text)
	case f.list == uint8(rule.ListDeny):
		return parts[identityPart] == text
	}
	return false
}

// cut keeps the newest entries, in order of time.
func (s *selection) cut() {
	slices.SortStableFunc(s.found, func(a, b found) int { return byTime(&a.entry, &b.entry) })
	if n := len(s.found) - s.query.Limit; n > 0 {
		s.leftOut += n
		s.found = slices.Delete(s.found, 0, n)
	}
}

// hash returns the hash of the decision log that stands for the key of an entry. A key that the
// entry has not whole is hashed by its id.
func (r *Recent) hash(e *entry) string {
	text := rule.KeyText(e.parts()[keyPart])
	if e.isCut(keyPart) {
		text = noKey + "cut " + strconv.FormatUint(e.key, 16)
	}
	return r.options.Key.Hash(text)
}

// HashID returns the hash that stands for a key of a rule, from its [topkeys.ID]. Lists of top
// keys have it, because they do not hold whole keys.
func (r *Recent) HashID(id uint64) string {
	return r.options.Key.Hash(noKey + "id " + strconv.FormatUint(id, 16))
}

// noKey begins texts that are hashed in place of a key. A key has no control characters, so no
// caller can choose one with the hash of another.
const noKey = "\x00"

// denial returns an entry as an operator may see it.
func (r *Recent) denial(f *found) Denial {
	e, parts := &f.entry, f.parts()
	d := Denial{
		Time: time.UnixMicro(e.at).UTC(), Rule: f.rule(), Limit: parts[limitPart], Key: impact.Shorten(parts[keyPart]),
		Hash: r.hash(e), ID: f.identify(&parts), Surface: r.options.Surfaces[e.surface], Path: r.path(e, &parts), Cost: e.cost, Degraded: e.states&degraded != 0,
	}
	if e.states&hasNumbers != 0 {
		d.Max, d.Remaining = &e.limit, &e.remaining
		if d.Never = e.retry == stint.Never; !d.Never {
			wait := (e.retry.Microseconds() + 999) / 1000
			d.RetryAfterMS = &wait
		}
	}
	if list := rule.List(e.list); list != rule.ListNone {
		d.List = list.String()
	}
	if kind := stint.PenaltyKind(e.penalty); kind != stint.NoPenalty {
		d.Penalty = kind.String()
	}
	return d
}

// hidden stands for a path that may show an identity.
const hidden = "…"

// path returns the path of an entry, masked as in the decision log. A segment with a long API
// key has its beginning, which the entry has.
func (r *Recent) path(e *entry, parts *[partCount]string) string {
	path := parts[pathPart]
	if e.states&hidePath != 0 || e.isCut(identityPart) || e.isCut(identityPart2) || e.isCut(keyPart) && e.states&keyIsAPIKey == 0 {
		return hidden // the rest of an identity, which the entry has not, may be in the path
	}
	if e.isCut(pathPart) && !strings.ContainsAny(path, "?#") { // a part of a segment could be most of a key
		path = path[:strings.LastIndexByte(path, '/')+1] + hidden
	}
	apiKey := parts[apiKeyPart]
	if e.states&keyIsAPIKey != 0 {
		apiKey = parts[keyPart]
	}
	patterns := *r.patterns.Load()
	return decisionlog.MaskPath(path, func(segment string) bool {
		isSecret := func(p *rule.KeyPatterns) bool { return decisionlog.IsSecret(p, segment, apiKey) }
		return slices.ContainsFunc(patterns, isSecret) || decisionlog.IsPart(parts[keyPart], segment) ||
			decisionlog.IsPart(parts[identityPart], segment) || decisionlog.IsPart(parts[identityPart2], segment)
	})
}
