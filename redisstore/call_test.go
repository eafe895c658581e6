package redisstore

import (
	"slices"
	"testing"

	"github.com/stintdev/stint"
)

// TestCallThatIsPutBackIsAsNew uses a call for one claim, for what is beyond
// the quick script, and for more than it has room for, and puts it back.
func TestCallThatIsPutBackIsAsNew(t *testing.T) {
	claim := stint.Claim{Key: "k", Limit: tenASecond(), Cost: 1, Policy: stint.Policy{Replicas: 1}}
	groups := []stint.Group{{Claims: []stint.Claim{claim}, Shadow: true}, {Claims: []stint.Claim{claim, claim}}}
	var pool callPool
	c := pool.get()
	for _, use := range []func(){
		func() { c.addOne(&claim) },
		func() { c.add(asked{Group: groups[0], dry: true}) },
		func() { c.add(asked{Group: groups[0], dry: true}); c.add(asked{Group: groups[1]}) },
		func() { c.add(asked{Group: groups[0], dry: true}) },
		func() { c.addOne(&claim) },
	} {
		use()
		c.state, c.keep, c.alone, c.own, c.same, c.ctx = landed, true, true, true, c, t.Context()
		for i := range c.errs {
			c.errs[i] = errTower
		}
		pool.put(c)
		c.checkNew(t)
	}
}

func (c *call) checkNew(t *testing.T) {
	t.Helper()
	if c.state != queued || c.replicas != 0 || c.keep || c.slow || c.alone || c.own || c.same != nil || c.ctx != nil {
		t.Errorf("it is still %+v", c)
	}
	if len(c.claims)+len(c.groups)+len(c.out)+len(c.errs) > 0 {
		t.Error("it has claims")
	}
	for _, g := range slices.Concat(c.groups[:cap(c.groups)], c.one.group[:]) {
		if g.Claims != nil || g.Shadow || g.dry {
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
