package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/redisstore"
)

// replayStore is a shared store that a replay decides on, under keys of its
// own. The zero value is none.
type replayStore struct {
	states *forgetting
	prefix string
	close  func() error
}

// keepReplayed is how much longer than their states the keys of a replay live,
// should it end without deleting them.
const keepReplayed = time.Hour

// openStore makes the replay decide on the store that the flags name. What the
// context returned says is over at the first signal: then there are keys to
// delete.
func (f *replayFlags) openStore(ctx context.Context, o *replay.Options, logs io.Writer) (s replayStore, _ context.Context, err error) {
	if f.store == memoryStore {
		return s, ctx, nil
	}
	options, err := storeOptions(f.store, f.storePasswordFile)
	if err != nil {
		return s, ctx, err
	}
	now := func() int64 { return time.Now().UnixMicro() }
	s.prefix = "stint:replay:" + rand.Text()
	options.Prefix, options.Clock = s.prefix, func() int64 { return now() }
	options.KeepFor, options.Heartbeat = keepReplayed, -1
	options.Logger = slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, err := redisstore.New(options)
	if err != nil {
		return s, ctx, usagef("store: %w", err)
	}
	reached(func() bool { return store.Stats().Up }) // if not, the first decision says why
	s.states, s.close = newForgetting(store), store.Close
	o.Store = func(clock func() int64) stint.Store {
		now = clock
		return s.states
	}
	ctx, restore := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // a second signal ends the process at once
	return s, ctx, nil
}

// end deletes the keys of the replay, also of one that was interrupted.
func (s *replayStore) end(ctx context.Context) error {
	if s.states == nil {
		return nil
	}
	err := s.states.forget(context.WithoutCancel(ctx))
	if err != nil {
		err = fmt.Errorf("keys under %s: stay and expire by themselves: %w", s.prefix, err)
	}
	return errors.Join(err, s.close())
}

// forgetting is a Store that remembers which states it may have made, so that
// it can remove them. It is for one goroutine.
type forgetting struct {
	stint.Store
	keys   map[stint.Limit]map[string]struct{} // limits of one scope and shape share a map
	shapes map[limitShape]map[string]struct{}
}

// limitShape is what says which limits count in one state.
type limitShape struct {
	namespace, rule, name, shape string
	fromCaller                   bool
}

func shapeOf(l stint.Limit) limitShape {
	return limitShape{l.Namespace(), l.Rule(), l.Name(), l.Shape(), l.FromCaller()}
}

func newForgetting(store stint.Store) *forgetting {
	return &forgetting{store, map[stint.Limit]map[string]struct{}{}, map[limitShape]map[string]struct{}{}}
}

func (f *forgetting) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	f.note(&c)
	return f.Store.Take(ctx, c)
}

func (f *forgetting) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for i := range groups {
		for j := range groups[i].Claims {
			f.note(&groups[i].Claims[j])
		}
	}
	return f.Store.TakeGroups(ctx, groups, out)
}

// note remembers a claim's state. The key may be part of a greater text: it is
// copied when it is new.
func (f *forgetting) note(c *stint.Claim) {
	keys, known := f.keys[c.Limit]
	if !known {
		keys = f.keysOf(c.Limit)
	}
	if _, known := keys[c.Key]; !known {
		keys[strings.Clone(c.Key)] = struct{}{}
	}
}

func (f *forgetting) keysOf(l stint.Limit) map[string]struct{} {
	shape := shapeOf(l)
	if f.shapes[shape] == nil {
		f.shapes[shape] = map[string]struct{}{}
	}
	f.keys[l] = f.shapes[shape]
	return f.shapes[shape]
}

// forgetAtOnce is how many states one call forgets.
const forgetAtOnce = 256

// forget removes every state.
func (f *forgetting) forget(ctx context.Context) error {
	var errs []error
	done := map[limitShape]bool{}
	for limit, keys := range f.keys {
		shape := shapeOf(limit)
		if !done[shape] {
			done[shape] = true
			errs = append(errs, f.forgetKeys(ctx, limit, keys))
		}
	}
	return errors.Join(errs...)
}

func (f *forgetting) forgetKeys(ctx context.Context, limit stint.Limit, keys map[string]struct{}) error {
	claims := make([]stint.Claim, 0, forgetAtOnce)
	for key := range keys {
		claims = append(claims, stint.Claim{Key: key, Limit: limit, Cost: stint.Forget})
		if len(claims) == forgetAtOnce {
			if err := f.forgetClaims(ctx, claims); err != nil {
				return err
			}
			claims = claims[:0]
		}
	}
	return f.forgetClaims(ctx, claims)
}

// forgetClaims makes each claim a group of its own: they need not stand or
// fall together.
func (f *forgetting) forgetClaims(ctx context.Context, claims []stint.Claim) error {
	if len(claims) == 0 {
		return nil
	}
	groups := make([]stint.Group, len(claims))
	for i := range claims {
		groups[i].Claims = claims[i : i+1]
	}
	return f.Store.TakeGroups(ctx, groups, make([]stint.Decision, len(claims)))
}
