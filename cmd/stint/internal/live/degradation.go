package live

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Degradation is what was decided without the store.
type Degradation struct {
	Since time.Time `json:"since"`
	// Share is the share of the requests of the last ten seconds that were decided without
	// the store.
	Share  float64         `json:"share"`
	Shards []DegradedShard `json:"shards"`
	More   int             `json:"more,omitempty"` // number of shards that are left out
}

// DegradedShard is a server of the store that fails, or failed in the last ten seconds.
type DegradedShard struct {
	Shard string    `json:"shard"` // empty if the store has only one server
	Since time.Time `json:"since"`
	Open  bool      `json:"open"` // the circuit breaker is open
	// Policies has the claims of the last ten seconds that were decided without it.
	Policies Policies `json:"policies"`
}

const (
	// calm is the number of seconds without a degraded decision that end a degradation. An
	// outage with pauses is shown as one.
	calm = 10
	// mostShards bounds the shards that a second lists.
	mostShards = 16
)

// degrading follows degradations from second to second.
type degrading struct {
	all      episode
	requests [calm][2]uint64 // degraded and all requests of the last seconds
	next     int             // index in requests
	shards   map[string]*shardEpisode
}

// episode is one degradation, from its first second to calm seconds after its last.
type episode struct {
	since time.Time // zero: there is none
	calm  int       // number of seconds since its last
}

// note ends a second that began at the given time.
func (e *episode) note(active bool, began time.Time) {
	switch {
	case active && e.since.IsZero():
		e.since, e.calm = began, 0
	case active:
		e.calm = 0
	default:
		if e.calm++; e.calm > calm {
			e.since = time.Time{}
		}
	}
}

type shardEpisode struct {
	episode

	open   bool
	recent [calm]Policies
	seen   time.Time // the end of the last second in which the store had the shard
}

// end ends a second, and returns the degradation that it is part of, or nil.
func (d *degrading) end(s *Second, began, now time.Time, shards, before []Shard) *Degradation {
	if d.shards == nil {
		d.shards = map[string]*shardEpisode{}
	}
	d.next = (d.next + 1) % calm
	d.requests[d.next] = [2]uint64{s.Degraded, s.Allowed + s.Denied}
	was := make(map[string]Policies, len(before))
	for _, one := range before {
		was[one.Name] = one.Degraded
	}
	active := s.Degraded > 0
	for _, one := range shards {
		e := d.shards[one.Name]
		if e == nil {
			e = &shardEpisode{}
			d.shards[one.Name] = e
		}
		n := one.Degraded.since(was[one.Name])
		e.recent[d.next], e.open, e.seen = n, one.Open, now
		e.note(one.Open || n != Policies{}, began)
		active = active || one.Open || n != Policies{}
	}
	maps.DeleteFunc(d.shards, func(_ string, e *shardEpisode) bool { return !e.seen.Equal(now) }) // the store no longer has it
	d.all.note(active, began)
	if d.all.since.IsZero() {
		return nil
	}
	return d.state()
}

func (d *degrading) state() *Degradation {
	state := &Degradation{Since: d.all.since.UTC(), Shards: []DegradedShard{}}
	var degraded, requests uint64
	for _, n := range d.requests {
		degraded, requests = degraded+n[0], requests+n[1]
	}
	if requests > 0 {
		state.Share = float64(degraded) / float64(requests)
	}
	for name, e := range d.shards {
		if e.since.IsZero() {
			continue
		}
		one := DegradedShard{Shard: name, Since: e.since.UTC(), Open: e.open}
		for _, n := range e.recent {
			one.Policies = one.Policies.plus(n)
		}
		state.Shards = append(state.Shards, one)
	}
	slices.SortFunc(state.Shards, func(a, b DegradedShard) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Shard, b.Shard))
	})
	if state.More = max(0, len(state.Shards)-mostShards); state.More > 0 {
		state.Shards = state.Shards[:mostShards]
	}
	return state
}
