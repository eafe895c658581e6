package stint

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// RememberFor is how long a store remembers a group that has an [Once].
const RememberFor = 60 * time.Second

// MaxOnceID is the greatest length of [Once.ID], in bytes.
const MaxOnceID = 256

// Once identifies a call, so that its caller can repeat it when no answer came: the
// connection broke, or the deadline passed. The caller cannot know then whether the
// group was charged. It sends the same group with the same Once again, and the group is
// charged once in all.
//
// A store that admits a group with a Once remembers its decisions for [RememberFor], by
// the store's clock, in the same atomic step as the charge. A repeat within that time
// gets these decisions, marked as [Decision.Repeated], and charges nothing. A group with
// the same ID and another Body or other claims fails with CodeConflict. Of the claims,
// all but Local and Policy count, so the MaxDelay of a repeat must not follow a deadline.
//
// Denials are not remembered: a repeat of a denied group is decided afresh. A group that
// cannot charge ignores its Once: a dry group, and one of peeks alone. Refunds are
// remembered, so a repeated refund refunds once. The shadows of a repeated group are
// decided, and not charged.
//
// The ids of a store have a budget of their own. While it is used up, new groups with a
// Once fail with CodeExhausted and KindOnceBudget; all other groups are decided. No id is
// forgotten early.
//
// Everyone who can use a store shares its ids, so an ID should be hard to guess, such as
// a UUID.
type Once struct {
	// ID is the name of the call: 1 to MaxOnceID bytes of any value.
	ID string
	// Body is a hash of what the caller asked beside the claims, such as the body of
	// its request. The zero value is valid.
	Body [16]byte
}

// Repeatable reports whether a store must look for an earlier call of the group: it has
// a Once, and can charge or refund something.
func (g *Group) Repeatable() bool {
	if g.Once == nil || g.Dry {
		return false
	}
	for i := range g.Claims {
		if c := &g.Claims[i]; c.Cost != 0 || c.Extra > 0 {
			return true
		}
	}
	return false
}

// Validate returns the error that every store returns for an invalid Once, or nil. A nil
// Once is valid.
func (o *Once) Validate() error {
	if o == nil || uint(len(o.ID)-1) < MaxOnceID {
		return nil
	}
	if o.ID == "" {
		return invalid("once: the ID is empty", "name the call, such as by a UUID, or leave Once nil")
	}
	return invalid(fmt.Sprintf("once: the ID is %d bytes long", len(o.ID)), fmt.Sprintf("use at most %d bytes; hash what is longer", MaxOnceID))
}

// Digest returns a hash of the ID, under which stores remember it.
func (o *Once) Digest() [16]byte { return digest([]byte(o.ID)) }

// Digest returns a hash of what the group asks for: the Body of its Once, and the parts
// of its claims that [Once] names. Groups with equal digests get equal decisions from
// equal states. The claims must be valid.
func (g *Group) Digest() [16]byte {
	var text []byte
	if g.Once != nil {
		text = append(text, g.Once.Body[:]...)
	}
	for i := range g.Claims {
		c := &g.Claims[i]
		s, n := c.Limit.spec(), c.Limit.Numbers()
		for _, part := range [...]string{c.Key, s.Namespace, s.Rule, s.Name, c.Limit.Shape()} {
			text = append(binary.AppendUvarint(text, uint64(len(part))), part...)
		}
		for _, number := range [...]int64{c.Cost, c.Extra, c.At, int64(c.AnyOf), int64(c.MaxDelay), int64(asInt(s.FromCaller)), n.Max, n.P, n.Q, n.Fill, n.MaxWait} {
			text = binary.AppendVarint(text, number)
		}
	}
	return digest(text)
}

func digest(text []byte) (d [16]byte) {
	sum := sha256.Sum256(text)
	copy(d[:], sum[:])
	return d
}
