package guard

import (
	"context"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
)

// forgotten is after how long without a check a failing shard is given up:
// when another server has taken its place, nobody asks for it any more.
const forgotten = time.Minute

// superviseRecovery stays with a shard from when its breaker opens to when it closes: it
// has the store leave the server alone, and probes it.
func (s *shards) superviseRecovery(ctx context.Context, sh *shard, why breaker.Reason) {
	since := time.Now()
	s.stop(sh)
	s.tellFailing(ctx, sh, why)
	wanted, refused := since, sh.refused.Load()
	for pause(ctx, sh.breaker.RetryAfter()) {
		if n := sh.refused.Load(); n != refused || s.sharded == nil || sh.server != nil {
			wanted, refused = time.Now(), n
		}
		switch {
		case s.probe(ctx, sh):
			s.tellRecovered(ctx, sh, time.Since(since))
			return
		case sh.server != nil && s.forgot(sh.server):
			return
		case time.Since(wanted) >= forgotten:
			s.forget(sh)
			s.tellForgotten(ctx, sh)
			return
		}
	}
}

// probe asks the server twice, and reports whether the breaker is closed after.
// The first time it may take longer, because it has to connect; only the
// second is judged as a check is. The server is started before the breaker
// closes, so that no check finds it stopped.
func (s *shards) probe(ctx context.Context, sh *shard) bool {
	err := s.ask(ctx, sh, 2*s.guard.options.Deadline)
	call, ok := sh.breaker.BeginProbe()
	if !ok {
		return sh.breaker.State() == breaker.Closed
	}
	if err == nil {
		err = s.ask(ctx, sh, s.guard.options.Deadline)
	}
	if err != nil {
		sh.noteFailure(err)
		call.Failure()
		return false
	}
	s.start(sh)
	call.Success()
	if sh.breaker.State() == breaker.Open { // it was too slow
		s.stop(sh)
	}
	return sh.breaker.State() == breaker.Closed
}

// ask probes the server: by the store's own means, else by a peek, which
// charges nothing.
func (s *shards) ask(ctx context.Context, sh *shard, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if s.sharded != nil {
		return s.sharded.Probe(ctx, sh.place())
	}
	limit, err := stint.ParseLimit("1/s")
	if err == nil {
		_, err = s.guard.store.Take(ctx, stint.Claim{Key: "guard:probe", Limit: limit})
	}
	return err
}

// stop leaves the connections open where only replicas fail: others use them.
func (s *shards) stop(sh *shard) {
	if sh.server != nil {
		return
	}
	if store, ok := s.guard.store.(Stopper); ok {
		store.Stop(sh.name)
	}
}

func (s *shards) start(sh *shard) {
	if sh.server != nil {
		return
	}
	if store, ok := s.guard.store.(Stopper); ok {
		store.Start(sh.name)
	}
}

// up reports whether no shard is left alone.
func (s *shards) up() bool {
	for _, sh := range *s.named.Load() {
		if !sh.up() {
			return false
		}
	}
	return true
}
