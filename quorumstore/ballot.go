package quorumstore

import (
	"cmp"
	"math/rand/v2"
)

// compare returns -1, 0 or 1 if the ballot is below, equal to or above the other one.
func (b ballot) compare(other ballot) int {
	return cmp.Or(cmp.Compare(b.t, other.t), cmp.Compare(b.id, other.id))
}

func (b ballot) below(other ballot) bool { return b.compare(other) < 0 }

// newBallot returns a ballot of its own above seen, and not before now.
func newBallot(now int64, seen ballot) ballot {
	return ballot{max(now, seen.t+1), 1 + rand.Int64N(maxID-1)}
}

func maxBallot(a, b ballot) ballot {
	if a.below(b) {
		return b
	}
	return a
}
