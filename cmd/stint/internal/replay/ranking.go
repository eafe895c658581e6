package replay

import (
	"cmp"
	"slices"
)

// ranking counts something for each of any number of names, and keeps details of the names
// with the greatest counts.
//
// The counts are exact. They take about 8 bytes a name. The details are larger, so at most
// mostDetails names have them: when one more comes, the half with the lower counts lose
// theirs. A name gets details again as soon as its count exceeds that of every name that
// lost them. So the names with the greatest half of mostDetails counts always have details,
// although those of a name that lost them once begin at its return.
type ranking[T any] struct {
	counts  keyCounts
	details map[uint64]*ranked[T]
	above   uint64 // names with counts up to this have no details
}

// ranked is a name with details.
type ranked[T any] struct {
	hash  uint64
	count uint64
	of    T
}

// mostDetails is the number of names with details. Reports have up to half of them.
const mostDetails = 4096

func newRanking[T any]() *ranking[T] { return &ranking[T]{details: map[uint64]*ranked[T]{}} }

// add counts the name with this hash. It returns the details of the name, which are new and
// to be filled in if first is true, or nil if the name has none.
func (r *ranking[T]) add(hash uint64) (details *T, first bool) {
	count := r.counts.add(hash)
	if known := r.details[hash]; known != nil {
		known.count = count
		return &known.of, false
	}
	if count <= r.above {
		return nil, false
	}
	if len(r.details) == mostDetails {
		r.prune()
		if count <= r.above {
			return nil, false
		}
	}
	known := &ranked[T]{hash: hash, count: count}
	r.details[hash] = known
	return &known.of, true
}

// prune drops the details of the half of the names with the lower counts.
func (r *ranking[T]) prune() {
	all := r.sorted(func(a, b *ranked[T]) int { return cmp.Compare(a.hash, b.hash) })
	for _, known := range all[mostDetails/2:] {
		delete(r.details, known.hash)
	}
	r.above = all[mostDetails/2].count
}

// sorted returns the names with details, those with the greatest counts first. next orders
// equal counts.
func (r *ranking[T]) sorted(next func(a, b *ranked[T]) int) []*ranked[T] {
	all := make([]*ranked[T], 0, len(r.details))
	for _, known := range r.details {
		all = append(all, known)
	}
	slices.SortFunc(all, func(a, b *ranked[T]) int { return cmp.Or(cmp.Compare(b.count, a.count), next(a, b)) })
	return all
}
