package rule

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stintdev/stint"
)

// missing is what a request counts as that lacks an attribute of its rule's
// identity.
type missing uint8

const (
	missingIP missing = iota
	missingSkip
	missingDeny
	missingShared
)

// Marks begin the parts of a key that stand in for a missing attribute. Parts
// that come from a request hold no control character, so a request without a
// key from 10.0.0.1 and one whose key is "10.0.0.1" are two identities.
const (
	markIP     = "\x01"
	markShared = "\x02shared"
)

// verdict is what finding an identity came to.
type verdict uint8

const (
	counted verdict = iota
	skipped         // the rule does not apply, or the request cannot be: see request.err
	denied          // without being counted
)

// identity says whose use a rule counts.
type identity struct {
	by      []slot
	missing missing
}

// key returns the key of the request: its one part as it stands, or several
// joined.
func (q *request) key(id *identity) (string, verdict) {
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

// part is one part of a key, or what stands in for it.
func (q *request) part(s slot, missing missing) (string, verdict) {
	text, ok := q.get(s)
	switch {
	case ok:
		return q.validPart(s, text)
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

func (q *request) validPart(s slot, text string) (string, verdict) {
	if err := stint.ValidateKey(text); err != nil {
		q.fail(q.invalidPart(s, err))
		return "", skipped
	}
	return text, counted
}

// invalidPart says which attribute the error of its text is about.
func (q *request) invalidPart(s slot, err error) error {
	named := &stint.Error{Code: stint.CodeInvalid, Problem: err.Error()}
	if known, ok := errors.AsType[*stint.Error](err); ok {
		named.Problem, named.Mend = known.Problem, known.Mend
	}
	named.Problem = q.set.slots.names[s] + ": " + strings.TrimPrefix(named.Problem, "key: ")
	return named
}

// KeyText returns how a key of a [Hit] is shown: its parts joined by "|",
// without the marks of those that stand in for a missing attribute. It is for
// people: two keys may have one text. A key of one part that a request brought
// is returned as it stands, without a copy.
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
