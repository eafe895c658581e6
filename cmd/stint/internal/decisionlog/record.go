package decisionlog

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/cmd/stint/internal/w3ctrace"
	"github.com/stintdev/stint/rule"
)

// The bounds of a line.
const (
	maxText   = 256  // bytes of a value that the caller chose
	maxPath   = 1024 // bytes of a path that are searched for keys
	maxLimits = 16
	maxNames  = 16 // attributes beside the common ones
)

// Recorder logs the decisions of one rule set.
type Recorder struct {
	log      *Log
	patterns *rule.KeyPatterns
	shares   map[*rule.Rule]*share
	names    []string // attributes that lines have as hashes
	canary   uint64   // the version with the canary whose rules these are; 0: none
}

// OfCanary says that the rule set is that of the canary of a version. Lines then have its number.
// Call it before the first Record.
func (r *Recorder) OfCanary(version uint64) { r.canary = version }

// plainNames are the attributes that lines have as they are.
var plainNames = []string{"method", "path", "host", "tier"}

// hashedNames returns the attributes that the rules read beside the common ones. Their values
// may be secrets.
func hashedNames(set *rule.Set) (names []string) {
	for _, name := range set.Attributes() {
		if name != "api_key" && name != "ip" && !slices.Contains(plainNames, name) && !slices.Contains(memberNames, name) && len(names) < maxNames {
			names = append(names, name)
		}
	}
	return names
}

// Record logs a decision on a request, or leaves it out. A cost of 0 only looks, and is
// never logged. span is that of the request.
func (r *Recorder) Record(a rule.Attributes, cost int64, o *rule.Outcome, span w3ctrace.Ref) {
	if cost == 0 && o.List != rule.ListDeny {
		return
	}
	c := choice{notable: !o.Allowed() || degraded(o), span: span}
	if !r.log.chosen(&c, func() string { return caller(a) }) {
		return
	}
	of := r.shareOf(o)
	if !r.log.admit(&c, of) {
		return
	}
	line, _ := lines.Get().(*[]byte)
	*line = r.appendLine((*line)[:0], a, cost, o, &c)
	r.log.append(of, &c, *line)
	lines.Put(line)
}

// choice says why a decision is logged.
type choice struct {
	notable bool // denied or degraded
	sampled bool // the caller is in the sample
	span    w3ctrace.Ref
	now     time.Time
}

// chosen reports whether a decision is to be logged.
func (l *Log) chosen(c *choice, caller func() string) bool {
	switch s := l.options.Sample; {
	case s.Share >= 1:
		c.sampled = true
	case s.ByCaller:
		c.sampled = l.keepsCaller(caller())
	default:
		c.sampled = !c.notable && l.keepsRequest()
	}
	return c.notable || c.sampled
}

// admit reports whether a chosen decision is within the rate, and counts it if it is not.
func (l *Log) admit(c *choice, of *share) bool {
	c.now = l.options.Now()
	if c.notable && !l.rates.admits(of, c.now) {
		l.drop(of, true, ByRate, l.minuteOf(c.now))
		return false
	}
	return true
}

// appendSample appends the span of the request and how many decisions the line stands for. Lines of a sample that keeps
// callers whole say whether the caller is in it, because only these lines are all that the
// caller did: a replay needs them.
func (l *Log) appendSample(b []byte, c *choice) []byte {
	if c.span != "" {
		b = append(append(b, `,"trace_id":"`...), c.span.TraceID()...)
		b = append(append(b, `","span_id":"`...), c.span.SpanID()...)
		b = append(b, '"')
	}
	s, rate := l.options.Sample, 1.0
	if !c.notable {
		rate = s.Share
	}
	b = strconv.AppendFloat(append(b, `,"sample_rate":`...), rate, 'f', -1, 64)
	if s.ByCaller || s.Share >= 1 {
		b = strconv.AppendBool(append(b, `,"sampled":`...), c.sampled)
	}
	return b
}

// lines has buffers of lines that are being made.
var lines = sync.Pool{New: func() any { return new([]byte) }}

func degraded(o *rule.Outcome) bool {
	if o.Decision.Degraded {
		return true
	}
	for i := range o.Hits {
		if h := &o.Hits[i]; h.Decision.Degraded && !h.Shadow {
			return true
		}
	}
	return false
}

// caller returns the API key of a request, or its address as rules count it.
func caller(a rule.Attributes) string {
	if key, ok := a.Attribute("api_key"); ok && key != "" {
		return key
	}
	ip, _ := a.Attribute("ip")
	return counted(ip)
}

