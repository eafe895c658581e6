package replay

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/stintdev/stint"
)

// identityText is the caller of an event: the value of an attribute.
type identityText struct {
	text   string
	kind   identityKind
	secret bool // the text is a credential
}

// identityKind says which attribute a caller is. The same text of another attribute is another
// caller, so no API key counts as an address.
type identityKind uint8

const (
	kindOfLimit identityKind = iota // the attribute that a limit counts by
	kindOfAPIKey
	kindOfIP
	kindOfUser
	kindOfKey // the key of a rule
)

// identity returns the caller of an event: its API key, else its address, else its user. Rules
// count one event under several keys, so a caller is not the key of a rule. The text is empty
// for an event without any of these attributes.
func (f fields) identity() identityText {
	var apiKey, ip, user, key string
	isLog := false
	for i := range f {
		value := f[i].value
		if f[i].kind == kindNull || f[i].kind == kindCompound {
			value = ""
		}
		switch f[i].name {
		case "api_key":
			apiKey = value
		case "ip":
			ip = value
		case "user":
			user = value
		case "key":
			key = value
		case "sample_rate":
			isLog = true
		}
	}
	if apiKey == "" && !isLog { // as in Attribute
		apiKey = key
	}
	switch {
	case apiKey != "":
		return identityText{apiKey, kindOfAPIKey, true}
	case ip != "":
		return identityText{identity("ip", ip), kindOfIP, false}
	}
	return identityText{user, kindOfUser, false}
}

// callerTally counts the requests and the denials of each caller. It takes about 8 bytes a
// caller, as much again for a denied one, and more for those that are denied most.
type callerTally struct {
	hasher

	requests *keyCounts // complete after finish
	hashes   *background[uint64]
	denied   *ranking[caller]
}

func newCallerTally(h hasher, fails *panics) *callerTally {
	requests := &keyCounts{}
	hashes := newBackground(hashBatch, fails, requests.addAll)
	return &callerTally{hasher: h, requests: requests, hashes: hashes, denied: newRanking[caller]()}
}

// finish completes the numbers of requests.
func (t *callerTally) finish() { t.hashes.finish() }

// caller is what is known of a denied caller.
type caller struct {
	who     identityText
	denied  int64 // denials since it has details
	longest int64 // the longest wait, in microseconds; -1: forever
	looked  int64 // how many of its denied events the values are from
	agents  fewValues
	paths   fewValues
	status  fewValues
}

// count counts an event that by has just decided. It reads the values of a part of the denied
// events.
func (t *callerTally) count(who identityText, d *stint.Decision, p *pending, by decider) {
	hash := t.of(who)
	*t.hashes.next() = hash
	if d.Allowed {
		return
	}
	c, first := t.denied.add(hash)
	if c == nil {
		return
	}
	if first {
		who.text = strings.Clone(who.text)
		c.who = who
	}
	if wait := microseconds(d.RetryAfter); wait < 0 || c.longest >= 0 && wait > c.longest {
		c.longest = wait
	}
	if c.denied++; lookAt(c.denied) {
		c.look(by.fields(p))
	}
}

// lookAt reports whether the values of the n-th denied event of a caller are counted: those of
// the first four and then of one in 8. Reading them takes about as long as a decision.
func lookAt(n int64) bool { return n <= 4 || n%8 == 0 }

func (c *caller) look(f fields) {
	c.looked++
	for _, part := range [...]struct {
		name   string
		values *fewValues
	}{{"header:user-agent", &c.agents}, {"path", &c.paths}, {"status", &c.status}} {
		if value, ok := f.attribute(part.name); ok {
			part.values.add(value)
		}
	}
}

// fewValues counts the most frequent values of a stream (Misra and Gries 1982). A value that
// makes up more than one in mostValues+1 of them is surely there, and its count is too low by
// at most that share.
type fewValues struct {
	values []Value
	seen   bool // there was a value, also if all are forgotten since
}

const (
	mostValues    = 8
	mostValueText = 120 // bytes of a value that are kept
)

// Value is a value of an attribute and the number of denied requests that had it.
type Value struct {
	Value string `json:"value"`
	Count int64  `json:"count"`
}

func (f *fewValues) add(value string) {
	f.seen = true
	value = value[:min(len(value), mostValueText)]
	for i := range f.values {
		if f.values[i].Value == value {
			f.values[i].Count++
			return
		}
	}
	if len(f.values) < mostValues {
		f.values = append(f.values, Value{strings.Clone(value), 1})
		return
	}
	for i := range f.values {
		f.values[i].Count--
	}
	f.values = slices.DeleteFunc(f.values, func(v Value) bool { return v.Count == 0 })
}

// vary reports whether the stream had values and no value is frequent.
func (f *fewValues) vary() bool { return f.seen && len(f.values) == 0 }

// top returns the n most frequent values.
func (f *fewValues) top(n int) []Value {
	values := slices.Clone(f.values)
	slices.SortFunc(values, func(a, b Value) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value)) })
	for i := range values {
		values[i].Value = strings.ToValidUTF8(values[i].Value, "\ufffd")
	}
	return append([]Value{}, values[:min(len(values), n)]...)
}

// Caller is a caller with denied requests.
type Caller struct {
	// Caller is its API key, address or user name; under a limit the key that it counts.
	// A credential is shortened, and followed by a hash that tells it from others.
	Caller        string  `json:"caller"`
	Requests      int64   `json:"requests"`
	Denied        int64   `json:"denied"`
	ShareDenied   float64 `json:"share_denied"`    // of its requests, 0 to 1
	LongestWaitUS int64   `json:"longest_wait_us"` // the longest time to wait that a denial said; -1: forever

	// The most frequent values of its denied requests. They are read from a
	// sample of these requests; LookedAt is its size.
	LookedAt   int64   `json:"looked_at"`
	UserAgents []Value `json:"user_agents"`
	Paths      []Value `json:"paths"`
	Status     []Value `json:"status"`

	// Of an attribute that varies no value is frequent, so its list is empty.
	AgentsVary bool `json:"-"`
	PathsVary  bool `json:"-"`
	StatusVary bool `json:"-"`
}

// shownValues is the number of values of an attribute in a report.
const shownValues = 3

// top returns the n callers with the most denials.
func (t *callerTally) top(n int, show func(identityText) string) []Caller {
	all := t.denied.sorted(func(a, b *ranked[caller]) int { return cmp.Compare(a.of.who.text, b.of.who.text) })
	list := make([]Caller, 0, min(n, len(all)))
	for _, one := range all[:min(n, len(all))] {
		c := &one.of
		requests := t.requests.of(one.hash)
		list = append(list, Caller{
			Caller: show(c.who), Requests: int64(requests), Denied: int64(one.count),
			ShareDenied: float64(one.count) / float64(requests), LongestWaitUS: c.longest,
			LookedAt: c.looked, UserAgents: c.agents.top(shownValues), Paths: c.paths.top(shownValues), Status: c.status.top(shownValues),
			AgentsVary: c.agents.vary(), PathsVary: c.paths.vary(), StatusVary: c.status.vary(),
		})
	}
	return list
}

// hasher hashes identities under the seed of one replay.
type hasher struct{ seed maphash.Seed }

// of returns the hash of an identity.
func (h hasher) of(who identityText) uint64 {
	return maphash.String(h.seed, who.text) + uint64(who.kind)*(math.MaxUint64/5)
}
