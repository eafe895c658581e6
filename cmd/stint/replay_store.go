package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/cmd/stint/internal/replay"
	"github.com/stintdev/stint/internal/secret"
	"github.com/stintdev/stint/memcachedstore"
	"github.com/stintdev/stint/postgresstore"
	"github.com/stintdev/stint/redisstore"
	"github.com/stintdev/stint/storekit"
)

// replayStore is the shared store of a replay. The zero value is no shared
// store.
type replayStore struct {
	prefix string
	up     func() bool                 // whether the store is connected; nil: it says so by its first decision
	forget func(context.Context) error // deletes the keys of the replay
	close  func() error
}

// replayRetention is how much longer than their states the keys of a replay
// live. It bounds what a killed replay leaves behind.
const replayRetention = time.Hour

// openStore opens the store that the flags name, and sets it in the options. It waits for the
// connection until ctx ends. The replay uses keys below a random prefix, so it neither reads nor
// writes live keys.
func (f *replayFlags) openStore(ctx context.Context, o *replay.Options, logs io.Writer) (s replayStore, err error) {
	if f.store == memoryStore {
		return s, nil
	}
	if err := checkOneStore(f.store); err != nil {
		return s, err
	}
	password, err := openSecret("store-password-file", "password", f.storePasswordFile)
	if err != nil {
		return s, err
	}
	open := f.newRedis
	switch {
	case isPostgres(f.store):
		open = f.newPostgres
	case isMemcached(f.store):
		open = f.newMemcached
	case isDynamo(f.store):
		open = f.newDynamo
	case isQuorum(f.store):
		open = f.newQuorum
	}
	now := time.Now
	s.prefix = "stint:replay:" + rand.Text()
	log := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, err := open(&s, password, func() time.Time { return now() }, log)
	if err != nil {
		return s, err
	}
	if s.up != nil {
		awaitStore(func() bool { return s.up() || ctx.Err() != nil }) // on failure the first decision returns the cause
	}
	o.Store = func(clock func() time.Time) stint.Store {
		now = clock
		return store
	}
	return s, nil
}

// newRedis makes a store in Redis that records its keys.
func (f *replayFlags) newRedis(s *replayStore, password *secret.Text, clock func() time.Time, log *slog.Logger) (stint.Store, error) {
	options, err := storeOptions(f.store, password)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.Clock, options.Logger = s.prefix, clock, log
	options.KeepFor, options.Heartbeat = replayRetention, -1
	store, err := redisstore.New(options)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	recorder := newStateRecorder(store)
	s.up = func() bool { return store.Stats().Up }
	s.forget, s.close = recorder.forgetAll, store.Close
	return recorder, nil
}

// newPostgres makes a store in PostgreSQL, which can find the keys of a prefix.
func (f *replayFlags) newPostgres(s *replayStore, password *secret.Text, clock func() time.Time, log *slog.Logger) (stint.Store, error) {
	options, err := postgresOptions(f.store, password)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.Clock, options.Logger = s.prefix, clock, log
	options.KeepFor, options.Heartbeat, options.Sweep = replayRetention, -1, -1
	store, err := postgresstore.New(options)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	s.forget, s.close = store.Clear, store.Close
	return store, nil
}

// newMemcached makes a store in Memcached that records its keys.
func (f *replayFlags) newMemcached(s *replayStore, _ *secret.Text, clock func() time.Time, log *slog.Logger) (stint.Store, error) {
	options, err := memcachedOptions(f.store, f.storePasswordFile)
	if err != nil {
		return nil, err
	}
	options.Prefix, options.Clock, options.Logger = s.prefix, clock, log
	options.KeepFor, options.Heartbeat = replayRetention, -1
	store, err := memcachedstore.New(options)
	if err != nil {
		return nil, usagef("store: %w", err)
	}
	recorder := newStateRecorder(store)
	s.forget, s.close = recorder.forgetAll, store.Close
	return recorder, nil
}

