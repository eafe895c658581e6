package cas

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// Shards implements [storekit.Sharded], for stores that wrap this one. A shard is named as
// the backend names its server; a store of one server has one shard, named "".
func (s *Store) Shards() storekit.Shards { return shards{s} }

// shards are the servers of a store.
type shards struct{ store *Store }

// Of returns the shard that has the item of a claim.
func (s shards) Of(c *stint.Claim) string {
	if s.store.sharded == nil {
		return ""
	}
	return s.store.transportOf(keyOf(c)).shard
}

// Probe returns nil if the shard can be read and written. A backend that is no [Prober]
// writes an item that expires soon.
func (s shards) Probe(ctx context.Context, shard string) error {
	t := s.transport(shard)
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.store.options.Timeout)
	defer cancel()
	if p, ok := s.store.backend.(Prober); ok {
		return p.Probe(ctx, shard)
	}
	loads := []Load{{Key: t.probeKey(), Horizon: time.Second}}
	_, err := s.store.backend.Load(ctx, loads)
	if err == nil {
		err = loads[0].Err
	}
	if err != nil {
		return err
	}
	swaps := []Swap{{Key: loads[0].Key, Old: loads[0].Item.Version, Memo: loads[0].Item.Memo, Value: []byte{itemVersion}, Version: newVersion(), TTL: s.store.options.Slack}}
	_, err = s.store.backend.Swap(ctx, swaps)
	return failures(swaps, err)
}

// Stop keeps everything from being sent to a shard until Start. Its checks fail with
// CodeUnavailable.
func (s shards) Stop(shard string) {
	if t := s.transport(shard); t != nil {
		t.stopped.Store(true)
		if p, ok := s.store.backend.(Prober); ok {
			p.Stop(shard)
		}
	}
}

// Start ends a Stop.
func (s shards) Start(shard string) {
	if t := s.transport(shard); t != nil {
		if p, ok := s.store.backend.(Prober); ok {
			p.Start(shard)
		}
		t.stopped.Store(false)
	}
}

// transport returns the transport to a shard, or nil if there is no such shard.
func (s shards) transport(shard string) *transport {
	i := slices.IndexFunc(s.store.transports, func(t *transport) bool { return t.shard == shard })
	if i < 0 {
		return nil
	}
	return s.store.transports[i]
}

// mostNames bounds the search for a key on a shard.
const mostNames = 1 << 16

// probeKey returns a key on the shard for the store's own use.
func (t *transport) probeKey() string {
	t.probe.Do(func() {
		t.probed = string(markProbe)
		for i := 0; i < mostNames && t.store.transportOf(t.probed) != t; i++ {
			t.probed = string(markProbe) + strconv.Itoa(i)
		}
	})
	return t.probed
}

// note remembers whether the last call of the backend to the shard was answered. The next
// answer may be that of another server, with another clock.
func (t *transport) note(err error) {
	switch stint.CodeOf(err) {
	case stint.CodeUnavailable, stint.CodeTimeout:
		t.up.Store(false)
		t.clock.forget()
	default:
		t.up.Store(true)
	}
}
