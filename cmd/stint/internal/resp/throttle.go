package resp

import (
	"fmt"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/decide"
)

// usage, badInteger and zeroRate are the errors of redis-cell, verbatim.
const (
	usage      = "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	badInteger = "Cell error: Couldn't parse as integer: "
	zeroRate   = "Cell error: Zero rates are not supported"
)

const throttleName = "cl.throttle"

// isThrottle reports whether a command is CL.THROTTLE, in any case.
func isThrottle(name []byte) bool {
	return len(name) == len(throttleName) && sameName(name, throttleName)
}

// sameName compares name, in any case, with a lower-case name of the same length.
func sameName(name []byte, lower string) bool {
	for i, c := range name {
		if c != lower[i] && (c < 'A' || c > 'Z' || c|0x20 != lower[i]) {
			return false
		}
	}
	return true
}

// readThrottle parses CL.THROTTLE key max_burst count period [quantity].
func (c *conn) readThrottle(args [][]byte, claim *stint.Claim) error {
	if len(args) != 5 && len(args) != 6 {
		return replyError(usage)
	}
	numbers := [4]int64{3: 1}
	for i, text := range args[2:] {
		n, ok := parseInt(text)
		if !ok {
			return replyError(badInteger + shown(text))
		}
		numbers[i] = n
	}
	limit, err := c.limit(quota{numbers[0], numbers[1], numbers[2]})
	if err != nil {
		return err
	}
	claim.Key, claim.Limit, claim.Cost = c.keys.Keep(args[1]), limit, numbers[3]
	if err := decide.CheckKey(claim.Key); err != nil {
		return err
	}
	return checkQuantity(claim.Cost)
}

// checkQuantity refuses a quantity out of range, which includes the value of
// [stint.Forget].
func checkQuantity(n int64) error {
	if n < -stint.MaxCost || n > stint.MaxCost {
		return fmt.Errorf("quantity: %d is out of range (use a whole number from %d to %d)", n, -stint.MaxCost, stint.MaxCost)
	}
	return nil
}

// limit returns the compiled limit of a quota. It remembers the last one, because most
// connections repeat the same quota.
func (c *conn) limit(q quota) (stint.Limit, error) {
	if q.count == 0 || q.period == 0 {
		return stint.Limit{}, replyError(zeroRate)
	}
	if q == c.lastQuota {
		return c.lastLimit, nil
	}
	limit, err := c.server.limits.get(q)
	if err == nil {
		c.lastQuota, c.lastLimit = q, limit
	}
	return limit, err
}

// appendDecision writes the five integers of redis-cell: 1 if the request is limited
// and 0 if not; the limit; the remaining requests; the seconds until a retry (−1 if the
// request was allowed, or no wait helps); and the seconds until the key is as if never
// used. Remaining is −1 in a degraded decision, because it is unknown.
func appendDecision(out []byte, d *stint.Decision) []byte {
	limited, remaining, retry := int64(0), d.Remaining, int64(-1)
	if !d.Allowed {
		limited = 1
		if d.RetryAfter != stint.Never {
			retry = seconds(d.RetryAfter)
		}
	}
	if d.Degraded {
		remaining = -1
	}
	out = append(out, "*5\r\n"...)
	out = appendInt(appendInt(appendInt(out, limited), d.Limit), remaining)
	return appendInt(appendInt(out, retry), seconds(d.ResetAfter))
}

// seconds rounds as redis-cell does: up, but a fraction below one millisecond is
// dropped.
func seconds(d time.Duration) int64 {
	whole := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		whole++
	}
	return whole
}

// shown returns a client's text, cut to 128 bytes, for use in an answer.
func shown(text []byte) string {
	const most = 128
	return string(text[:min(len(text), most)])
}