// subscriberBits is the prefix length of the IPv6 network that rules count as one client.
const subscriberBits = 64

// counted returns an address as rules count it.
func counted(ip string) string {
	if strings.IndexByte(ip, ':') < 0 {
		return ip
	}
	address, err := netip.ParseAddr(ip)
	if err != nil {
		return ip
	}
	if address = address.Unmap().WithZone(""); address.Is4() {
		return address.String()
	}
	network, _ := address.Prefix(subscriberBits) // the length is valid for IPv6
	return network.String()
}

// shareOf returns the share of the rule that made the decision.
func (r *Recorder) shareOf(o *rule.Outcome) *share {
	if o.Binding >= 0 {
		if s := r.shares[o.Hits[o.Binding].Rule]; s != nil {
			return s
		}
	}
	return r.log.none
}

// memberNames are the members of a line. An attribute of such a name is left out.
var memberNames = []string{
	"t_us", "t", "key", "id", "api_key", "ip", "method", "path", "host", "tier", "cost", "at_us", "rule", "limit_name", "allowed", "limit", "remaining",
	"retry_after_us", "delay_us", "degraded", "list", "limits", "shadow_deny", "sample_rate", "sampled", "dropped_before", "dropped_since_us", "canary", "surface", "trace_id", "span_id",
}

// appendLine appends the line of a decision without its closing brace.
func (r *Recorder) appendLine(b []byte, a rule.Attributes, cost int64, o *rule.Outcome, c *choice) []byte {
	key, _ := a.Attribute("api_key")
	ip, _ := a.Attribute("ip")
	b = appendTime(b, o.Decision.At, c.now)
	b = r.appendIdentity(b, key, ip, o)
	b = r.appendAttributes(b, a, key, o)
	b = appendInt(append(b, `,"cost":`...), cost)
	b = appendDecision(b, o)
	if r.canary > 0 {
		b = appendInt(append(b, `,"canary":`...), int64(r.canary))
	}
	return r.log.appendSample(b, c)
}

// appendTime begins a line with the time of the decision by the clock of the store, by which a
// replay decides again, or with that of this process if no limit counted the request.
func appendTime(b []byte, at int64, now time.Time) []byte {
	if at == 0 {
		at = now.UnixMicro()
	}
	return appendInt(append(b, timeMember...), at)
}

// timeMember begins each line. A file that is opened again reads its first time behind it.
const timeMember = `{"t_us":`

// appendIdentity appends the identity that the decision counts: that of the binding claim,
// else the API key, else the address. Then follow the API key and the address as a replay
// needs them: texts in whose place stands their hash.
func (r *Recorder) appendIdentity(b []byte, key, ip string, o *rule.Outcome) []byte {
	k, identity := &r.log.options.Key, cmp.Or(key, ip)
	if o.Binding >= 0 && o.Hits[o.Binding].Key != "" {
		identity = o.Hits[o.Binding].Key
	}
	b = appendText(append(b, `,"key":`...), impact.Shorten(identity))
	b = append(b, `,"id":`...)
	b = appendHash(b, k, rule.KeyText(identity))
	if key != "" {
		b = append(b, `,"api_key":`...)
		b = appendHash(b, k, key)
	}
	if ip != "" {
		b = append(b, `,"ip":"`...)
		b = append(k.address(counted(ip)).AppendTo(b), '"')
	}
	return b
}

// appendAttributes appends what else rules may read: the common attributes as they are, with
// masked keys, and others as hashes.
func (r *Recorder) appendAttributes(b []byte, a rule.Attributes, key string, o *rule.Outcome) []byte {
	for _, name := range plainNames {
		value, ok := a.Attribute(name)
		if !ok || value == "" {
			continue
		}
		if name == "path" {
			value = r.maskPath(value, key, o)
		} else if r.isSecret(value, key) {
			value = masked
		}
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = appendText(b, value)
	}
	for _, name := range r.names {
		if value, ok := a.Attribute(name); ok && value != "" {
			b = append(b, ',')
			b = append(appendText(b, name), ':')
			b = appendHash(b, &r.log.options.Key, value)
		}
	}
	return b
}

// masked stands for a segment of a path that may be a key.
const masked = "…"

