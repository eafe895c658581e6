package metrics

import (
	"context"
	"time"

	"github.com/stintdev/stint"
)

// meter is a Store that measures the one it wraps.
type meter struct {
	next  stint.Store
	calls *StoreCalls
}

func (m *meter) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	started := time.Now()
	d, err := m.next.Take(ctx, c)
	m.calls.Observe(time.Since(started), err)
	return d, err
}

func (m *meter) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	started := time.Now()
	err := m.next.TakeGroups(ctx, groups, out)
	m.calls.Observe(time.Since(started), err)
	return err
}
