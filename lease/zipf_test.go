package lease_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/lease"
)

// city is a million callers of unequal demand, each with a proportional limit. They ask three
// nodes, and one perfect limiter at the same times.
type city struct {
	nodes   [3]*lease.Store
	perfect *stint.Memory
	limits  []stint.Limit // the limit of each caller
	perNode int           // checks a second
	zipf    *rand.Zipf
	rng     *rand.Rand

	calls                        sync.WaitGroup
	measuring                    bool
	asked                        int64
	admitted, perfectly, falsely atomic.Int64
}

const (
	callers = 1_000_000
	zeal    = 1.1 // the exponent of Zipf's law
	crowd   = 20 * time.Microsecond
	half    = 500 * time.Millisecond // length of a run: to warm up, and to be measured
)

func TestAMillionUnequalCallers(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates millions of checks")
	}
	t.Parallel()
	for _, test := range []struct {
		load    float64
		burst   time.Duration // burst of each limit, as a time of its rate; over the limit the bursts must end before the half
		perNode int
		without float64 // least share of checks without a round trip, in percent
	}{
		{0.6, time.Second, 1_700_000, 80},
		{1.5, time.Second / 5, 500_000, 0},
	} {
		t.Run(fmt.Sprintf("load %.0f %%", 100*test.load), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				newCity(t, test.perNode, test.load, test.burst).judge(test.load, test.without)
			})
		})
	}
}

func newCity(t *testing.T, perNode int, load float64, burst time.Duration) *judged {
	t.Helper()
	clock := time.Now
	c := &city{perNode: perNode, rng: rand.New(rand.NewPCG(1, 2)), perfect: stint.NewMemory(stint.MemoryOptions{Clock: clock})}
	c.zipf = rand.NewZipf(c.rng, zeal, 1, callers-1)
	c.limits = limitsFor(t, 3*float64(perNode)/load, burst)
	shared := &far{Store: stint.NewMemory(stint.MemoryOptions{Clock: clock}), way: 100 * time.Microsecond}
	for i := range c.nodes {
		var err error
		if c.nodes[i], err = lease.New(shared, lease.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	return &judged{c, t}
}

// limitsFor divides a rate among the callers in proportion to their demand, within a tenth.
func limitsFor(t *testing.T, all float64, burst time.Duration) []stint.Limit {
	t.Helper()
	sum := 0.0
	for i := range callers {
		sum += math.Pow(float64(1+i), -zeal)
	}
	classes, limits := map[int]stint.Limit{}, make([]stint.Limit, callers)
	for i := range limits {
		rate := all * math.Pow(float64(1+i), -zeal) / sum
		class := int(math.Ceil(math.Log(rate) / math.Log(1.1)))
		if _, ok := classes[class]; !ok {
			rate = math.Pow(1.1, float64(class))
			spec := stint.Spec{Rule: "r", Name: fmt.Sprint("class", class), Capacity: max(1, int64(rate*burst.Seconds())), RefillRate: fmt.Sprintf("%.4f", rate)}
			l, err := spec.Compile()
			if err != nil {
				t.Fatal(err)
			}
			classes[class] = l
		}
		limits[i] = classes[class]
	}
	return limits
}

// live lets time pass while callers make requests.
func (c *city) live(d time.Duration) {
	together := 3 * c.perNode * int(crowd) / int(time.Second)
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(crowd) {
		for range together {
			caller := int(c.zipf.Uint64())
			node := c.nodes[c.rng.IntN(len(c.nodes))]
			c.calls.Go(func() { c.ask(node, caller) })
		}
		if c.measuring {
			c.asked += int64(together)
		}
	}
}

func (c *city) ask(node *lease.Store, caller int) {
	claim := leased(c.limits[caller], 1)
	claim.Key = strconv.Itoa(caller)
	p, _ := c.perfect.Take(context.Background(), claim)
	measuring := c.measuring
	d, err := node.Take(context.Background(), claim)
	switch {
	case !measuring || err != nil:
		return
	case d.Allowed:
		c.admitted.Add(1)
	case p.Allowed:
		c.falsely.Add(1)
	}
	if p.Allowed {
		c.perfectly.Add(1)
	}
}

func (c *city) decidedLocally() (n uint64) {
	for _, node := range c.nodes {
		s := node.Stats()
		n += s.Local + s.Denied
	}
	return n
}

type judged struct {
	*city
	t *testing.T
}

func (c *judged) judge(load, least float64) {
	c.live(half)
	c.calls.Wait()
	before := c.decidedLocally()
	c.measuring = true
	c.live(half)
	c.calls.Wait()
	without := 100 * float64(c.decidedLocally()-before) / float64(c.asked)
	wrong := 100 * float64(c.falsely.Load()) / float64(c.asked)
	goodput := 100 * float64(c.admitted.Load()) / float64(c.perfectly.Load())
	c.t.Logf("%d checks of %d callers: %.1f %% without a round trip; %.4f %% falsely denied; %.2f %% of what a perfect limiter admits",
		c.asked, callers, without, wrong, goodput)
	for _, node := range c.nodes {
		_ = node.Close()
	}
	if without < least {
		c.t.Errorf("want at least %.0f %% without a round trip", least)
	}
	if load < 1 && wrong >= 0.1 {
		c.t.Error("want less than 0.1 % falsely denied")
	}
	if math.Abs(goodput-100) > 2 {
		c.t.Error("want within 2 % of the perfect limiter's")
	}
}
