package redisstore

import (
	"slices"
	"testing"

	"github.com/stintdev/stint"
)

// A recycled call is empty, after use for one claim, for a group that needs take.lua,
// and for more groups than its inline space holds.
func TestRecycledCallIsEmpty(t *testing.T) {
	claim := stint.Claim{Key: "k", Limit: tenASecond(), Cost: 1, Policy: stint.Policy{Replicas: 1}}
	one, two := groupToSend{claims: []stint.Claim{claim}, flags: dryGroup}, groupToSend{claims: []stint.Claim{claim, claim}}
	var pool pendingPool
	c := pool.get()
	for _, use := range []func(){
		func() { c.addOne(&claim) },
		func() { c.add(one) },
		func() { c.add(one); c.add(two) },
		func() { c.add(one) },
		func() { c.addOne(&claim) },
	} {
		use()
		c.Keep, c.same = true, c
		c.charged.Store(c.replicas > 0)
		for i := range c.errs {
			c.errs[i] = errHeld
		}
		pool.put(c)
		c.checkNew(t)
	}
}

func (c *pending) checkNew(t *testing.T) {
	t.Helper()
	if c.replicas != 0 || c.Keep || c.slow || c.same != nil || c.charged.Load() {
		t.Errorf("replicas %d, keep %v, slow %v, same %p, charged %v", c.replicas, c.Keep, c.slow, c.same, c.charged.Load())
	}
	if len(c.claims)+len(c.groups)+len(c.out)+len(c.errs) > 0 {
		t.Error("it has claims")
	}
	for _, g := range slices.Concat(c.groups[:cap(c.groups)], c.one.group[:]) {
		if g.claims != nil || g.flags != 0 {
			t.Errorf("it keeps the group %+v", g)
		}
	}
	for _, claim := range slices.Concat(c.claims[:cap(c.claims)], c.one.claim[:]) {
		if claim != (stint.Claim{}) {
			t.Errorf("it keeps the claim %+v", claim)
		}
	}
	for _, err := range slices.Concat(c.errs[:cap(c.errs)], c.one.err[:]) {
		if err != nil {
			t.Errorf("it keeps the error %v", err)
		}
	}
}
