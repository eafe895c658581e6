package guard

import (
	"context"
	"log/slog"
	"time"

	"github.com/stintdev/stint/resilience/breaker"
)

// logFailing logs that the breaker of a shard has opened, and why.
func (s *shards) logFailing(ctx context.Context, sh *shard, why breaker.Reason) {
	attrs := []slog.Attr{slog.String("shard", sh.name), slog.String("why", why.String())}
	if err := sh.failure.Load(); err != nil {
		attrs = append(attrs, slog.String("error", (*err).Error()))
	}
	text := "the store fails: it is left alone, and rules decide by on_store_failure"
	if sh.server != nil {
		text = "calls that wait for replicas fail: rules with replicas decide by on_store_failure, other rules go on"
	}
	s.logChange(ctx, slog.LevelWarn, text, attrs...)
}

func (s *shards) logRecovered(ctx context.Context, sh *shard, after time.Duration) {
	text := "the store answers again"
	if sh.server != nil {
		text = "calls that wait for replicas are made again"
	}
	s.logChange(ctx, slog.LevelInfo, text, slog.String("shard", sh.name), slog.Duration("after", after))
}

func (s *shards) logForgotten(ctx context.Context, sh *shard) {
	s.logChange(ctx, slog.LevelInfo, "the store did not come back, and nobody asks for it any more", slog.String("shard", sh.name))
}

func (s *shards) logChange(ctx context.Context, level slog.Level, text string, attrs ...slog.Attr) {
	s.guard.options.Logger.LogAttrs(ctx, level, text, attrs...)
}