// maskPath masks the segments of a path that are the API key or another identity of the
// request, that contain the API key, or that fit a key pattern of the rules.
func (r *Recorder) maskPath(path, key string, o *rule.Outcome) string {
	return MaskPath(path, func(segment string) bool { return r.isSecret(segment, key) || isCounted(segment, o) })
}

// MaskPath masks the segments of a path that are secret, as they are or decoded: a segment may
// be percent-encoded. It leaves out the query.
func MaskPath(path string, secret func(segment string) bool) string {
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	if len(path) > maxPath { // a part of a segment could be most of a key
		path = path[:strings.LastIndexByte(path[:maxPath], '/')+1] + masked
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if segment != "" && secretSegment(segment, secret) {
			segments[i] = masked
		}
	}
	return strings.Join(segments, "/")
}

// leastPart is the shortest key that is looked for inside a text. A shorter one may stand
// there by chance.
const leastPart = 8

// secretSegment reports whether a segment of a path is secret.
func secretSegment(segment string, secret func(segment string) bool) bool {
	for range 1 + maxEncodings {
		if secret(segment) {
			return true
		}
		plain, err := url.PathUnescape(segment)
		if err != nil || plain == segment {
			return false
		}
		segment = plain
	}
	return true // nobody encodes so often but to hide something
}

// maxEncodings is how often a segment may be percent-encoded.
const maxEncodings = 2

func (r *Recorder) isSecret(text, key string) bool { return IsSecret(r.patterns, text, key) }

// IsSecret reports whether a text is or contains a key of the rules or the API key of a
// request. A key of the rules may follow one of the marks before values in paths, as in
// "id;token=KEY".
func IsSecret(patterns *rule.KeyPatterns, text, key string) bool {
	if strings.ContainsAny(text, valueMarks) && slices.ContainsFunc(strings.FieldsFunc(text, isValueMark), patterns.Match) {
		return true
	}
	return patterns.Match(text) || key != "" && text == key || len(key) >= leastPart && strings.Contains(text, key)
}

const valueMarks = "=;:,&@"

func isValueMark(c rune) bool { return strings.ContainsRune(valueMarks, c) }

// isCounted reports whether a rule counts the request by a text.
func isCounted(text string, o *rule.Outcome) bool {
	for i := range o.Hits {
		if IsPart(o.Hits[i].Key, text) {
			return true
		}
	}
	return false
}

// IsPart reports whether a text is a part of a key that rules count by. Parts may have a mark
// before them, a control character.
func IsPart(key, text string) bool {
	return strings.Contains(key, text) && slices.ContainsFunc(stint.KeyParts(key), func(part string) bool {
		return strings.TrimLeftFunc(part, unicode.IsControl) == text
	})
}

// appendDecision appends the fields of the decision.
func appendDecision(b []byte, o *rule.Outcome) []byte {
	b = append(b, `,"rule":`...)
	if o.Binding < 0 {
		b = append(b, `""`...)
	} else {
		h := &o.Hits[o.Binding]
		b = appendText(b, h.Rule.ID)
		b = append(b, `,"limit_name":`...)
		b = appendText(b, h.Limit.Name())
	}
	b = appendAnswer(b, &o.Decision, o.Allowed(), degraded(o), o.Binding >= 0)
	if o.List != rule.ListNone {
		b = append(b, `,"list":`...)
		b = appendText(b, o.List.String())
	}
	return appendHits(b, o)
}

// appendRetry appends the wait after a denial, -1 for never.
func appendRetry(b []byte, allowed bool, wait time.Duration) []byte {
	switch {
	case allowed:
		return b
	case wait == stint.Never:
		return append(b, `,"retry_after_us":-1`...)
	}
	return appendInt(append(b, `,"retry_after_us":`...), wait.Microseconds())
}

// appendHits appends the limits that matched, as rule/limit, and the rules in shadow mode
// that would have denied.
func appendHits(b []byte, o *rule.Outcome) []byte {
	limits, shadow := list{member: "limits"}, list{member: "shadow_deny"}
	for i := range o.Hits[:min(len(o.Hits), maxLimits)] {
		b = appendText(limits.next(b), o.Hits[i].Rule.ID+"/"+o.Hits[i].Limit.Name())
	}
	b = limits.end(b)
	for i := range o.Hits {
		if h := &o.Hits[i]; h.Shadow && !h.Decision.Allowed && (i == 0 || o.Hits[i-1].Rule != h.Rule) {
			b = appendText(shadow.next(b), h.Rule.ID)
		}
	}
	return shadow.end(b)
}
