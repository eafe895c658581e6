package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stintdev/stint"
)

// batchSize is how many claims one call carries.
const batchSize = 32

// batcher takes the same keys from one store, one in a call or many in a call.
type batcher struct {
	store  *stint.Memory
	limit  stint.Limit
	keys   keyText
	order  []uint32
	next   int
	claims [batchSize]stint.Claim
	groups []stint.Group
	out    [batchSize]stint.Decision
}

func newBatcher(keys int) (*batcher, error) {
	limit, err := compile(ample())
	if err != nil {
		return nil, err
	}
	b := &batcher{
		store: stint.NewMemory(stint.MemoryOptions{MaxKeys: bound}), limit: limit,
		keys: newKeyText(keys), order: uniformOrder(keys),
	}
	for i := range b.claims {
		b.groups = append(b.groups, stint.Group{Claims: b.claims[i : i+1]})
	}
	for i := range keys {
		if _, err := b.store.Take(context.Background(), b.claim(i)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *batcher) claim(i int) stint.Claim {
	return stint.Claim{Key: b.keys.key(i), Limit: b.limit, Cost: 1}
}

// draw returns the indexes of the next batch of keys.
func (b *batcher) draw() []uint32 {
	if b.next+batchSize > len(b.order) {
		b.next = 0
	}
	b.next += batchSize
	return b.order[b.next-batchSize : b.next]
}

// one takes the keys of a batch with one call for each.
func (b *batcher) one(int) int {
	for _, i := range b.draw() {
		if _, err := b.store.Take(context.Background(), b.claim(int(i))); err != nil {
			return 0
		}
	}
	return batchSize
}

// many takes the keys of a batch in one call, each as a group.
func (b *batcher) many(int) int {
	for n, i := range b.draw() {
		b.claims[n] = b.claim(int(i))
	}
	if b.store.TakeGroups(context.Background(), b.groups, b.out[:]) != nil {
		return 0
	}
	return batchSize
}

// allocations returns the number of allocations of a block.
func allocations(block func(int) int) float64 {
	return testing.AllocsPerRun(100, func() { block(0) })
}

// batch compares one call for many claims with one call for each claim. The number of
// keys is so large that every key misses the processor's cache.
func batch(_ context.Context, o options, out io.Writer, b *bars) (err error) {
	s, err := newBatcher(o.keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.store.Close()) }()
	const single, batched = "one by one", "batches of 32"
	t := o.race(1).interleave([]runner{{name: single, block: s.one}, {name: batched, block: s.many}})
	fmt.Fprintf(out, "\nbatch: %d keys, 1 CPU: %s %.1f ns a claim, %s %.1f, ratio %.2f\n",
		o.keys, single, t.ns(single), batched, t.ns(batched), t.ratio(batched, single))
	b.judge("batches of 32", t.ratio(batched, single), 0.5, "of one by one")
	b.judge("one claim allocates", allocations(s.one)/batchSize, 0, "times")
	b.judge("a batch allocates", allocations(s.many), 0, "times")
	return nil
}
