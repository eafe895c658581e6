package lease_test

import (
	"context"
	"errors"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/leasecheck"
)

// shape is the kind of a request.
type shape int

const (
	one   shape = iota
	both        // several limits in one group
	batch       // several checks in one batch
)

// shapes has each kind as often as it is drawn.
var shapes = [...]shape{one, one, one, one, one, one, one, one, one, one, one, both, both, both, batch}

// ask makes one request, and records its admissions if the node survives.
func (m *machine) ask(cost int64, of shape) {
	asked := time.Now().UnixMicro()
	groups := m.request(cost, of)
	var out [8]stint.Decision
	errs := make([]error, len(groups))
	var err error
	if of == one {
		out[0], err = m.Take(context.Background(), groups[0].Claims[0])
	} else {
		err = m.TakeGroups(context.Background(), groups, out[:claimsOf(groups)])
	}
	if some, ok := errors.AsType[*stint.GroupsError](err); ok {
		errs, err = some.Errs, nil
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if err == nil && !m.dead {
		m.record(asked, groups, out[:], errs)
	}
}

// request draws a request under the limits in force.
func (m *machine) request(cost int64, of shape) []stint.Group {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	claim := func(limit int, cost int64) stint.Claim {
		version := 0
		if m.changed {
			version = 1
		}
		c := leased(m.limits[limit][version], cost)
		c.Policy.Consistency = m.mode
		return c
	}
	switch of {
	case both:
		return []stint.Group{group(claim(0, cost), claim(1, cost))}
	case batch:
		return []stint.Group{
			group(claim(0, cost)), group(claim(0, 1)), group(claim(1, 1)), group(claim(0, 2), claim(1, 1)),
			group(claim(0, cost)), group(claim(0, 1)), group(claim(1, cost)),
		}
	default:
		return []stint.Group{group(claim(0, cost))}
	}
}

func claimsOf(groups []stint.Group) (n int) {
	for _, g := range groups {
		n += len(g.Claims)
	}
	return n
}

// record adds the admissions to the traces.
func (m *machine) record(asked int64, groups []stint.Group, out []stint.Decision, errs []error) {
	now := time.Now().UnixMicro()
	for i, g := range groups {
		own := out[:len(g.Claims)]
		out = out[len(g.Claims):]
		if _, binding := stint.Combine(g.Claims, own); errs[i] == nil && binding.Allowed {
			for j, c := range g.Claims {
				trace := &m.traces[m.index(&c)]
				trace.Admissions = append(trace.Admissions, leasecheck.Admission{Asked: asked, When: now, Cost: c.Cost, At: own[j].At, Batch: len(groups) > 1})
			}
		}
	}
}
