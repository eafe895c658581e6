package httplimit

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/stintdev/stint"
)

// SetHeaders sets the header fields that report the decision: the fields of the
// dialect and, on a denial, Retry-After and Cache-Control. It sets nothing for an
// allowed request without limits. now replaces the time of the decision if Decision.At
// is 0.
//
// A decision that was made without the store has numbers that would mislead. It sets
// only X-RateLimit-Remaining to −1 and X-RateLimit-Policy to "degraded", in every
// dialect except [None].
func (a *Answer) SetHeaders(h http.Header, now time.Time) {
	var room [320]byte // enough for most answers, on the stack
	var f fields
	text := room[:0]
	switch {
	case a.Listed || a.Dialect == None:
	case a.degraded():
		text = f.end(append(text, "-1"...), fieldXRemaining)
		text = f.end(append(text, "degraded"...), fieldXPolicy)
	case a.binding() != nil:
		text = f.dialect(text, a, now)
	}
	if !a.Allowed() {
		if a.Decision.Penalty != stint.NoPenalty && a.Dialect != None {
			text = f.end(append(text, a.Decision.Penalty.String()...), fieldXPenalty)
		}
		text = f.denial(text, a)
	}
	f.set(h, string(text))
	maps.Copy(h, a.Header)
}

// field is a header field of an answer.
type field uint8

const (
	fieldXLimit field = iota
	fieldXRemaining
	fieldXReset
	fieldXPolicy
	fieldXPenalty
	fieldLimit
	fieldRemaining
	fieldReset
	fieldPolicy
	fieldService
	fieldRetry
	fieldCache
)

// fieldNames are the names in canonical form, which direct writes to an http.Header
// require.
var fieldNames = [...]string{
	"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "X-Ratelimit-Policy", "X-Ratelimit-Penalty",
	"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", "Ratelimit-Policy", "Ratelimit",
	"Retry-After", "Cache-Control",
}

const maxFields = 8 // fields of one answer

// fields collects header values. All values are parts of one text, which costs one
// string and one slice for all fields. The methods append to the text and return it,
// instead of keeping it in the struct: in the struct it would escape to the heap.
type fields struct {
	which [maxFields]field
	ends  [maxFields]int
	count int
}

func (f *fields) dialect(text []byte, a *Answer, now time.Time) []byte {
	switch a.Dialect {
	case IETF:
		return f.ietf(text, a)
	case IETF03:
		return f.rateLimit(text, a, seconds(a.Decision.ResetAfter))
	case UnixReset:
		return f.rateLimit(text, a, a.resetAt(now))
	case XRateLimit:
		return f.xRateLimit(text, a, now)
	default:
		return f.ietf(f.xRateLimit(text, a, now), a)
	}
}

// xRateLimit appends X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset.
func (f *fields) xRateLimit(text []byte, a *Answer, now time.Time) []byte {
	text = f.integer(text, fieldXLimit, a.Decision.Limit)
	text = f.integer(text, fieldXRemaining, a.Decision.Remaining)
	return f.integer(text, fieldXReset, a.resetAt(now))
}

// rateLimit appends RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, the last with
// the given value.
func (f *fields) rateLimit(text []byte, a *Answer, reset int64) []byte {
	text = f.integer(text, fieldLimit, a.Decision.Limit)
	text = f.integer(text, fieldRemaining, a.Decision.Remaining)
	return f.integer(text, fieldReset, reset)
}

// ietf appends the fields of draft-ietf-httpapi-ratelimit-headers-11.
func (f *fields) ietf(text []byte, a *Answer) []byte {
	for i := range a.Policies {
		p := &a.Policies[i]
		if i > 0 {
			text = append(text, ", "...)
		}
		text = appendString(text, p.Name)
		text = appendParameter(text, ";q=", a.quota(i))
		text = appendParameter(text, ";w=", seconds(p.Limit.Window()))
	}
	text = appendString(f.end(text, fieldPolicy), a.binding().Name)
	text = appendParameter(text, ";r=", a.Decision.Remaining)
	if next := a.nextSeconds(); next > 0 {
		text = appendParameter(text, ";t=", next)
	}
	return f.end(text, fieldService)
}

func (f *fields) denial(text []byte, a *Answer) []byte {
	if retry := a.retrySeconds(); retry > 0 {
		text = f.integer(text, fieldRetry, retry)
	}
	return f.end(append(text, "no-store"...), fieldCache)
}

func (f *fields) integer(text []byte, name field, value int64) []byte {
	return f.end(strconv.AppendInt(text, value, 10), name)
}

// end ends a field: its value is the text since the previous call.
func (f *fields) end(text []byte, name field) []byte {
	f.which[f.count], f.ends[f.count] = name, len(text)
	f.count++
	return text
}

// set replaces the fields in h.
func (f *fields) set(h http.Header, text string) {
	values := make([]string, f.count)
	start := 0
	for i, end := range f.ends[:f.count] {
		values[i] = text[start:end]
		h[fieldNames[f.which[i]]] = values[i : i+1 : i+1]
		start = end
	}
}

func appendParameter(to []byte, name string, value int64) []byte {
	return strconv.AppendInt(append(to, name...), value, 10)
}

// appendString appends a String of RFC 9651. It percent-encodes bytes outside
// printable ASCII.
func appendString(to []byte, s string) []byte {
	const digits = "0123456789ABCDEF"
	to = append(to, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c < ' ' || c > '~':
			to = append(to, '%', digits[c>>4], digits[c&15])
		default:
			to = append(to, c)
		}
	}
	return append(to, '"')
}

// Dialect selects the header fields that report limits to a client. The zero value is
// [Standard]. In every dialect a denial has Retry-After and Cache-Control: these
// belong to the status code, and not to a rate limit convention.
type Dialect uint8

// The dialects.
const (
	Standard   Dialect = iota // the fields of IETF and XRateLimit together
	IETF                      // RateLimit-Policy and RateLimit, draft-ietf-httpapi-ratelimit-headers-11
	IETF03                    // RateLimit-Limit, -Remaining and -Reset in seconds, as in that draft's version 03
	XRateLimit                // X-RateLimit-Limit, -Remaining and -Reset as Unix time
	UnixReset                 // RateLimit-Limit, -Remaining and -Reset as Unix time
	None                      // no fields
)

var dialectNames = [...]string{"standard", "ietf", "ietf-03", "x-ratelimit", "unix-reset", "none"}

// String returns the dialect's name in rule files, such as "ietf-03".
func (d Dialect) String() string {
	if int(d) < len(dialectNames) {
		return dialectNames[d]
	}
	return fmt.Sprintf("dialect(%d)", uint8(d))
}

// ParseDialect returns the dialect with a name of rule files. The empty name is the
// default, [Standard].
func ParseDialect(name string) (Dialect, error) {
	if name == "" {
		return Standard, nil
	}
	if i := slices.Index(dialectNames[:], name); i >= 0 {
		return Dialect(i), nil
	}
	return 0, fmt.Errorf("headers: %q is not known (use one of %v)", name, dialectNames)
}
