package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
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
