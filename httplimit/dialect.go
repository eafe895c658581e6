package httplimit

import (
	"fmt"
	"slices"
)

// Dialect is which header fields tell a client of its limits. The zero value
// is [Standard]. Whatever the dialect, a denial carries Retry-After and
// Cache-Control: they belong to the status, not to a convention on limits.
type Dialect uint8

// The dialects.
const (
	Standard   Dialect = iota // those of IETF and of XRateLimit
	IETF                      // RateLimit-Policy and RateLimit, draft-ietf-httpapi-ratelimit-headers-11
	IETF03                    // RateLimit-Limit, -Remaining and -Reset in seconds, as in that draft's version 03
	XRateLimit                // X-RateLimit-Limit, -Remaining and -Reset as Unix time
	None                      // no fields
)

var dialectNames = [...]string{"standard", "ietf", "ietf-03", "x-ratelimit", "none"}

// String returns the name that rule files use, such as "ietf-03".
func (d Dialect) String() string {
	if int(d) < len(dialectNames) {
		return dialectNames[d]
	}
	return fmt.Sprintf("dialect(%d)", uint8(d))
}

// ParseDialect returns the dialect of a name that rule files use. The empty
// name is the default, [Standard].
func ParseDialect(name string) (Dialect, error) {
	if name == "" {
		return Standard, nil
	}
	if i := slices.Index(dialectNames[:], name); i >= 0 {
		return Dialect(i), nil
	}
	return 0, fmt.Errorf("headers: %q is not known (use one of %v)", name, dialectNames)
}
