package ruletest_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint/internal/redistest"
)

const fleetSize = 20

// The bounds to meet, and the interval between changes.
const (
	enforcedBy   = 2 * time.Second
	ninetyNinth  = 500 * time.Millisecond
	silentBy     = 12 * time.Second // without announcements
	changes      = 25
	askedEvery   = 5 * time.Millisecond
	silentRounds = 2
)

func TestAChangeIsEnforcedByAll(t *testing.T) {
	_, ann, fleet := announced(t)

	took := enforce(t, ann, fleet, 1, changes)
	report(t, "announced", took)
	if worst := took[len(took)-1]; worst > enforcedBy {
		t.Errorf("enforced by all after %v, want %v", worst, enforcedBy)
	}
	if p99 := took[len(took)*99/100]; p99 > ninetyNinth {
		t.Errorf("p99 %v, want %v", p99, ninetyNinth)
	}
}

// Without announcements, a change is found by polling. This takes long, but
// next to no processor time.
func TestAChangeIsEnforcedByAllWithoutAnnouncements(t *testing.T) {
	t.Parallel()
	p, ann, fleet := announced(t)
	p.Must("ACL", "SETUSER", "default", "resetchannels") // closes the subscriptions, and allows none
	took := enforce(t, ann, fleet, 1, silentRounds)
	report(t, "polled", took)
	if worst := took[len(took)-1]; worst > silentBy {
		t.Errorf("without announcements enforced by all after %v, want %v", worst, silentBy)
	}
}

// announced is a fleet that receives announcements, and its operator.
func announced(t *testing.T) (*redistest.Process, *operator, []*node) {
	t.Helper()
	p, url := server(t)
	ann := newOperator(t, p.Addr())
	ann.publish(manyRules(0, 3))
	fleet := startFleet(t, url)
	awaitSubscribers(t, p)
	return p, ann, fleet
}

func startFleet(t *testing.T, url string) []*node {
	t.Helper()
	fleet := make([]*node, fleetSize)
	for i := range fleet {
		fleet[i] = startNode(t, "off", "--rules", url)
	}
	return fleet
}

// enforce publishes versions from first on, one after the other. It returns the
// sorted times that the nodes took to enforce them.
func enforce(t *testing.T, ann *operator, fleet []*node, first, n int) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	for version := first; version < first+n; version++ {
		var done sync.WaitGroup
		begun := time.Now()
		for _, one := range fleet {
			done.Go(func() {
				d, err := awaitVersion(one, version, begun)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, d)
			})
		}
		ann.publish(manyRules(version, 3))
		done.Wait()
	}
	slices.Sort(took)
	return took
}

// awaitVersion sends requests to a node until it decides by a version.
func awaitVersion(n *node, version int, begun time.Time) (time.Duration, error) {
	tick := time.NewTicker(askedEvery)
	defer tick.Stop()
	for ; ; <-tick.C {
		d, err := n.check()
		took := time.Since(begun)
		if err != nil || strings.HasPrefix(d.Rule, fmt.Sprintf("v%d-", version)) {
			return took, err
		}
		if took > patience {
			return took, fmt.Errorf("%s decides by %s, want version %d", n.addr, d.Rule, version)
		}
	}
}

// report prints a sorted distribution.
func report(t *testing.T, what string, d []time.Duration) {
	t.Helper()
	at := func(percent int) time.Duration {
		return d[min(len(d)-1, len(d)*percent/100)].Round(100 * time.Microsecond)
	}
	t.Logf("%s, %d nodes, %d samples: p50 %v, p90 %v, p99 %v, most %v", what, fleetSize, len(d), at(50), at(90), at(99), at(100))
}
