package redisstore

import "github.com/stintdev/stint"

// DefaultCallerBytes is the default of [Options.CallerBytes].
const DefaultCallerBytes = 256 << 20

// admit returns an error for a charge on a caller's limit if its class has no room even for
// a charge on an existing state. The last eighth of the share is not for logs, which grow.
func (e *encoding) admit(c *stint.Claim) error {
	if !c.Limit.FromCaller() || c.Cost+c.Extra <= 0 {
		return nil
	}
	l, most := e.limits.of(c.Limit), e.callers.Share
	if l.kind == logKind {
		most = most / 8 * 7
	}
	if e.callers.Level(l.class) < most {
		return nil
	}
	return e.callers.Refuse()
}

// admitAll returns the first error of admit.
func (e *encoding) admitAll(claims []stint.Claim) error {
	for i := range claims {
		if err := e.admit(&claims[i]); err != nil {
			return err
		}
	}
	return nil
}
