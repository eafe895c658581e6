package quorumstore

import (
	"context"
	"time"

	"github.com/stintdev/stint"
)

// maintainEvery is how often a backend looks after its members.
const maintainEvery = time.Second

// maintain marks members that have restarted, and repairs those that are young, until the
// context ends. Several processes may do so at once.
func (b *backend) maintain(ctx context.Context) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	for {
		b.maintainOnce(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// maintainOnce looks after the marks, and repairs at most one young member. If no member is
// young, it reads the marks alone.
func (b *backend) maintainOnce(ctx context.Context) {
	if err := b.tend(ctx); err != nil {
		b.options.Logger.Debug("not all servers could be marked", "error", err)
	}
	for _, m := range b.members {
		if !m.isYoung() {
			continue
		}
		switch err := b.repair(ctx, m); {
		case err == nil:
			b.options.Logger.Info("a server that had restarted knows all charges again", "server", m.name())
			return
		case stint.CodeOf(err) != stint.CodeUnavailable:
			b.options.Logger.Warn("a server that had restarted could not be repaired (see stint store repair)", "server", m.name(), "error", err)
		default:
			b.options.Logger.Debug("a server that had restarted is not repaired yet", "server", m.name(), "error", err)
		}
	}
}

// isYoung reports whether the member has not seen all that was ever accepted.
func (m *member) isYoung() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.heard && m.mu.about.incarnation != 0 && !m.mu.about.ever
}
