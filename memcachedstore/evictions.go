package memcachedstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stintdev/stint/storekit"
)

// evictionWatch reads the statistics of the servers now and then, and logs evictions.
type evictionWatch struct {
	backend *backend
	timeout time.Duration
	log     *slog.Logger
	counts  map[string]uint64 // of the last look, by server
	warned  bool
}

// evictionInterval is the time between two looks at the statistics.
const evictionInterval = 10 * time.Second

func (w *evictionWatch) run(ctx context.Context) {
	tick := time.NewTicker(evictionInterval)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look reads the statistics of all servers. A server that does not answer is left out.
func (w *evictionWatch) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range w.backend.servers {
		all.Go(func() {
			if err := s.refresh(ctx); err != nil {
				w.log.Debug("the statistics of a server cannot be read: its evictions stay those of the last time", "server", s.name, "error", err)
			}
		})
	}
	all.Wait()
	evicting := ""
	for server, now := range w.backend.evictions() {
		if before, seen := w.counts[server]; seen && now > before {
			evicting = server
		}
		w.counts[server] = now
	}
	switch {
	case evicting != "" && !w.warned:
		w.log.Warn("a server evicts items to make room: a key whose item was evicted has its whole allowance again (give the server more memory with -m, and to no other program)", "server", evicting)
	case evicting == "" && w.warned:
		w.log.Info("the servers evict no items any more")
	}
	w.warned = evicting != ""
}

// Metrics implements [storekit.Metered].
func (b *backend) Metrics() []storekit.Metric {
	m := storekit.Metric{Name: "store_evictions", Counter: true, Label: "shard", Help: "Items that the server evicted to make room since it started, those of other programs included."}
	for _, s := range b.servers {
		m.Samples = append(m.Samples, storekit.Sample{Label: s.name, Value: float64(s.evictions.Load())})
	}
	return []storekit.Metric{m}
}

// evictions returns the evictions of all servers.
func (b *backend) evictions() map[string]uint64 {
	all := make(map[string]uint64, len(b.servers))
	for _, s := range b.servers {
		all[s.name] = s.evictions.Load()
	}
	return all
}
