package lease

import (
	"context"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// A partitioned limit is never passed: its leases come from a limit that leaves
// room for what they may hold. A lease that lasts L stretches the bound of a
// bucket to C + r·(t + L), so the bucket that the store keeps holds C − r·L; a
// log of W becomes one of W + L. Windows and quotas need no room.
//
// The tokens that nodes hold are the parts of the limit. Parts follow demand, only
// unspent tokens move, and a part that is not renewed expires.

// partTime is the longest lifetime of a part. A node takes tokens for 1/partOfTime of
// the lifetime ahead.
const (
	partTime   = 3 * time.Second
	partOfTime = 3
)

// part is the limit that the store keeps for a partitioned one.
type part struct {
	limit stint.Limit
	life  int64 // L; 0: too small to be parted, every check asks the store
}

// partitionedStore is a store that is asked for the smaller limit in place of each
// partitioned one.
type partitionedStore struct {
	store stint.Store
	parts *parts
}

// Take decides one claim.
func (p partitionedStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if !isPartitioned(&c) {
		return p.store.Take(ctx, c)
	}
	whole := c.Limit
	c.Limit = p.parts.of(whole).limit
	d, err := p.store.Take(ctx, c)
	if err == nil {
		d.Limit = whole.Max()
	}
	return d, err
}

// TakeGroups decides the groups.
func (p partitionedStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if loosest(groups, out) != stint.Partitioned {
		return p.store.TakeGroups(ctx, groups, out)
	}
	err := p.store.TakeGroups(ctx, p.smaller(groups), out)
	reportWhole(groups, out)
	return err
}

// smaller are the groups with smaller limits.
func (p partitionedStore) smaller(groups []stint.Group) []stint.Group {
	all := make([]stint.Group, len(groups))
	for i, g := range groups {
		claims := slices.Clone(g.Claims)
		for j := range claims {
			if isPartitioned(&claims[j]) {
				claims[j].Limit = p.parts.of(claims[j].Limit).limit
			}
		}
		all[i] = stint.Group{Claims: claims, Shadow: g.Shadow}
	}
	return all
}

// isPartitioned reports whether a claim is of a part. What is wrong with a claim is
// for the store to say.
func isPartitioned(c *stint.Claim) bool {
	return c.Policy.Consistency == stint.Partitioned && c.Limit.Valid()
}

// reportWhole has decisions speak of the limits that were claimed.
func reportWhole(groups []stint.Group, out []stint.Decision) {
	for i := range groups {
		for j := range groups[i].Claims {
			if c := &groups[i].Claims[j]; isPartitioned(c) && out[j].Limit > 0 {
				out[j].Limit = c.Limit.Max()
			}
		}
		out = out[len(groups[i].Claims):]
	}
}

// parts are worked out once for each limit.
type parts struct {
	rules, callers known // apart: callers may make limits up
}

// known is parts that are worked out.
type known struct {
	all   sync.Map // of stint.Limit to *part
	count atomic.Int64
}

// maxParts bounds how many parts are known, of each kind of limit.
const maxParts = 10_000

func (p *parts) of(l stint.Limit) *part {
	if l.FromCaller() {
		return p.callers.of(l)
	}
	return p.rules.of(l)
}

func (k *known) of(l stint.Limit) *part {
	if known, ok := k.all.Load(l); ok {
		return known.(*part) //nolint:forcetypeassert // there is nothing else in it
	}
	if k.count.Add(1) > maxParts {
		k.all.Clear()
		k.count.Store(1)
	}
	made := newPart(l)
	k.all.Store(l, made)
	return made
}

// newPart gives a part as long a life as costs a quarter of the burst, or of
// the window, at most.
func newPart(l stint.Limit) *part {
	n, spec := l.Numbers(), l.Spec()
	whole := &part{limit: l}
	var life time.Duration
	switch n.Algorithm {
	case stint.LeakyBucket:
		return whole
	case stint.FixedWindow, stint.Quota:
		return &part{l, partTime.Microseconds()}
	case stint.TokenBucket, stint.GCRA:
		kept, micros := keptBack(&n)
		life = time.Duration(micros) * time.Microsecond
		spec.Capacity -= kept
	default:
		life = min(partTime, l.Window()/4).Truncate(time.Millisecond)
		spec.Window += stretch(&n, life)
	}
	limit, err := spec.Compile()
	if err != nil || life < 10*time.Millisecond {
		return whole
	}
	return &part{limit, life.Microseconds()}
}

// keptBack returns how many units of a bucket are kept back, at most a quarter, and a
// time in which no more than that number refills.
func keptBack(n *stint.Numbers) (units, micros int64) {
	units = min(refilled(n, partTime.Microseconds()), n.Max/4)
	time := new(big.Int).Mul(big.NewInt(units*microUnits), big.NewInt(n.Q))
	time.Div(time, big.NewInt(n.P))
	if most := partTime.Microseconds(); !time.IsInt64() || time.Int64() > most {
		return units, most
	}
	return units, time.Int64()
}

// refilled is how many units a bucket refills in a time, rounded up.
func refilled(n *stint.Numbers, micros int64) int64 {
	product := new(big.Int).Mul(big.NewInt(n.P), big.NewInt(micros))
	unit := new(big.Int).Mul(big.NewInt(n.Q), big.NewInt(microUnits))
	product.Add(product, unit).Sub(product, big.NewInt(1))
	return product.Div(product, unit).Int64()
}

// stretch returns how much longer a window must be so that the interval W − W/S grows by
// at least life. The result divides into the window's buckets.
func stretch(n *stint.Numbers, life time.Duration) time.Duration {
	if n.Algorithm == stint.SlidingWindowLog || n.Buckets == 1 {
		return life
	}
	longer := life/time.Duration(n.Buckets-1) + time.Millisecond // of each bucket
	return time.Duration(n.Buckets) * longer.Truncate(time.Millisecond)
}
