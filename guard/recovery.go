package guard

import (
	"context"
	"log/slog"
	"time"

	"github.com/stintdev/stint"
	"github.com/stintdev/stint/resilience/breaker"
)

// forgetAfter is the time without a refused check after which a failing shard is
// removed. Once another server has replaced it, no check names it.
const forgetAfter = time.Minute

// superviseRecovery stops a shard whose breaker has opened, and probes it until the
// breaker closes, the shard is forgotten, or the guard is closed. Only a server of a
// Sharded store is forgotten, and its replicas with it.
func (s *shards) superviseRecovery(ctx context.Context, sh *shard, why string) {
	since := time.Now()
	s.stop(sh)
	s.logFailing(ctx, sh, why)
	wanted, refused := since, sh.refused.Load()
	for pause(ctx, sh.breaker.RetryAfter()) {
		if n := sh.refused.Load(); n != refused || s.sharded == nil || sh.server != nil {
			wanted, refused = time.Now(), n
		}
		switch {
		case s.probe(ctx, sh):
			s.logRecovered(ctx, sh, time.Since(since))
			return
		case sh.server != nil && s.isForgotten(sh.server):
			return
		case time.Since(wanted) >= forgetAfter:
			s.forget(sh)
			s.logForgotten(ctx, sh)
			return
		}
	}
}

// probe sends two requests to the server, and reports whether the breaker is closed
// afterwards. The first request has to connect, so it may take twice the deadline.
// Only the second counts in the breaker, like a check. The server is started before the
// breaker closes, so that no check finds it stopped.
func (s *shards) probe(ctx context.Context, sh *shard) bool {
	err := s.sendProbe(ctx, sh, 2*s.guard.options.Deadline)
	call, ok := sh.breaker.BeginProbe()
	if !ok {
		return sh.breaker.State() == breaker.Closed
	}
	if err == nil {
		err = s.sendProbe(ctx, sh, s.guard.options.Deadline)
	}
	if err != nil {
		sh.noteFailure(err)
		call.Failure()
		return false
	}
	s.start(sh)
	call.Success()
	if sh.breaker.State() == breaker.Open { // a slow probe keeps the breaker open
		s.stop(sh)
	}
	return sh.breaker.State() == breaker.Closed
}

// sendProbe sends one probe: the store's own if it is Sharded, and a peek otherwise, which
// charges nothing.
func (s *shards) sendProbe(ctx context.Context, sh *shard, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if s.sharded != nil {
		return s.sharded.Probe(ctx, sh.serverName())
	}
	limit, err := stint.ParseLimit("1/s")
	if err == nil {
		_, err = s.guard.store.Take(ctx, stint.Claim{Key: "guard:probe", Limit: limit})
	}
	return err
}

// stop has the store stop sending to a server. It does nothing for replicas, because
// other calls use the same connections.
func (s *shards) stop(sh *shard) {
	if s.sharded != nil && sh.server == nil {
		s.sharded.Stop(sh.name)
	}
}

func (s *shards) start(sh *shard) {
	if s.sharded != nil && sh.server == nil {
		s.sharded.Start(sh.name)
	}
}

// up reports whether the breaker of every server lets calls through.
func (s *shards) up() bool {
	for _, sh := range *s.named.Load() {
		if !sh.up() {
			return false
		}
	}
	return true
}

// logFailing logs that the breaker of a shard has opened, and why.
func (s *shards) logFailing(ctx context.Context, sh *shard, why string) {
	attrs := []slog.Attr{slog.String("shard", sh.name), slog.String("why", why)}
	if err := sh.failure.Load(); err != nil {
		attrs = append(attrs, slog.String("error", (*err).Error()))
	}
	text := "store unavailable, circuit open: each check is decided by its failure policy"
	if sh.server != nil {
		text = "replicas unavailable, circuit open: checks that need replicas are decided by their failure policy, other checks use the store"
	}
	s.logChange(ctx, slog.LevelWarn, text, attrs...)
}

func (s *shards) logRecovered(ctx context.Context, sh *shard, after time.Duration) {
	text := "store available again, circuit closed"
	if sh.server != nil {
		text = "replicas available again, circuit closed"
	}
	s.logChange(ctx, slog.LevelInfo, text, slog.String("shard", sh.name), slog.Duration("after", after))
}

func (s *shards) logForgotten(ctx context.Context, sh *shard) {
	s.logChange(ctx, slog.LevelInfo, "store forgotten: it stayed unavailable, and no check uses it any more", slog.String("shard", sh.name))
}

func (s *shards) logChange(ctx context.Context, level slog.Level, text string, attrs ...slog.Attr) {
	s.guard.options.Logger.LogAttrs(ctx, level, text, attrs...)
}
