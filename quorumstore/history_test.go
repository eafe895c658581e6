package quorumstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stintdev/stint"
)

// check returns what is wrong in a run. It knows the calls with their answers, and of the store
// only what checkCommits does.
func (s *simulation) check(skew time.Duration) error {
	for _, check := range []func() error{
		func() error { return s.checkShort("k", skew) },
		func() error { return s.checkShort("short", skew) },
		s.checkOrder, s.checkUsed, s.checkCommits,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkShort returns an error if the calls that the short limit allowed for a key between any two
// times are more than its law allows.
func (s *simulation) checkShort(key string, skew time.Duration) error {
	var short []*simTake
	for _, h := range s.history {
		if h.key == key && h.short && h.allowed {
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

// checkOrder returns an error if two calls got the same unit of the long limit, or if a call did
// not see one that had ended before it began. Each call takes one unit or none, so the number of
// units used orders the calls.
func (s *simulation) checkOrder() error {
	takers := map[int]*simTake{}
	var known []*simTake
	for _, h := range s.history {
		if !h.long || h.err != nil {
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
func (s *simulation) checkUsed() error {
	least, most := 0, 0
	for _, h := range s.history {
		if h.long && h.allowed {
			least, most = least+1, most+1
		}
		if h.long && (h.code == stint.CodeTimeout || h.code == stint.CodeCanceled) {
			most++
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*simTimeout)
	defer cancel()
	d, err := s.nodes[len(s.nodes)-1].store.Take(ctx, longClaim("k"))
	if err != nil {
		return nil // no majority is old enough any more
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
