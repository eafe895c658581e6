package quorumstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// check returns what is wrong in a run. It knows the calls with their answers, and of the store
// only what checkCommits does.
func (s *simulation) check(skew time.Duration) error {
	for _, key := range s.keys() {
		for _, check := range []func() error{
			func() error { return s.checkShort(key, skew) },
			func() error { return s.checkShortDenials(key, skew) },
			func() error { return s.checkMid(key) },
			func() error { return s.checkOrder(key) },
			func() error { return s.checkUsed(key) },
		} {
			if err := check(); err != nil {
				return fmt.Errorf("key %q: %w", key, err)
			}
		}
	}
	return s.checkCommits()
}

// keys returns the keys of all calls.
func (s *simulation) keys() (keys []string) {
	for _, h := range s.history {
		keys = append(keys, h.key, h.shortKey())
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// of returns the calls on a key.
func (s *simulation) of(key string) (calls []*simTake) {
	for _, h := range s.history {
		if h.key == key {
			calls = append(calls, h)
		}
	}
	return calls
}

// repeats reports whether the charge of a call is that of an earlier one with the same id that was allowed.
func (s *simulation) repeats(h *simTake) bool {
	for _, o := range s.history {
		if o == h {
			return false
		}
		if h.repeated && o.once == h.once && o.allowed {
			return true
		}
	}
	return false
}

// admits reports whether a call was allowed, and its charge is not that of an earlier one that was. The first
// answer of a call that had none before tells of its charge. It is left out where the rows of short limits
// expire before what is remembered: the write of that call may then be found, although others have
// used the limit since.
func (s *simulation) admits(h *simTake) bool {
	return h.allowed && (!h.repeated || s.rules.keepsRows && !s.repeats(h))
}

// wasAllowed reports whether a call, or one with the same id, was allowed.
func (s *simulation) wasAllowed(h *simTake) bool {
	return h.allowed || h.once != "" && slices.ContainsFunc(s.history, func(o *simTake) bool { return o.once == h.once && o.allowed })
}

// checkShort returns an error if the calls that the short limit allowed for a key between any two
// times are more than its law allows.
func (s *simulation) checkShort(key string, skew time.Duration) error {
	var short []*simTake
	for _, h := range s.history {
		if h.shortKey() == key && h.short && s.admits(h) {
			short = append(short, h)
		}
	}
	slices.SortFunc(short, func(a, b *simTake) int { return int(a.at - b.at) })
	for i := range short {
		units := int64(0)
		for j := i; j < len(short); j++ {
			units += short[j].cost
			took := time.Duration(short[j].at-short[i].at) * time.Microsecond
			if allowed := simBurst + float64(took+2*skew)/float64(time.Second); float64(units) > allowed+1e-6 {
				return fmt.Errorf("over-admission of %q: %d of %.3f in %v from %v%s", key, units, allowed, took, time.UnixMicro(short[i].at).Sub(s.begun), s.told(short[i:j+1]))
			}
		}
	}
	return nil
}

// longestWay is how long a write may be under way after the end of its call.
const longestWay = 10 * time.Second

// checkShortDenials returns an error if the short limit denied a call of a key although all that may
// have been charged leaves enough. It checks only runs in which the limit kept its numbers. A call of two
// keys may charge one of them for a moment although it is denied.
func (s *simulation) checkShortDenials(key string, skew time.Duration) error {
	if s.varied.Load() || s.split {
		return nil
	}
	type charge struct {
		at    int64
		units float64
	}
	for _, denied := range s.history {
		if denied.shortKey() != key || !denied.noShort {
			continue
		}
		var charges []charge
		for _, h := range s.history {
			if h.shortKey() != key || !h.short || !h.from.Before(denied.to) {
				continue
			}
			switch late := h.to.Add(longestWay).UnixMicro(); {
			case h.allowed:
				charges = append(charges, charge{min(h.at, denied.at), float64(h.cost)})
			case h.unknown():
				charges = append(charges, charge{min(late, denied.at), float64(h.cost)})
			}
		}
		slices.SortFunc(charges, func(a, b charge) int { return cmp.Compare(a.at, b.at) })
		taken, last := 0.0, int64(0)
		for _, c := range append(charges, charge{at: denied.at}) {
			taken = max(0, taken-float64(c.at-last)/1e6) + c.units
			last = c.at
		}
		if taken+float64(denied.cost)+2*skew.Seconds() <= simBurst {
			return fmt.Errorf("a call of %q was denied although at most %.3f of %d units were taken%s", key, taken, simBurst, s.told([]*simTake{denied}))
		}
	}
	return nil
}

// checkMid returns an error if a window of the mid limit admitted too much, or denied a call although
// all that may have been charged in it leaves enough.
func (s *simulation) checkMid(key string) error {
	window := func(at int64) int64 { return at / s.midWindow.Microseconds() }
	allowed := map[int64]int64{}
	for _, h := range s.of(key) {
		if h.mid && s.admits(h) {
			if allowed[window(h.midAt)] += h.cost; allowed[window(h.midAt)] > simMidLimit {
				return fmt.Errorf("a window of the mid limit admitted more than %d%s", simMidLimit, s.told([]*simTake{h}))
			}
		}
	}
	for _, denied := range s.of(key) {
		if !denied.noMid || s.split {
			continue
		}
		taken := int64(0)
		for _, h := range s.of(key) {
			if h.mid && h.from.Before(denied.to) && (h.unknown() || h.allowed && window(h.midAt) == window(denied.midAt)) {
				taken += h.cost
			}
		}
		if taken+denied.cost <= simMidLimit {
			return fmt.Errorf("the mid limit denied a call although at most %d of %d units were taken%s", taken, simMidLimit, s.told([]*simTake{denied}))
		}
	}
	return nil
}

// checkOrder returns an error if two calls got the same unit of the long limit, or if a call did
// not see one that had ended before it began. Each call takes one unit or none, so the number of
// units used orders the calls, unless some calls charge a unit for a moment.
func (s *simulation) checkOrder(key string) error {
	if s.split {
		return nil
	}
	takers := map[int]*simTake{}
	var known []*simTake
	for _, h := range s.of(key) {
		if !h.long || h.err != nil || h.repeated {
			continue
		}
		known = append(known, h)
		if !h.allowed {
			continue
		}
		if other := takers[h.used]; other != nil {
			return fmt.Errorf("two calls got unit %d of the long limit%s", h.used, s.told([]*simTake{other, h}))
		}
		takers[h.used] = h
	}
	for _, h := range known {
		for _, before := range known {
			if before.to.Before(h.from) && (before.used > h.used || before.used == h.used && h.allowed) {
				return fmt.Errorf("a call did not see an earlier one: %d units used after %d%s", h.used, before.used, s.told([]*simTake{before, h}))
			}
		}
	}
	return nil
}

// checkUsed returns an error if the long limit has other charges at the end than the calls say.
func (s *simulation) checkUsed(key string) error {
	least, most := 0, 0
	for _, h := range s.of(key) {
		if h.long && h.allowed && !s.repeats(h) {
			least, most = least+1, most+1
		}
		if h.long && h.unknown() && (h.short || !s.wasAllowed(h)) { // a repeat may charge what is left of two limits again
			most++
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
	defer cancel()
	d, err := s.nodes[len(s.nodes)-1].store.Take(ctx, longClaim(key))
	switch {
	case err != nil && s.recovers:
		return fmt.Errorf("no recovery: %w", err)
	case err != nil:
		return nil // a majority has lost its data
	}
	if used := simQuota - int(d.Remaining); used < least || used > most {
		return fmt.Errorf("%d units are used: %d calls were allowed, and %d may have been charged", used, least, most)
	}
	return nil
}

// told lists calls, and the offsets of the clocks.
func (s *simulation) told(calls []*simTake) string {
	var text strings.Builder
	for _, sv := range s.servers {
		fmt.Fprintf(&text, " %v", sv.offset)
	}
	for _, h := range calls {
		fmt.Fprintf(&text, "\n\tnode %d takes %d at %v, from %v to %v", h.node, h.cost, time.UnixMicro(h.at).Sub(s.begun), h.from.Sub(s.begun), h.to.Sub(s.begun))
	}
	return text.String()
}
