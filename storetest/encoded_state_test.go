package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/storekit"
)

// byteStore keeps encoded states in a map, like a store in front of a server, and
// takes steps by Limit.Step.
type byteStore struct {
	clock func() time.Time
	mu    sync.Mutex
	bytes map[string][]byte
	calls rememberedCalls
}

func TestEncodedStatesObeyTheLaws(t *testing.T) {
	Suite{Keeps: true, Open: func(_ *testing.T, clock func() time.Time) stint.Store {
		return &byteStore{clock: clock, bytes: map[string][]byte{}, calls: rememberedCalls{}}
	}}.Run(t)
}

func (b *byteStore) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	var out [1]stint.Decision
	err := b.TakeGroups(ctx, []stint.Group{{Claims: []stint.Claim{c}}}, out[:])
	if groups := (*stint.GroupsError)(nil); errors.As(err, &groups) {
		err = groups.Errs[0]
	}
	return out[0], err
}

func (b *byteStore) TakeGroups(_ context.Context, groups []stint.Group, out []stint.Decision) error {
	if err := storekit.CheckOut(groups, out); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at, now, failed := 0, b.clock().UnixMicro(), storekit.Errors{}
	for i := range groups {
		g := &groups[i]
		charge := !g.Dry
		for part := range g.Parts() {
			claims := g.Part(part)
			err := stint.ValidateClaims(claims)
			var before []stint.Decision
			if part == 0 && err == nil {
				before, err = b.calls.recall(g, now)
			}
			admitted := false
			switch failed.Set(at, groups, err); {
			case err != nil || before != nil:
				clear(out[:len(claims)])
				copy(out, before)
			default:
				if admitted = b.take(claims, now, charge, out[:len(claims)]); part == 0 {
					b.calls.remember(g, out[:len(claims)], now)
				}
			}
			if part == 0 {
				charge = charge && admitted
			}
			out, at = out[len(claims):], at+1
		}
	}
	return failed.Err()
}

func (b *byteStore) take(claims []stint.Claim, now int64, charge bool, out []stint.Decision) bool {
	for i := range claims {
		out[i] = b.step(&claims[i], now, true)
	}
	_, binding := stint.Combine(claims, out)
	for i := range claims {
		if binding.Allowed && charge && out[i].Allowed {
			out[i] = b.step(&claims[i], now, false)
		}
	}
	return binding.Allowed
}

func (b *byteStore) step(c *stint.Claim, now int64, dry bool) stint.Decision {
	l := c.Limit
	key := strings.Join([]string{l.Namespace(), l.Rule(), l.Name(), l.Shape(), c.Key, strconv.FormatBool(l.FromCaller())}, "\x00")
	s, err := l.DecodeState(b.bytes[key])
	if err != nil {
		panic(err)
	}
	d := l.Step(&s, now, c, dry)
	b.bytes[key] = l.AppendState(nil, &s)
	return d
}
