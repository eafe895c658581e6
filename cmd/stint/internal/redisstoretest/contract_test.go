package redisstoretest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/redistest"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/storekit"
	"github.com/stintdev/stint/storetest"
)

// maxPrefix is the greatest length of a prefix.
const maxPrefix = 64

// open returns a store that is closed with the test.
func open(t *testing.T, o redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// suite runs the contract of a store, with a prefix for each law.
func suite(t *testing.T, o redisstore.Options, runs, steps int) {
	t.Helper()
	storetest.Suite{Runs: runs, Steps: steps, Open: func(t *testing.T, clock func() time.Time) stint.Store {
		o := o
		o.Clock, o.KeepFor = clock, time.Hour
		o.Prefix = "law" + strings.NewReplacer(" ", "_", "/", ":").Replace(t.Name()[strings.IndexByte(t.Name(), '/'):])
		o.Prefix = o.Prefix[:min(len(o.Prefix), maxPrefix)]
		if o.Topology == redisstore.Cluster && !holdsAcrossSlots(t.Name()) {
			return oneSlot{open(t, o)}
		}
		return open(t, o)
	}}.Run(t)
}

// holdsAcrossSlots reports whether a law holds for groups in several slots of a Cluster.
// Under concurrent calls such a group is atomic only after a round trip. A charge and its
// refund leave their time in the state, which shows when the clock runs back.
func holdsAcrossSlots(law string) bool {
	return !strings.HasSuffix(law, "concurrent_groups_are_whole") && !strings.HasSuffix(law, "same_everywhere")
}

// oneSlot puts all keys in one slot.
type oneSlot struct{ stint.Store }

func (s oneSlot) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	together := storekit.MapClaims(groups, func(c *stint.Claim) { c.Key = stint.JoinKey("one", c.Key) })
	return s.Store.TakeGroups(ctx, together, out)
}

func (s oneSlot) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	c.Key = stint.JoinKey("one", c.Key)
	return s.Store.Take(ctx, c)
}

func TestContractOnOneServer(t *testing.T) {
	suite(t, redisstore.Options{Addrs: []string{redistest.Server(t).Addr()}}, 20, 15)
}

func TestContractOnCluster(t *testing.T) {
	suite(t, redisstore.Options{Topology: redisstore.Cluster, Addrs: redistest.Cluster(t, 3, 0).Addrs()}, 10, 12)
}

func TestContractOnSentinel(t *testing.T) {
	suite(t, redisstore.Options{Topology: redisstore.Sentinel, Addrs: redistest.Sentinel(t).Addrs(), Master: "stint"}, 5, 10)
}
