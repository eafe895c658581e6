package decisionlog

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/impact"
	"github.com/stintdev/stint/rule"
)

// The bounds of a line.
const (
	maxText   = 256 // bytes of a value that the caller chose
	maxLimits = 16
	maxNames  = 16 // attributes beside the common ones
)

// Recorder logs the decisions of one rule set.
type Recorder struct {
	log      *Log
	patterns *rule.KeyPatterns
	shares   map[*rule.Rule]*share
	none     *share   // of decisions that no rule made
	own      int64    // lines a second that each rule has for itself
	names    []string // attributes that lines have as hashes
}

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
// never logged.
func (r *Recorder) Record(a rule.Attributes, cost int64, o *rule.Outcome) {
	if cost == 0 && o.List != rule.ListDeny {
		return
	}
	l := r.log
	rate, sampled := 1.0, false
	notable := !o.Allowed() || degraded(o)
	if s := l.options.Sample; s.ByCaller {
		if sampled = s.below(l.options.Key.hash(forSample, caller(a))); !sampled && !notable {
			return
		}
	} else if !notable && !l.keepsRequest() {
		return
	}
	now := l.options.Now()
	of := r.shareOf(o)
	if notable {
		if !r.admits(of, now) {
			l.drop(of, ByRate)
			return
		}
	} else {
		rate = l.options.Sample.Share
	}
	line, _ := lines.Get().(*[]byte)
	*line = r.appendLine((*line)[:0], a, cost, o, now, rate, sampled)
	l.append(of, *line)
	lines.Put(line)
}

// lines has buffers of lines that are being made.
var lines = sync.Pool{New: func() any { return new([]byte) }}

func degraded(o *rule.Outcome) bool {
	return o.Decision.Degraded || slices.ContainsFunc(o.Hits, func(h rule.Hit) bool { return !h.Shadow && h.Decision.Degraded })
}

// caller returns the API key of a request, or its address.
func caller(a rule.Attributes) string {
	if key, ok := a.Attribute("api_key"); ok && key != "" {
		return key
	}
	ip, _ := a.Attribute("ip")
	return ip
}

// shareOf returns the share of the rule that made the decision.
func (r *Recorder) shareOf(o *rule.Outcome) *share {
	if o.Binding >= 0 {
		if s := r.shares[o.Hits[o.Binding].Rule]; s != nil {
			return s
		}
	}
	return r.none
}

// memberNames are the members of a line. An attribute of such a name is left out.
var memberNames = []string{
	"t_us", "t", "key", "id", "api_key", "ip", "method", "path", "host", "tier", "cost", "at_us", "rule", "limit_name", "allowed", "limit", "remaining",
	"retry_after_us", "never", "delay_us", "degraded", "list", "limits", "shadow_deny", "sample_rate", "sampled", "dropped_before",
}

// appendLine appends the line of a decision without its closing brace.
func (r *Recorder) appendLine(b []byte, a rule.Attributes, cost int64, o *rule.Outcome, now time.Time, rate float64, sampled bool) []byte {
	key, _ := a.Attribute("api_key")
	ip, _ := a.Attribute("ip")
	t := o.Decision.At
	if t == 0 {
		t = now.UnixMicro()
	}
	b = appendInt(append(b, `{"t_us":`...), t)
	b = r.appendIdentity(b, key, ip, o)
	b = r.appendAttributes(b, a, key, o)
	b = appendInt(append(b, `,"cost":`...), cost)
	b = appendDecision(b, o)
	b = append(b, `,"sample_rate":`...)
	b = strconv.AppendFloat(b, rate, 'g', -1, 64)
	if sampled {
		b = append(b, `,"sampled":true`...)
	}
	return b
}

