package server

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// meter is a Store that measures the one it wraps.
type meter struct {
	next    stint.Store
	metrics *metrics
	errors  *StoreErrors // nil where the store counts its errors itself
	down    atomic.Bool  // the last call found the store failing
}

func (m *meter) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	started := time.Now()
	d, err := m.next.Take(ctx, c)
	m.observe(started, err)
	return d, err
}

func (m *meter) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	started := time.Now()
	err := m.next.TakeGroups(ctx, groups, out)
	m.observe(started, err)
	return err
}

func (m *meter) observe(started time.Time, err error) {
	m.metrics.stores.Observe(time.Since(started).Seconds())
	if m.errors == nil {
		return
	}
	m.setDown(meansDown(err))
	m.errors.Count(err)
}

// setDown writes only on change: every processor reads this line all the time.
func (m *meter) setDown(down bool) {
	if m.down.Load() != down {
		m.down.Store(down)
	}
}

// meansDown reports whether an error means that the store does not answer.
func meansDown(err error) (down bool) {
	eachError(err, func(e *stint.Error) {
		down = down || e.Code == stint.CodeUnavailable || e.Code == stint.CodeTimeout
	})
	return down
}

func (m *meter) up() bool { return !m.down.Load() }
