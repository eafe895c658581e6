package httplimit

import (
	"net/http"
	"strconv"
	"time"
)

// SetHeaders sets every header field that tells of the decision: those of the
// dialect and, on a denial, Retry-After and Cache-Control. Nothing is set for
// a request that passed without any limit. now is the time of the decision.
//
// A decision that was made without the store says so in X-RateLimit-Remaining
// and X-RateLimit-Policy and nothing else, in every dialect but [None]: its
// numbers would mislead.
func (a *Answer) SetHeaders(h http.Header, now time.Time) {
	var f fields
	f.text = f.array[:0]
	switch {
	case a.Listed || a.Dialect == None:
	case a.degraded():
		f.literal(fieldXRemaining, "-1")
		f.literal(fieldXPolicy, "degraded")
	case a.face() != nil:
		f.dialect(a, now)
	}
	if !a.Allowed() {
		f.denial(a)
	}
	f.set(h)
}

// Names in the spelling of [http.CanonicalHeaderKey], which http.Header needs.
const (
	fieldXLimit     = "X-Ratelimit-Limit"
	fieldXRemaining = "X-Ratelimit-Remaining"
	fieldXReset     = "X-Ratelimit-Reset"
	fieldXPolicy    = "X-Ratelimit-Policy"
	fieldLimit      = "Ratelimit-Limit"
	fieldRemaining  = "Ratelimit-Remaining"
	fieldReset      = "Ratelimit-Reset"
	fieldPolicy     = "Ratelimit-Policy"
	fieldService    = "Ratelimit"
	fieldRetry      = "Retry-After"
	fieldCache      = "Cache-Control"
)

const maxFields = 7 // of one answer

// fields renders values one after the other into one text, so that all of
// them cost one string and one slice.
type fields struct {
	array [320]byte // enough for most answers, on the stack
	text  []byte
	names [maxFields]string
	ends  [maxFields]int
	count int
}

func (f *fields) dialect(a *Answer, now time.Time) {
	switch a.Dialect {
	case IETF:
		f.ietf(a)
	case IETF03:
		f.integer(fieldLimit, a.Decision.Limit)
		f.integer(fieldRemaining, a.Decision.Remaining)
		f.integer(fieldReset, seconds(a.Decision.ResetAfter))
	case XRateLimit:
		f.x(a, now)
	default:
		f.x(a, now)
		f.ietf(a)
	}
}

func (f *fields) x(a *Answer, now time.Time) {
	f.integer(fieldXLimit, a.Decision.Limit)
	f.integer(fieldXRemaining, a.Decision.Remaining)
	f.integer(fieldXReset, a.resetAt(now))
}

// ietf appends the fields of draft-ietf-httpapi-ratelimit-headers-11.
func (f *fields) ietf(a *Answer) {
	for i := range a.Policies {
		p := &a.Policies[i]
		if i > 0 {
			f.text = append(f.text, ", "...)
		}
		f.text = appendString(f.text, p.Name)
		f.text = appendParameter(f.text, ";q=", p.Limit.Max())
		f.text = appendParameter(f.text, ";w=", seconds(p.Limit.Window()))
	}
	f.end(fieldPolicy)
	f.text = appendString(f.text, a.face().Name)
	f.text = appendParameter(f.text, ";r=", a.Decision.Remaining)
	if next := a.nextSeconds(); next > 0 {
		f.text = appendParameter(f.text, ";t=", next)
	}
	f.end(fieldService)
}

func (f *fields) denial(a *Answer) {
	if retry := a.retrySeconds(); retry > 0 {
		f.integer(fieldRetry, retry)
	}
	f.literal(fieldCache, "no-store")
}

func (f *fields) integer(name string, value int64) {
	f.text = strconv.AppendInt(f.text, value, 10)
	f.end(name)
}

func (f *fields) literal(name, value string) {
	f.text = append(f.text, value...)
	f.end(name)
}

// end makes what was appended since the last call the value of a field.
func (f *fields) end(name string) {
	f.names[f.count], f.ends[f.count] = name, len(f.text)
	f.count++
}

// set replaces the fields in h.
func (f *fields) set(h http.Header) {
	text, values := string(f.text), make([]string, f.count)
	start := 0
	for i, end := range f.ends[:f.count] {
		values[i] = text[start:end]
		h[f.names[i]] = values[i : i+1 : i+1]
		start = end
	}
}

func appendParameter(to []byte, name string, value int64) []byte {
	return strconv.AppendInt(append(to, name...), value, 10)
}

// appendString appends a String of RFC 9651. Bytes that it cannot hold are
// percent-encoded.
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