// appendIdentity appends the identity that the decision counts: that of the binding claim,
// else the API key, else the address. Then follow the API key and the address as a replay
// needs them: texts in whose place stands their hash.
func (r *Recorder) appendIdentity(b []byte, key, ip string, o *rule.Outcome) []byte {
	k, identity := &r.log.options.Key, key
	if identity == "" {
		identity = ip
	}
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
	if address, err := netip.ParseAddr(ip); err == nil {
		b = append(b, `,"ip":"`...)
		b = append(k.address(address.Unmap().WithZone("").String()).AppendTo(b), '"')
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
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if segment != "" && (r.patterns.Match(segment) || isIdentity(segment, key, o)) {
			segments[i] = masked
		}
	}
	return strings.Join(segments, "/")
}

// leastPart is the shortest key that is looked for inside a segment. A shorter one may stand
// there by chance.
const leastPart = 8

func isIdentity(segment, key string, o *rule.Outcome) bool {
	if key != "" && (segment == key || len(key) >= leastPart && strings.Contains(segment, key)) {
		return true
	}
	for i := range o.Hits {
		if h := &o.Hits[i]; h.Key != "" && slices.Contains(stint.KeyParts(h.Key), segment) {
			return true
		}
	}
	return false
}

// appendDecision appends the fields of the decision.
func appendDecision(b []byte, o *rule.Outcome) []byte {
	d := &o.Decision
	b = append(b, `,"rule":`...)
	if o.Binding < 0 {
		b = append(b, `""`...)
	} else {
		h := &o.Hits[o.Binding]
		b = appendText(b, h.Rule.ID)
		b = append(b, `,"limit_name":`...)
		b = appendText(b, h.Limit.Name())
	}
	b = strconv.AppendBool(append(b, `,"allowed":`...), o.Allowed())
	if o.Binding >= 0 {
		b = appendInt(append(b, `,"limit":`...), d.Limit)
		b = appendInt(append(b, `,"remaining":`...), d.Remaining)
	}
	switch {
	case o.Allowed() || o.List != rule.ListNone:
	case d.RetryAfter == stint.Never:
		b = append(b, `,"never":true`...)
	default:
		b = appendInt(append(b, `,"retry_after_us":`...), d.RetryAfter.Microseconds())
	}
	b = strconv.AppendBool(append(b, `,"degraded":`...), degraded(o))
	if o.List != rule.ListNone {
		b = append(b, `,"list":`...)
		b = appendText(b, o.List.String())
	}
	return appendHits(b, o)
}

// appendHits appends the limits that matched, as rule/limit, and the rules in shadow mode
// that would have denied.
func appendHits(b []byte, o *rule.Outcome) []byte {
	first := true
	for i := range o.Hits[:min(len(o.Hits), maxLimits)] {
		if first {
			b = append(b, `,"limits":[`...)
		} else {
			b = append(b, ',')
		}
		first = false
		b = appendText(b, o.Hits[i].Rule.ID+"/"+o.Hits[i].Limit.Name())
	}
	if !first {
		b = append(b, ']')
	}
	first = true
	for i := range o.Hits {
		if h := &o.Hits[i]; h.Shadow && !h.Decision.Allowed && (i == 0 || o.Hits[i-1].Rule != h.Rule) {
			if first {
				b = append(b, `,"shadow_deny":[`...)
			} else {
				b = append(b, ',')
			}
			first = false
			b = appendText(b, h.Rule.ID)
		}
	}
	if !first {
		b = append(b, ']')
	}
	return b
}

func appendInt(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// appendHash appends the hash of a text as 16 hexadecimal digits.
func appendHash(b []byte, k *Key, text string) []byte {
	h := strconv.FormatUint(k.hash(forIdentity, text), 16)
	b = append(append(b, '"'), "0000000000000000"[len(h):]...)
	return append(append(b, h...), '"')
}

const hexDigits = "0123456789abcdef"

// appendText appends a text as JSON, at most maxText bytes of it. Invalid UTF-8 becomes
// U+FFFD.
func appendText(b []byte, text string) []byte {
	if len(text) > maxText {
		text = text[:maxText]
	}
	b = append(b, '"')
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case c == utf8.RuneError && size <= 1:
			b = append(b, `\ufffd`...)
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, text[i:i+size]...)
		}
		i += size
	}
	return append(b, '"')
}