// untilSignal returns a context that ends at the first signal: a replay then deletes its keys and
// reports what it has decided, and a search reports on what it has read. A second signal ends the process at once.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, restore := signal.NotifyContext(ctx, endingSignals()...)
	context.AfterFunc(ctx, restore)
	return ctx, restore
}

var errInterrupted = errors.New("replay: interrupted: the report covers the events decided so far")

// endingSignals returns the signals that end a replay. A closed terminal sends SIGHUP;
// nohup has it ignored, and the replay then goes on.
func endingSignals() []os.Signal {
	list := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// cleanUpTime bounds the deletion of the keys of a replay: a server may hang.
const cleanUpTime = 5 * time.Minute

// cleanUp deletes the keys of the replay, also after an interruption, and closes
// the store.
func (s *replayStore) cleanUp(ctx context.Context) error {
	if s.forget == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
	defer cancel()
	err := s.forget(ctx)
	if err != nil {
		err = fmt.Errorf("the counts below %s could not all be deleted, and expire by themselves: %w", s.prefix, err)
	}
	return errors.Join(err, s.close())
}

// stateRecorder is a Store that records the keys of the states that it may have
// made, so that a replay can delete them. Only one goroutine may use it.
//
// A replay may change the numbers of its limit any number of times. Limits that
// differ only in numbers count in the same states, so they share one set of
// keys.
type stateRecorder struct {
	stint.Store
	byLimit map[stint.Limit]*recordedKeys
	byScope map[storekit.Scope]*recordedKeys
}

// recordedKeys are the keys of one scope.
type recordedKeys struct {
	limit stint.Limit // any limit of the scope
	keys  map[string]struct{}
}

func newStateRecorder(store stint.Store) *stateRecorder {
	return &stateRecorder{store, map[stint.Limit]*recordedKeys{}, map[storekit.Scope]*recordedKeys{}}
}

func (r *stateRecorder) Take(ctx context.Context, c stint.Claim) (stint.Decision, error) {
	r.record(&c)
	return r.Store.Take(ctx, c)
}

func (r *stateRecorder) TakeGroups(ctx context.Context, groups []stint.Group, out []stint.Decision) error {
	for c := range storekit.Claims(groups) {
		r.record(c)
	}
	return r.Store.TakeGroups(ctx, groups, out)
}

// record records the state of a claim. It copies a new key, because the key may
// be part of a larger text.
func (r *stateRecorder) record(c *stint.Claim) {
	recorded := r.byLimit[c.Limit]
	if recorded == nil {
		l := c.Limit
		scope := storekit.ScopeOf(l)
		if recorded = r.byScope[scope]; recorded == nil {
			recorded = &recordedKeys{l, map[string]struct{}{}}
			r.byScope[scope] = recorded
		}
		r.byLimit[l] = recorded
	}
	if _, known := recorded.keys[c.Key]; !known {
		recorded.keys[strings.Clone(c.Key)] = struct{}{}
	}
}

// forgetBatch is the number of states that one call forgets.
const forgetBatch = 256

// forgetAll deletes every recorded state.
func (r *stateRecorder) forgetAll(ctx context.Context) error {
	var errs []error
	for _, recorded := range r.byScope {
		errs = append(errs, r.forget(ctx, recorded))
	}
	return errors.Join(errs...)
}

func (r *stateRecorder) forget(ctx context.Context, recorded *recordedKeys) error {
	// Each claim is a group of its own, so that one failure does not affect others.
	groups := make([]stint.Group, 0, forgetBatch)
	left := len(recorded.keys)
	for key := range recorded.keys {
		groups = append(groups, stint.Group{Claims: []stint.Claim{{Key: key, Limit: recorded.limit, Cost: stint.Forget}}})
		if left--; left > 0 && len(groups) < forgetBatch {
			continue
		}
		if err := r.Store.TakeGroups(ctx, groups, make([]stint.Decision, len(groups))); err != nil {
			return err
		}
		groups = groups[:0]
	}
	return nil
}
