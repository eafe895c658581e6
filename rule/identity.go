package rule

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stintdev/stint"
)

// missing selects how a rule counts a request that lacks an attribute of the
// rule's identity.
type missing uint8

const (
	missingIP missing = iota
	missingSkip
	missingDeny
	missingShared
)

// Marks are prefixes of key parts that replace a missing attribute. Parts that
// come from a request contain no control characters, so a request without a key
// from 10.0.0.1 and a request with the key "10.0.0.1" have different
// identities.
const (
	markIP     = "\x01"
	markShared = "\x02shared"
)

// keyStatus is the result of building an identity.
type keyStatus uint8

const (
	counted keyStatus = iota
	skipped           // the rule does not apply, or the request is invalid: see request.err
	denied            // the request is denied and not counted
)

// identity is the list of attributes that a rule counts by.
type identity struct {
	by      []slot
	missing missing
}

// tellsCallersApart reports whether the identity has more than what is requested and the
// tier.
func (id *identity) tellsCallersApart() bool {
	return slices.ContainsFunc(id.by, func(s slot) bool { return s <= slotIP || s >= wellKnownSlots })
}

// key returns the key of the request. A single part is used as it is; several
// parts are joined.
func (q *request) key(id *identity) (string, keyStatus) {
	if len(id.by) == 1 {
		return q.part(id.by[0], id.missing)
	}
	q.parts = q.parts[:0]
	size := 0
	for _, s := range id.by {
		part, v := q.part(s, id.missing)
		if v != counted {
			return "", v
		}
		q.parts = append(q.parts, part)
		size += 1 + len(part)
	}
	if size-1 > stint.MaxKey {
		q.fail(&stint.Error{Code: stint.CodeInvalid, Problem: fmt.Sprintf("identity: is %d bytes long", size-1),
			Mend: fmt.Sprintf("use at most %d bytes in all", stint.MaxKey)})
		return "", skipped
	}
	return stint.JoinKey(q.parts...), counted
}

// part returns one part of a key, or the substitute for a missing attribute.
func (q *request) part(s slot, missing missing) (string, keyStatus) {
	text, ok := q.get(s)
	switch {
	case ok:
		if err := stint.ValidateKey(text); err != nil {
			q.fail(q.invalidPart(s, err))
			return "", skipped
		}
		return text, counted
	case missing == missingSkip:
		return "", skipped
	case missing == missingDeny:
		return "", denied
	case missing == missingIP:
		if ip, ok := q.get(slotIP); ok {
			return markIP + ip, counted
		}
	}
	return markShared, counted
}

// invalidPart prefixes the error with the name of the attribute.
func (q *request) invalidPart(s slot, err error) error {
	named := &stint.Error{Code: stint.CodeInvalid, Problem: err.Error()}
	if known, ok := errors.AsType[*stint.Error](err); ok {
		named.Problem, named.Mend = known.Problem, known.Mend
	}
	named.Problem = q.set.slots.names[s] + ": " + strings.TrimPrefix(named.Problem, "key: ")
	return named
}

// KeyText returns a readable form of the key of a [Hit]: its parts joined by
// "|", without the marks of substitutes for missing attributes. Two different
// keys can have the same text. A key of one part that the request carries is
// returned unchanged, without a copy.
func KeyText(key string) string {
	if !strings.ContainsAny(key, "\x00\x01\x02") {
		return key
	}
	parts := stint.KeyParts(key)
	for i, part := range parts {
		parts[i] = strings.TrimLeft(part, "\x01\x02")
	}
	return strings.Join(parts, "|")
}
