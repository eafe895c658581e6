package quorumstore

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/internal/cas"
)

// maxMembers is the greatest number of members.
const maxMembers = 7

// backend is a [cas.Backend] over a quorum of servers. Each item is a register of CASPaxos
// (see docs/decisions/038).
type backend struct {
	members  []*member
	majority int
	hash     uint64        // of the list of members
	slack    time.Duration // of floors, expiries and ages
	options  backendOptions
	births   births

	// Tests switch a rule off to show that it is needed.
	ageless, bareRead, noOutliving, noRepairCheck, noRepairWait, noFoundingCheck bool
	// proposes tells tests what a proposal is made from. It is nil otherwise.
	proposes func(p *proposal, chosen []part)
}

// backendOptions configures a backend.
type backendOptions struct {
	Timeout time.Duration // of a call to a server; 0 means 1 s
	// Clock is that of decisions. Nil means that of the quorum.
	Clock  func() time.Time
	Logger *slog.Logger // nil means no logging
}

// newBackend returns a backend over 3, 5 or 7 servers. It sends nothing before the first call.
func newBackend(servers []server, o backendOptions) *backend {
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &backend{majority: len(servers)/2 + 1, options: o, slack: skewSlack + o.Timeout}
	names := make([]string, len(servers))
	for i, s := range servers {
		b.members = append(b.members, &member{server: s, index: i})
		names[i] = s.name()
	}
	b.hash = membersHash(names)
	b.births.init()
	return b
}

// memo is what the backend knows of an item beside its value.
type memo struct {
	upTo    uint8     // the class that its readers were old enough for
	version uint64    // see versionOf
	seen    ballot    // the greatest promise
	expires int64     // of its parts up to upTo, the latest
	places  []place   // of its states
	kept    *promised // nil: the next round prepares
}

// Covers implements [cas.Covering].
func (m *memo) Covers(horizon time.Duration) bool { return classOfHorizon(horizon) <= int(m.upTo) }

// Load implements [cas.Backend]. It reads all servers, and answers from a majority that
// agrees. Items on which none does are finished first: the newest state is accepted by a
// majority, so that it stays.
func (b *backend) Load(ctx context.Context, loads []cas.Load) (now time.Time, err error) {
	pending := make([]*reading, len(loads))
	for i := range loads {
		pending[i] = &reading{key: loads[i].Key, at: i, least: classOfHorizon(loads[i].Horizon), isNew: loads[i].New, until: loads[i].Settle}
	}
	all := pending
	defer func() {
		for i, r := range all {
			loads[i].Item, loads[i].Err = r.item, r.err
		}
	}()
	at, pending, err := b.readFounded(ctx, pending)
	if err != nil {
		return time.Time{}, err
	}
	for attempt := 0; len(pending) > 0; attempt++ {
		if attempt > 0 && !backOff(ctx, attempt) {
			return time.Time{}, b.noAnswer(ctx)
		}
		if at, pending, err = b.finish(ctx, pending); err != nil {
			return time.Time{}, err
		}
	}
	if at == 0 { // no majority of clocks agrees any more
		return time.Time{}, b.noAnswer(ctx)
	}
	return time.UnixMicro(at), nil
}

// Swap implements [cas.Backend].
func (b *backend) Swap(ctx context.Context, swaps []cas.Swap) (now time.Time, err error) {
	proposals := make([]*proposal, len(swaps))
	at := b.quorumTime()
	for i := range swaps {
		proposals[i] = b.proposalOf(&swaps[i], at)
	}
	answered := b.propose(ctx, proposals)
	for i := range swaps {
		b.settle(ctx, &swaps[i], proposals[i])
	}
	if answered == 0 {
		return time.Time{}, nil
	}
	b.reach(ctx, swaps, answered)
	return time.UnixMicro(answered), nil
}

// proposalOf returns the proposal of a swap.
func (b *backend) proposalOf(w *cas.Swap, now int64) *proposal {
	m, known := w.Memo.(*memo)
	if !known {
		m = &memo{upTo: maxClass}
	}
	p := &proposal{key: w.Key, least: int(m.upTo), seen: m.seen, keep: w.Keep}
	parts := func() (parts []part) {
		d := division{value: w.Value, decided: w.Decided, slack: b.slack, upTo: m.upTo, read: w.Read, places: m.places, lives: w.Lives}
		parts, p.places = d.divide()
		for i := range parts {
			parts[i].expires = max(max(now, w.Decided.UnixMicro())+w.TTL.Microseconds(), m.expires)
		}
		return parts
	}
	if k := m.kept; k != nil && k.used.CompareAndSwap(false, true) {
		p.phase, p.ballot, p.upTo, p.parts = accepting, k.next, m.upTo, parts()
		for i := range p.parts {
			p.parts[i].ballot = k.next
		}
		p.granted = k.incarnations
		return p
	}
	p.change = func(p *proposal, chosen []part, _ int) bool {
		if versionOf(chosen) != m.version {
			return false
		}
		p.upTo, p.parts = m.upTo, parts()
		return true
	}
	return p
}

// settle sets the outcome of a swap.
func (b *backend) settle(ctx context.Context, w *cas.Swap, p *proposal) {
	switch p.phase {
	case done:
		w.Outcome = cas.Done
		if w.Keep {
			m := &memo{upTo: p.upTo, version: versionOf(p.parts), seen: p.kept.next, expires: p.parts[len(p.parts)-1].expires, places: p.places, kept: p.kept}
			w.Memo, w.Written = m, m.version
		}
	case unknown:
		w.Outcome, w.Err = cas.Unknown, b.unanswered(ctx, p.wrong)
	case failed:
		w.Outcome, w.Err = cas.Failed, cmp.Or(p.wrong, b.noAnswer(ctx))
	default:
		w.Outcome = cas.Lost
	}
}

// reach waits until the quorum's clock is at the times of the decisions. They were made by a
// bound that may be ahead of it by the time of a call.
func (b *backend) reach(ctx context.Context, swaps []cas.Swap, now int64) {
	var latest time.Time
	for i := range swaps {
		if w := &swaps[i]; w.Outcome == cas.Done && w.NotBefore.After(latest) {
			latest = w.NotBefore
		}
	}
	if ahead := latest.Sub(time.UnixMicro(now)); !latest.IsZero() && ahead > 0 {
		t := time.NewTimer(ahead)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// backOff waits for a random time before the next attempt. It returns false if the context
// has ended.
func backOff(ctx context.Context, attempt int) bool {
	longest := time.Millisecond << min(attempt, 5)
	t := time.NewTimer(longest/4 + rand.N(longest))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var (
	_ cas.Backend  = (*backend)(nil)
	_ cas.Covering = (*memo)(nil)
)

// corrupt returns the error of a key whose row is not one of this package.
func corrupt(key string) error {
	return &stint.Error{Kind: stint.KindCorrupt, Problem: "the row of the key " + key + " is not in the format of this version",
		Mend: "make sure that nothing else writes the keys of the store, and reset the key"}
}
