package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

// crew is several nodes that share one key, and a perfect limiter that gets the same requests at
// the same times.
type crew struct {
	nodes   []*lease.Store
	far     *far
	perfect *stint.Memory
	mode    stint.Consistency
	limit   stint.Limit

	mutex                               sync.Mutex
	asked, admitted, perfectly, falsely int
}

// Leases must cost no admissions, and few store calls, in the hard cases: few requests over many
// nodes, limits of a few units, and loads near the limit.
func TestNodesThatShareAKey(t *testing.T) {
	per := stint.PerSecond
	for _, test := range []struct {
		mode    stint.Consistency
		nodes   int
		of      stint.Spec
		load    float64
		false   float64 // greatest share of wrong denials
		goodput float64 // least goodput
		calls   float64 // greatest number of store calls a second
	}{
		{stint.Leased, 20, per(100), 0.95, 0.001, 0.999, 105},
		{stint.Leased, 20, per(100), 1.5, 0.1, 0.97, 165},
		{stint.Leased, 20, per(1000), 0.95, 0.001, 0.999, 700},
		{stint.Leased, 3, per(1000), 0.6, 0.001, 0.999, 50},
		{stint.Leased, 3, per(10), 0.6, 0.001, 0.999, 8},
		{stint.Leased, 3, per(1), 20, 0.04, 0.97, 20},
		{stint.Leased, 3, stint.PerMinute(10), 20, 0.001, 0.98, 4},
		{stint.Partitioned, 3, per(2), 0.6, 0.01, 0.99, 2},
		{stint.Partitioned, 3, per(100), 0.6, 0.001, 0.999, 50},
		{stint.Partitioned, 20, per(1000), 0.6, 0.001, 0.999, 200},
	} {
		t.Run(fmt.Sprintf("%d nodes at %v of %d", test.nodes, test.load, test.of.Limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t, test.nodes, test.mode, test.of)
				calls := c.work(test.load, 20*time.Second)
				t.Logf("%s: %d asked, %d admitted, %d by a perfect limiter, %d falsely denied, %.1f calls a second", c.limit, c.asked, c.admitted, c.perfectly, c.falsely, calls)
				if share := float64(c.falsely) / float64(c.asked); share > test.false {
					t.Errorf("%.4f falsely denied; want at most %v", share, test.false)
				}
				if share := float64(c.admitted) / float64(c.perfectly); share < test.goodput {
					t.Errorf("%.4f of what a perfect limiter admits; want at least %v", share, test.goodput)
				}
				if calls > test.calls {
					t.Errorf("%.1f calls a second; want at most %v", calls, test.calls)
				}
			})
		})
	}
}

func newCrew(t *testing.T, nodes int, mode stint.Consistency, of stint.Spec) *crew {
	t.Helper()
	clock := time.Now
	c := &crew{mode: mode, perfect: stint.NewMemory(stint.MemoryOptions{Clock: clock})}
	c.far = &far{Store: stint.NewMemory(stint.MemoryOptions{Clock: clock}), way: 250 * time.Microsecond}
	of.Rule = "r"
	l, err := of.Compile()
	if err != nil {
		t.Fatal(err)
	}
	c.limit = l
	for range nodes {
		n, err := lease.New(c.far, lease.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, n)
	}
	return c
}

// work sends the nodes the given share of the limit at random times, and returns the number of
// store calls a second.
func (c *crew) work(load float64, d time.Duration) (calls float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	rate, _ := c.limit.Rate().Float64()
	var pending sync.WaitGroup
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Duration(rng.ExpFloat64() / (rate * load) * float64(time.Second)))
		n := c.nodes[rng.IntN(len(c.nodes))]
		pending.Go(func() { c.ask(n) })
	}
	pending.Wait()
	for _, n := range c.nodes {
		_ = n.Close()
	}
	return float64(c.far.calls) / d.Seconds()
}

func (c *crew) ask(n *lease.Store) {
	claim := leased(c.limit, 1)
	claim.Policy.Consistency = c.mode
	p, _ := c.perfect.Take(context.Background(), claim)
	d, err := n.Take(context.Background(), claim)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.asked++
	if p.Allowed {
		c.perfectly++
	}
	if d.Allowed && err == nil {
		c.admitted++
	} else if p.Allowed {
		c.falsely++
	}
}
