package lease

import (
	"context"
	"math/big"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/boundedcache"
	"github.com/stintdev/stint/storekit"
)

// A partitioned limit is never exceeded, although nodes hold leases for seconds. Leases
// alone would exceed it: with a lease time L, a bucket admits up to C + r·(t + L) in a
// time t. So the store decides by a smaller limit, and what leases add brings the total
// to the whole limit at most: a bucket of C becomes one of C − r·L, and a log of W
// becomes one of W + L. A window or a quota needs no smaller limit, because its leases
// end with it. The price is a smaller burst, by at most a quarter.
//
// The tokens that nodes hold are their parts of the limit. Parts follow demand, only
// unspent tokens move, and a part that is not renewed expires.

// maxPartitionLife is the longest lifetime of a node's part. A node takes tokens for
// 1/shareOfLife of the lifetime ahead.
const (
	maxPartitionLife = 3 * time.Second
	shareOfLife      = 3
)

// partition is the smaller limit by which the store decides a partitioned one.
type partition struct {
	limit stint.Limit
	life  int64 // L; 0: the limit is too small to be partitioned, so every check asks the store
}

// partitionedStore replaces each partitioned limit by its smaller limit on the way to the
// store, and reports the whole limit in the decisions.
type partitionedStore struct {
	store      stint.Store
	partitions *partitions
}

// Take decides one claim.
func (p partitionedStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	if !isPartitioned(&c) {
		return p.store.Take(ctx, c)
	}
	whole := c.Limit
	c.Limit = p.partitions.of(whole).limit
	d, err := p.store.Take(ctx, c)
	if err == nil {
		d.Limit = whole.Max()
	}
	return d, err
}

// TakeGroups decides the groups.
func (p partitionedStore) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	if loosest(groups) != stint.Partitioned {
		return p.store.TakeGroups(ctx, groups, out)
	}
	err := p.store.TakeGroups(ctx, p.smaller(groups), out)
	reportWhole(groups, out)
	return err
}

// smaller returns the groups with the smaller limits.
func (p partitionedStore) smaller(groups []stint.Group) []stint.Group {
	return storekit.MapClaims(groups, func(c *stint.Claim) {
		if isPartitioned(c) {
			c.Limit = p.partitions.of(c.Limit).limit
		}
	})
}

// isPartitioned reports whether a claim is partitioned. It returns false for a claim
// without a limit, which the store refuses.
func isPartitioned(c *stint.Claim) bool {
	return c.Policy.Consistency == stint.Partitioned && c.Limit.Valid()
}

// reportWhole sets the whole limit in the decisions of partitioned claims.
func reportWhole(groups []stint.Group, out []stint.Decision) {
	at := 0
	for c := range storekit.Claims(groups) {
		if isPartitioned(c) && out[at].Limit > 0 {
			out[at].Limit = c.Limit.Max()
		}
		at++
	}
}

// partitions caches the partitions of limits.
type partitions struct {
	rules, callers *boundedcache.Cache[stint.Limit, *partition] // apart: new limits of callers evict no rule's partition
}

// maxPartitions bounds each of the two caches.
const maxPartitions = 10_000

func newPartitions() partitions {
	return partitions{boundedcache.New[stint.Limit, *partition](maxPartitions), boundedcache.New[stint.Limit, *partition](maxPartitions)}
}

func (p *partitions) of(l stint.Limit) *partition {
	known := p.rules
	if l.FromCaller() {
		known = p.callers
	}
	if made, ok := known.Get(l); ok {
		return made
	}
	made := newPartition(l)
	known.Put(l, made)
	return made
}

// newPartition makes the partition of a limit. Its life is as long as possible at the
// price of at most a quarter of the burst or of the window.
func newPartition(l stint.Limit) *partition {
	n, spec := l.Numbers(), l.Spec()
	whole := &partition{limit: l}
	var life time.Duration
	switch n.Algorithm {
	case stint.LeakyBucket:
		return whole
	case stint.FixedWindow, stint.Quota:
		return &partition{l, maxPartitionLife.Microseconds()}
	case stint.TokenBucket, stint.GCRA:
		kept, micros := keptBack(&n)
		life = time.Duration(micros) * time.Microsecond
		spec.Capacity -= kept
	default:
		life = min(maxPartitionLife, l.Window()/4).Truncate(time.Millisecond)
		spec.Window += stretch(&n, life)
	}
	limit, err := spec.Compile()
	if err != nil || life < 10*time.Millisecond {
		return whole
	}
	return &partition{limit, life.Microseconds()}
}

// keptBack returns how many units of a bucket are kept back, at most a quarter, and a
// time in which no more than that number refills.
func keptBack(n *stint.Numbers) (units, micros int64) {
	units = min(refilled(n, maxPartitionLife.Microseconds()), n.Max/4)
	time := new(big.Int).Mul(big.NewInt(units*microUnits), big.NewInt(n.Q))
	time.Div(time, big.NewInt(n.P))
	if most := maxPartitionLife.Microseconds(); !time.IsInt64() || time.Int64() > most {
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
	longer := life/time.Duration(n.Buckets-1) + time.Millisecond // one bucket longer
	return time.Duration(n.Buckets) * longer.Truncate(time.Millisecond)
}
