package httplimit

import (
	"fmt"
	"slices"
)

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
	None                      // no fields
)

var dialectNames = [...]string{"standard", "ietf", "ietf-03", "x-ratelimit", "none"}

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
