package decide

import (
	"fmt"

	"github.com/stintdev/stint"
)

// maxLimits bounds the limits of one take.
const maxLimits = 32

// maxAt is the greatest time of a take, in microseconds.
const maxAt = 1<<53 - 1

// Take is a request to charge one key under limits that the caller sends.
type Take struct {
	Key       string
	Limits    []stint.Limit
	Cost      int64 // 0 peeks, below 0 refunds
	Extra     int64 // further units to grant, as far as they are available
	At        int64 // of a refund: the time of the refunded take; 0 means now
	Forget    bool  // forget what the key has used; Cost is then unused
	OnFailure stint.OnFailure
	Any       bool // one limit that admits is enough; every limit that admits is charged
}

// CheckLimits returns an error unless a take may have n limits. Surfaces call it before
// they compile the limits, which is the costly part of a take.
func CheckLimits(n int) error {
	if n < 1 || n > maxLimits {
		return invalid("limits: has %d entries (give 1 to %d)", n, maxLimits)
	}
	return nil
}

// MarkCaller marks a limit as its caller's own. The store then keeps the states of the
// limit apart from those of rules, within a budget that all callers share. A trusted
// caller is another Stint server: its limits with a rule or a namespace are those of its
// rules.
func MarkCaller(s *stint.Spec, trusted bool) {
	s.FromCaller = s.FromCaller || !trusted || s.Rule == "" && s.Namespace == ""
}

func (t *Take) check() error {
	if err := CheckKey(t.Key); err != nil {
		return err
	}
	if err := CheckLimits(len(t.Limits)); err != nil {
		return err
	}
	if err := checkCost(t.Cost, -stint.MaxCost); err != nil {
		return err
	}
	switch {
	case t.At < 0 || t.At > maxAt:
		return invalid("at_us: %d is not a time (give the at_us of the decision that is refunded)", t.At)
	case t.At != 0 && t.Cost >= 0:
		return invalid("at_us: belongs to a cost below 0, as the at_us of the decision that is refunded")
	}
	if t.Any && t.Cost < 0 {
		return invalid("combine: any cannot be refunded, because the take charged only some of the limits (give those that the answer shows as allowed, without combine)")
	}
	for i, l := range t.Limits {
		for _, other := range t.Limits[:i] {
			if l.Name() == other.Name() && l.Rule() == other.Rule() && l.Namespace() == other.Namespace() && l.FromCaller() == other.FromCaller() {
				return invalid("limits: two are named %s, so they would count in one state (give each a name of its own)", l.Name())
			}
		}
	}
	return nil
}

func checkCost(cost, least int64) error {
	if cost < least || cost > stint.MaxCost {
		return invalid("cost: %d is out of range (use a whole number from %d to %d)", cost, least, stint.MaxCost)
	}
	return nil
}

// CheckKey is [stint.ValidateKey] with a fast path for printable ASCII.
func CheckKey(key string) error {
	if uint(len(key)-1) < stint.MaxKey && printable(key) {
		return nil
	}
	return stint.ValidateKey(key)
}

func printable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func invalid(format string, args ...any) error {
	return &stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf(format, args...)}
}
