package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/stintdev/stint"
)

// meter is a Store that measures the one it wraps.
type meter struct {
	next    stint.Store
	metrics *metrics
	down    atomic.Bool // the last call found the store failing
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
	var groups *stint.GroupsError
	if !errors.As(err, &groups) {
		m.setDown(m.count(err))
		return
	}
	down := false
	for _, err := range groups.Errs {
		down = m.count(err) || down
	}
	m.setDown(down)
}

// setDown writes only on change: every processor reads this line all the time.
func (m *meter) setDown(down bool) {
	if m.down.Load() != down {
		m.down.Store(down)
	}
}

// count counts an error that is the store's and reports whether it means
// that the store does not answer. A wrong claim is the caller's error.
func (m *meter) count(err error) (down bool) {
	if err == nil {
		return false
	}
	var e *stint.Error
	if !errors.As(err, &e) {
		e = &stint.Error{Code: stint.CodeInternal}
	}
	if e.Code == stint.CodeInvalid {
		return false
	}
	m.metrics.storeErrors.WithLabelValues(kindOf(e.Code)).Inc()
	return e.Code == stint.CodeUnavailable || e.Code == stint.CodeTimeout
}

func (m *meter) up() float64 {
	if m.down.Load() {
		return 0
	}
	return 1
}

func kindOf(c stint.Code) string {
	switch c {
	case stint.CodeInvalid:
		return "invalid"
	case stint.CodeUnavailable:
		return "unavailable"
	case stint.CodeTimeout:
		return "timeout"
	case stint.CodeCanceled:
		return "canceled"
	case stint.CodeExhausted:
		return "exhausted"
	}
	return "internal"
}
